"""The log cleaner's room: compaction by key, in the background (storage only, no asyncio)."""

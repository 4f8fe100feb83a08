"""The log cleaner: compaction by key, in the background (storage only, no asyncio)."""

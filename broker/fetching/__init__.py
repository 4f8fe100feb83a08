"""State that outlives one Fetch: sessions, and requests that wait for records.

The module `broker.handlers.fetch` answers a Fetch.
"""

"""State that outlives one Fetch: sessions, and requests that wait for records.

How a Fetch is answered is in `broker.handlers.fetch`.
"""

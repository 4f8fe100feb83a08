"""What the broker remembers between fetches: sessions, and requests that wait for records.

Here goes what outlives one Fetch. How one is answered is in `broker.handlers.fetch`.
"""

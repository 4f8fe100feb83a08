"""One partition: its segments in order, reading them, dropping them, opening them at a start.

Here goes what needs more than one segment. `storage.appending` has the way of a batch into it.
"""

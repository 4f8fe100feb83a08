"""One partition: its segments in order, reading them, dropping them, opening them at a start.

Here goes what needs more than one segment, and the end of the log that takes batches.
"""

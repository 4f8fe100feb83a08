"""One partition: its segments in order, reading them, dropping them, opening them at a start.

This folder has code that needs more than one segment, and the end of the log, where batches are
appended.
"""

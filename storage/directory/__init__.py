"""A log directory: its lock, its own files, and the partition folders in it.

Here goes what is said once for a directory or for all of them, the housekeeping thread included.
"""

"""A log directory: its lock, its own files, and the partition folders in it.

This folder has the code that exists once per directory or once for all directories, including the
housekeeping thread.
"""

"""The threads that send large ranges of files.

This folder has the threads and their compiled loop.
"""

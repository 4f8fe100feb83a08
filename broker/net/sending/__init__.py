"""The threads that send large ranges of files.

Here go the threads and their compiled loop.
"""

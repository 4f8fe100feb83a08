"""The threads that send large ranges of files.

Here go the threads, their compiled loop, its plain form, and the table that they share.
"""

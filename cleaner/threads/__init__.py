"""The threads that make passes, and the process that they use without compiled loops.

Here go the threads and the limit for their reads and writes.
"""

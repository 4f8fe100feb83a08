"""The threads that make passes.

Here go the threads and the limit for their reads and writes.
"""

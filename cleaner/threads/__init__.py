"""The threads that run passes.

This folder has the threads and the limit for their reads and writes.
"""

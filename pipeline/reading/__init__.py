"""From a split to rows: bytes from files or from the network, decoded into columns.

This folder has the work of a task, in any process.
"""

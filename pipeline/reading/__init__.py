"""From a split to rows: bytes from files or from the network, decoded into columns.

Here goes the work of a task, in any process.
"""

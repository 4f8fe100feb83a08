"""From a split to rows: bytes from files or from the network, decoded into columns.

Here goes what a task does, in any process.
"""

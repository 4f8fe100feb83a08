"""Copying a partition into another log directory while it is used (KIP-113).

Here go the copy that grows there and how files are copied. Who asked for it is the broker's matter.
"""

"""Copying a partition into another log directory while it is used (KIP-113).

Here go the copy and how its files are copied. The broker decides when.
"""

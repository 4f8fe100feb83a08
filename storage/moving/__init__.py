"""Copying a partition into another log directory while it is used (KIP-113).

This folder has the copy and the copying of its files. The broker decides when to copy.
"""

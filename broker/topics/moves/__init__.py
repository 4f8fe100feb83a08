"""Partitions on their way to another log directory (KIP-113).

Here goes who may ask for a move, where it may go, and its steps. The copying is in
`storage.moving`.
"""

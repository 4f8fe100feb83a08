"""Partitions on their way to another log directory (KIP-113).

This package has the checks of a request for a move, the move's target, and its steps. The copying
is in `storage.moving`.
"""

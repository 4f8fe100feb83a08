"""Partitions on their way to another log directory (KIP-113).

Here go the checks of a request for a move, its target, and its steps. The copying is in
`storage.moving`.
"""

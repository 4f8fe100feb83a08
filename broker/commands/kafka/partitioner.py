"""Chooses the partition of a key as the Java client does, so that both send a key to the same."""

from __future__ import annotations

from typing import Final

_MASK: Final = 0xFFFFFFFF
_SEED: Final = 0x9747B28C
_M: Final = 0x5BD1E995


def partition_for(key: bytes, count: int) -> int:
    """Return the partition of a key among so many (Java: ``BuiltInPartitioner``)."""
    return (murmur2(key) & 0x7FFFFFFF) % count


def murmur2(data: bytes) -> int:
    """Return the 32-bit MurmurHash 2 of Kafka's clients, without a sign."""
    result = _SEED ^ len(data)
    whole = len(data) & ~3
    for start in range(0, whole, 4):
        k = int.from_bytes(data[start : start + 4], "little") * _M & _MASK
        k = (k ^ k >> 24) * _M & _MASK
        result = result * _M & _MASK ^ k
    if whole < len(data):
        result = (result ^ int.from_bytes(data[whole:], "little")) * _M & _MASK
    result = (result ^ result >> 13) * _M & _MASK
    return result ^ result >> 15

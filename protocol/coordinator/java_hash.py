"""Which partition of an internal topic an id belongs to (Java's ``String.hashCode``).

External tools find a group's records by the same formula, so it is Java's to the last bit.
"""

from functools import lru_cache
from struct import unpack

_INT32_MIN = 1 << 31
_MAX_KEPT_CHARACTERS = 255
"""Longer names are not kept: rights are asked later, so any client may have made them up."""


def java_hash(text: str) -> int:
    """Return Java's hash of a string, an int32: 31 * h + unit over its UTF-16 units."""
    octets = text.encode("utf-16-be", "surrogatepass")
    value = 0
    for unit in unpack(f">{len(octets) // 2}H", octets):
        value = (31 * value + unit) & 0xFFFFFFFF
    return value - (value >> 31 << 32)


# The same ids come again and again, and it is a loop in Python.
_kept_hash = lru_cache(maxsize=1 << 14)(java_hash)


def partition_for(name: str, count: int) -> int:
    """Return the partition of ``count`` that holds the state of ``name``."""
    value = abs((_kept_hash if len(name) <= _MAX_KEPT_CHARACTERS else java_hash)(name))
    return 0 if value == _INT32_MIN else value % count

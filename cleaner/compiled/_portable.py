"""What `_kernels.py` stands on when it runs uncompiled: the names of `_native_map.h`.

The digest of a key differs from the compiled one; that does not matter, since it is only used
within one pass. The sum of digests is written into receipts, so it is the same here, and slow.
"""

import hashlib
import struct
from typing import Final

from siltstone.cleaner.one_pass.key_digest import sum_with

_MASK: Final = (1 << 64) - 1
_DIGEST: Final = struct.Struct("<qq")
_SPREAD: Final = 0x9E3779B97F4A7C15


def digest_key(
    data: memoryview,
    start: int,
    size: int,
    numbers: memoryview,
    seed: int,
    digests: memoryview,
    at: int,
) -> None:
    """Write the two halves of a key's digest; the secret is at ``seed``."""
    secret = _DIGEST.pack(numbers[seed], numbers[seed + 1])
    digest = hashlib.blake2b(data[start : start + size], digest_size=16, key=secret).digest()
    digests[at], digests[at + 1] = _DIGEST.unpack(digest)


def add_digest(data: memoryview, start: int, size: int, numbers: memoryview, at: int) -> None:
    """Add the public digest of a key to a sum of 128 bits."""
    total = (numbers[at] & _MASK) | (numbers[at + 1] & _MASK) << 64
    total = sum_with(total, bytes(data[start : start + size]))
    numbers[at], numbers[at + 1] = _signed(total & _MASK), _signed(total >> 64)


def home_of(digest: int, count: int) -> int:
    """Return the slot of a digest among ``count``; a greater digest has no smaller slot."""
    return (digest & _MASK) * count >> 64


def spread(number: int) -> int:
    """Return a number whose upper bits depend on all bits of this one."""
    return _signed(number * _SPREAD & _MASK)


def prefetch(numbers: memoryview, at: int) -> None:
    """Do nothing: compiled, this prefetches memory."""


def wrapping_add(a: int, b: int) -> int:
    """Return a + b, wrapped to 64 bits."""
    return _signed(a + b & _MASK)


def wrapping_subtract(a: int, b: int) -> int:
    """Return a - b, wrapped to 64 bits."""
    return _signed(a - b & _MASK)


def _signed(number: int) -> int:
    return number - (1 << 64) if number >> 63 else number

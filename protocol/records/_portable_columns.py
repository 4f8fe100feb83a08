"""What `_column_kernels.py` stands on when it runs uncompiled, beside `_portable.py`."""

import struct
from typing import Final

_INT64: Final = struct.Struct("=q")
_UINT32: Final = struct.Struct("=I")


def store_int64(arena: memoryview, start: int, index: int, number: int) -> None:
    """Store an element of an int64 buffer that begins at ``start``."""
    _INT64.pack_into(arena, start + 8 * index, number)


def store_int32(arena: memoryview, start: int, index: int, number: int) -> None:
    """Store the lower half of a number in an int32 buffer."""
    _UINT32.pack_into(arena, start + 4 * index, number & 0xFFFFFFFF)


def store_bit(arena: memoryview, start: int, index: int, bit: int) -> None:
    """Store a bit of a bitmap; the first of a byte clears the others."""
    at = start + (index >> 3)
    if index & 7:
        arena[at] |= (bit != 0) << (index & 7)
    else:
        arena[at] = bit != 0

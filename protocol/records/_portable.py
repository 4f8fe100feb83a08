"""What kernels use when they run uncompiled: names of `protocol.core._format` and `_messages`.

It also stands in for the two names of the `cython` module that kernels use, so that nothing needs
Cython at run time.
"""

import errno
import os
import struct
from contextlib import nullcontext
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from typing_extensions import Buffer

    from siltstone.protocol.core import Grid

compiled: Final = False
nogil: Final = nullcontext()

EAGAIN: Final = errno.EAGAIN
EINTR: Final = errno.EINTR
MSG_MORE: Final = 0  # a plain write has no flags
INT32_MAX: Final = (1 << 31) - 1
INT64_MAX: Final = (1 << 63) - 1
INT64_MIN: Final = -(1 << 63)

_INT64: Final = struct.Struct(">q")
_INT32: Final = struct.Struct(">i")
_INT16: Final = struct.Struct(">h")
_UINT32: Final = struct.Struct(">I")


class Region:
    """A buffer's bytes, or int64 numbers, held between acquire and release; len counts bytes."""

    __slots__ = ("buf", "len")

    buf: memoryview
    len: int


no_region = no_target = Region


def acquire(buffer: "Buffer", region: Region) -> None:
    """Hold the bytes of `buffer` in `region`."""
    region.buf = memoryview(buffer).cast("B")
    region.len = region.buf.nbytes


acquire_target = acquire


def release(region: Region) -> None:
    """Let go of the buffer."""
    region.buf.release()


release_target = release


def copy(output: memoryview, at: int, data: memoryview, start: int, end: int) -> None:
    """Copy a range to `at`."""
    output[at : at + end - start] = data[start:end]


def read_int64(data: memoryview, position: int) -> int:
    """Read a big-endian signed number."""
    number: int = _INT64.unpack_from(data, position)[0]
    return number


def read_int32(data: memoryview, position: int) -> int:
    """Read a big-endian signed number."""
    number: int = _INT32.unpack_from(data, position)[0]
    return number


def read_int16(data: memoryview, position: int) -> int:
    """Read a big-endian signed number."""
    number: int = _INT16.unpack_from(data, position)[0]
    return number


inside = memoryview


def write_int64(output: memoryview, at: int, number: int) -> None:
    """Write a big-endian number."""
    _INT64.pack_into(output, at, number)


def write_int32(output: memoryview, at: int, number: int) -> None:
    """Write the lower half of a number, big-endian."""
    _UINT32.pack_into(output, at, number & 0xFFFFFFFF)


def field_of(row: tuple[Any, ...], column: int) -> Any:
    """Return a field of a row."""
    return row[column]


def cell_of(grid: "Grid", place: int, column: int) -> int:
    """Return a number of a grid."""
    number: int = grid[place][column]
    return number


def value_of(grid: "Grid", place: int, column: int) -> Any:
    """Return a value of a grid."""
    return grid[place][column]


def put_cell(grid: "Grid", place: int, column: int, number: int) -> None:
    """Set a number of a grid."""
    grid.put(place, column, number)


number_of = field_of
row_of = tuple.__new__
slot_of = getattr


def receive_octets(receiver: int, data: memoryview, start: int, end: int) -> int:
    """Receive into ``data[start:end]``; return the bytes received or the negative error number."""
    try:
        return os.readv(receiver, [data[start:end]])
    except OSError as error:
        return -(error.errno or errno.EIO)


def send_octets(sender: int, data: memoryview, size: int, _flags: int) -> int:
    """Send the first bytes of ``data``; return the bytes sent or the negative error number."""
    try:
        return os.write(sender, data[:size])  # CPython ignores SIGPIPE
    except OSError as error:
        return -(error.errno or errno.EIO)


class _Residency:
    """Whether the kernel can say that a page is not in memory (tmpfs and some others cannot)."""

    flags = os.RWF_NOWAIT


def read_resident(file: int, data: memoryview, start: int, end: int, position: int) -> int:
    """Read into ``data[start:end]`` without waiting for the disk.

    Returns:
        Bytes read or the negative error number: EAGAIN's if a page is not in memory.
    """
    try:
        return os.preadv(file, [data[start:end]], position, _Residency.flags)
    except OSError as error:
        if error.errno == errno.EOPNOTSUPP and _Residency.flags:
            _Residency.flags = 0
            return read_resident(file, data, start, end, position)
        return -(error.errno or errno.EIO)

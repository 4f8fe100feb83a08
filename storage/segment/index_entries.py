"""Where the entries of an index are: in memory while a segment is written, else in the file.

An index is fixed-size entries without header, sorted by each of their fields.
Both classes answer the same two questions, so a lookup does not care where the entries are.
"""

import os
import struct
from typing import Final, Protocol

from siltstone.storage.log._read_kernels import count_up_to
from siltstone.storage.segment.open_file import SegmentFile

BLOCK: Final = 4096
"""Bytes that one read of a file may bring in; the last steps of a search stay inside them."""


class Entries(Protocol):
    """A run of entries of ``size`` bytes."""

    def __len__(self) -> int: ...

    def entry(self, index: int) -> bytes:
        """Return an entry's bytes."""

    def count_up_to(self, key: int, field: struct.Struct, at: int) -> int:
        """Count the entries whose field, ``at`` bytes into the entry, is at most ``key``."""


class MemoryEntries:
    """Entries of the segment that is being written. One writer; readers need no lock.

    A crash loses what `unwritten` still returns; recovery then builds the index anew.
    """

    __slots__ = ("data", "size", "written")

    def __init__(self, size: int, data: bytes = b"") -> None:
        self.size = size
        self.data = bytearray(data)
        self.written = len(data)  # bytes from the start on that the file has

    def __len__(self) -> int:
        return len(self.data) // self.size

    def entry(self, index: int) -> bytes:
        """Return an entry's bytes."""
        return bytes(self.data[index * self.size : (index + 1) * self.size])

    def count_up_to(self, key: int, field: struct.Struct, at: int) -> int:
        """Count the entries whose field, ``at`` bytes into the entry, is at most ``key``."""
        return count_up_to(self.data, self.size, key, field.size, at)

    @property
    def is_ahead(self) -> bool:
        """Tell whether the file lacks entries."""
        return self.written < len(self.data)

    def sample(self, count: int, max_count: int) -> bytes:
        """Return the first ``count`` entries, or ``max_count`` of them, evenly spread."""
        step = -(-count // max_count) or 1
        if step == 1:
            return bytes(self.data[: count * self.size])
        return b"".join(self.entry(index) for index in range(0, count, step))

    def unwritten(self) -> bytes:
        """Return a copy of what the file lacks; a view would block the writer."""
        return bytes(self.data[self.written :])


class FileEntries:
    """Entries of a closed segment, read from the file; none of them stays in memory."""

    __slots__ = ("_count", "_file", "size")

    def __init__(self, size: int, file: SegmentFile) -> None:
        self.size = size
        self._file = file
        self._count = os.fstat(file.fileno()).st_size // size

    def __len__(self) -> int:
        return self._count

    def entry(self, index: int) -> bytes:
        """Return an entry's bytes."""
        return os.pread(self._file.fileno(), self.size, index * self.size)

    def count_up_to(self, key: int, field: struct.Struct, at: int) -> int:
        """Count the entries whose field, ``at`` bytes into the entry, is at most ``key``."""
        fd, size, width = self._file.fileno(), self.size, field.size
        low, high = 0, self._count
        while (high - low) * size > BLOCK:
            middle = (low + high) >> 1
            if field.unpack(os.pread(fd, width, middle * size + at))[0] <= key:
                low = middle + 1
            else:
                high = middle
        block = os.pread(fd, (high - low) * size, low * size)
        return low + count_up_to(block, size, key, width, at)

"""The two sparse indexes of a segment (Kafka: ``OffsetIndex``, ``TimeIndex``).

    .index      8 bytes   int32 last offset of a batch - base offset, int32 position of the batch
    .timeindex 12 bytes   int64 largest timestamp so far, int32 last offset of its batch - base
    offset

Neither has a header, a footer or a checksum. The files are exactly as long as their entries. Kafka
fills a new one with zeros up to ``segment.index.bytes`` and must find the end again (KAFKA-10207).
"""

import struct
from collections.abc import Iterable
from typing import Final, NamedTuple, TypeAlias

from siltstone.storage import files
from siltstone.storage.files import disk
from siltstone.storage.segment.lookup import count_up_to
from siltstone.storage.segment.open_file import SegmentFile

BLOCK: Final = 4096
"""Bytes that one read of a file may bring in; the last steps of a search stay inside them."""


class MemoryEntries:
    """Entries of the segment that is being written. One writer; readers need no lock.

    A crash loses the entries after ``written``; recovery then builds the index again.
    """

    __slots__ = ("data", "size", "written")

    def __init__(self, size: int, data: bytes = b"") -> None:
        self.size = size
        self.data = bytearray(data)
        self.written = len(data)  # how many bytes, from the start, are in the file

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

    def unwritten(self, written: int = 0) -> bytes:
        """Return a copy of the entries from a position on; a view would block the writer."""
        return bytes(self.data[written:])

    def note_written(self, end: int) -> None:
        """Note that the file has all bytes up to a position; two threads may write the same."""
        self.written = max(self.written, end)


class FileEntries:
    """Entries of a closed segment, which are read from the file and do not stay in memory."""

    __slots__ = ("_count", "_file", "size")

    def __init__(self, size: int, file: SegmentFile) -> None:
        self.size = size
        self._file = file
        self._count = disk.fstat(file.fileno()).st_size // size

    def __len__(self) -> int:
        return self._count

    def entry(self, index: int) -> bytes:
        """Return an entry's bytes."""
        return files.read_at(self._file.fileno(), self.size, index * self.size)

    def count_up_to(self, key: int, field: struct.Struct, at: int) -> int:
        """Count the entries whose field, ``at`` bytes into the entry, is at most ``key``."""
        fd, size, width = self._file.fileno(), self.size, field.size
        low, high = 0, self._count
        while (high - low) * size > BLOCK:
            middle = (low + high) >> 1
            if field.unpack(files.read_at(fd, width, middle * size + at))[0] <= key:
                low = middle + 1
            else:
                high = middle
        block = files.read_at(fd, (high - low) * size, low * size)
        return low + count_up_to(block, size, key, width, at)


Entries: TypeAlias = MemoryEntries | FileEntries
"""A run of entries of ``size`` bytes: both answer the same questions."""


OFFSET_ENTRY: Final = struct.Struct(">ii")
TIME_ENTRY: Final = struct.Struct(">qi")
MAX_RELATIVE_OFFSET: Final = (1 << 31) - 1

_SAMPLES: Final = 4096
_INT32: Final = struct.Struct(">i")
_INT64: Final = struct.Struct(">q")


IndexRow = tuple[int, int, int, int]
"""Last offset and position of a batch, the largest timestamp up to it, and that one's offset."""


class OffsetEntry(NamedTuple):
    """A batch's last offset and where the batch begins."""

    offset: int
    position: int


class TimeEntry(NamedTuple):
    """The largest timestamp up to an offset, which is the last one of the batch that has it."""

    timestamp: int
    offset: int


class OffsetIndex:
    """Maps offsets to positions. Both columns increase strictly."""

    __slots__ = ("base_offset", "entries")

    def __init__(self, base_offset: int, entries: Entries) -> None:
        self.base_offset = base_offset
        self.entries = entries

    def __len__(self) -> int:
        return len(self.entries)

    def __getitem__(self, index: int) -> OffsetEntry:
        relative, position = OFFSET_ENTRY.unpack(self.entries.entry(index))
        return OffsetEntry(self.base_offset + relative, position)

    def last(self) -> OffsetEntry | None:
        """Return the last entry."""
        count = len(self)
        return self[count - 1] if count else None

    def floor(self, offset: int) -> OffsetEntry:
        """Return the last entry at or below ``offset``; before the first entry, the start."""
        count = self.entries.count_up_to(offset - self.base_offset, _INT32, 0)
        return self[count - 1] if count else OffsetEntry(self.base_offset, 0)

    def floor_position(self, position: int) -> OffsetEntry:
        """Return the last entry whose batch begins at or before ``position``, or the start."""
        count = self.entries.count_up_to(position, _INT32, 4)
        return self[count - 1] if count else OffsetEntry(self.base_offset, 0)

    def ceiling_position(self, position: int) -> OffsetEntry | None:
        """Return the first entry whose batch begins at or after ``position``."""
        count = self.entries.count_up_to(position - 1, _INT32, 4)
        return self[count] if count < len(self) else None


class TimeIndex:
    """Maps timestamps to offsets. Timestamps increase strictly, offsets do not decrease."""

    __slots__ = ("base_offset", "entries")

    def __init__(self, base_offset: int, entries: Entries) -> None:
        self.base_offset = base_offset
        self.entries = entries

    def __len__(self) -> int:
        return len(self.entries)

    def __getitem__(self, index: int) -> TimeEntry:
        timestamp, relative = TIME_ENTRY.unpack(self.entries.entry(index))
        return TimeEntry(timestamp, self.base_offset + relative)

    def last(self) -> TimeEntry | None:
        """Return the last entry."""
        count = len(self)
        return self[count - 1] if count else None

    def floor(self, timestamp: int) -> TimeEntry | None:
        """Return the last entry at or below ``timestamp``; no record up to its offset is later."""
        count = self.entries.count_up_to(timestamp, _INT64, 0)
        return self[count - 1] if count else None


class ActiveIndexes:
    """Both indexes of a segment that is being written, in memory.

    They are written to their files when the segment is flushed, rolled or closed. That is safe:
    after a crash, recovery rebuilds the indexes of every segment above the recovery point from its
    ``.log``, and the recovery point passes a segment only after its indexes were fsynced. Only one
    thread adds entries.
    """

    __slots__ = ("_last_timestamp", "base_offset", "is_ours", "offsets", "times")

    def __init__(self, base_offset: int, offsets: bytes = b"", times: bytes = b"") -> None:
        self.base_offset = base_offset
        self.offsets = MemoryEntries(OFFSET_ENTRY.size, offsets)
        self.times = MemoryEntries(TIME_ENTRY.size, times)
        self.is_ours = not offsets  # no entry comes from a file
        self._last_timestamp = -1
        self._note_last_timestamp()

    def offset_index(self) -> OffsetIndex:
        """Return the offset index to search in."""
        return OffsetIndex(self.base_offset, self.offsets)

    def time_index(self) -> TimeIndex:
        """Return the time index to search in."""
        return TimeIndex(self.base_offset, self.times)

    def copy(self) -> "ActiveIndexes":
        """Return a copy of the entries for a copy of the segment; its files lack them still."""
        twin = ActiveIndexes(self.base_offset, bytes(self.offsets.data), bytes(self.times.data))
        twin.offsets.written = twin.times.written = 0
        twin.is_ours = self.is_ours
        return twin

    def add(self, last_offset: int, position: int) -> None:
        """Add the entry of a batch that begins at ``position``."""
        self.offsets.data += OFFSET_ENTRY.pack(last_offset - self.base_offset, position)

    def add_time(self, timestamp: int, offset: int) -> None:
        """Add an entry if the timestamp is later than the last one's."""
        if timestamp > self._last_timestamp:
            self.times.data += TIME_ENTRY.pack(timestamp, offset - self.base_offset)
            self._last_timestamp = timestamp

    def add_rows(self, rows: Iterable[IndexRow]) -> None:
        """Add the entries that `core.SegmentScan` has found for later batches."""
        for last_offset, position, timestamp, offset in rows:
            self.add(last_offset, position)
            self.add_time(timestamp, offset)

    def is_full(self, index_bytes: int) -> bool:
        """Tell whether either index has reached ``segment.index.bytes``.

        The time index is full one entry early: the final entry of a segment needs the room.
        """
        return (
            len(self.offsets) >= index_bytes // OFFSET_ENTRY.size
            or len(self.times) >= index_bytes // TIME_ENTRY.size - 1
        )

    def sample(self, size: int, end_offset: int) -> dict[str, bytes]:
        """Return entries up to an end, by kind of index; only kinds whose file lacks entries.

        There are at most 4,096 of each kind: if entries are left out, readers walk a little
        further. Any thread may call.
        """
        sampled = {}
        if self.offsets.is_ahead:
            count = self.offsets.count_up_to(size - 1, _INT32, 4)
            sampled[files.INDEX] = self.offsets.sample(count, _SAMPLES)
        if self.times.is_ahead:
            count = self.times.count_up_to(end_offset - self.base_offset - 1, _INT32, 8)
            sampled[files.TIME_INDEX] = self.times.sample(count, _SAMPLES)
        return sampled

    def _note_last_timestamp(self) -> None:
        last = self.time_index().last()
        self._last_timestamp = last.timestamp if last else -1

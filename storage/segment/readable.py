"""Reads a segment by offset, by position or by time (Kafka: ``LogSegment``). Writes nothing."""

from bisect import bisect_right
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final, NamedTuple

from siltstone.protocol.core.constants import HEADER_SIZE, LOG_OVERHEAD, MAGIC, NO_TIMESTAMP
from siltstone.protocol.errors import CorruptMessage
from siltstone.protocol.parts import FileSlice
from siltstone.protocol.records.batch import BatchHeader
from siltstone.protocol.records.compression import UNLIMITED
from siltstone.protocol.records.record import iterate_records
from siltstone.storage import files, threads
from siltstone.storage.files import disk
from siltstone.storage.producers import transaction_index
from siltstone.storage.producers.transaction_index import AbortedLookup, AbortedTransaction
from siltstone.storage.segment import batch_walk
from siltstone.storage.segment.batch_walk import Cut, Located
from siltstone.storage.segment.end import UNKNOWN, SegmentEnd
from siltstone.storage.segment.file_set import SegmentFiles
from siltstone.storage.segment.index import (
    MAX_RELATIVE_OFFSET,
    OFFSET_ENTRY,
    TIME_ENTRY,
    ActiveIndexes,
    Entries,
    FileEntries,
    MemoryEntries,
    OffsetEntry,
    OffsetIndex,
    TimeEntry,
    TimeIndex,
)
from siltstone.storage.segment.lookup import find_cut, find_position, position_before
from siltstone.storage.segment.open_file import OpenFiles, SegmentFile

NOTING: Final = threads.Lock()
"""Held while facts read from a segment's files are noted, unless an append has noted more by then.

Readers of any thread look; the owner of the segment may append meanwhile.
"""


class TimestampOffset(NamedTuple):
    """A record found by its time."""

    timestamp: int
    offset: int
    leader_epoch: int


class ReadableSegment:
    """Batches from ``base_offset`` on, back to back, with sparse indexes to find them.

    Bytes below ``size`` do not change, and no method reads further, so a reader needs no lock. At
    rest nothing is open or in memory: files are opened through `OpenFiles`, and lookups read only
    the few index entries that they compare. A segment to which batches are appended is a
    `storage.segment.segment.LogSegment`; it has its ``.log`` open and its indexes in memory.
    """

    __slots__ = (
        "_active", "_distrusted", "_file", "_has_aborted", "base_offset", "end", "files",
    )  # fmt: skip

    def __init__(
        self,
        directory: Path,
        base_offset: int,
        *,
        size: int = 0,
        created_ms: int = 0,
        suffix: str = "",
        open_files: OpenFiles,
    ) -> None:
        self.base_offset = base_offset
        self.files = SegmentFiles(directory, base_offset, suffix, open_files)
        self.end = SegmentEnd(base_offset, size, created_ms)
        self._file: SegmentFile | None = None  # the .log, while it is written
        self._active: ActiveIndexes | None = None  # likewise
        self._distrusted = False  # true once an entry of the offset index was wrong: it is not used
        self._has_aborted: bool | None = None  # None until it is looked up

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.log_path}, size={self.size})"

    @property
    def log_path(self) -> Path:
        """Return where the ``.log`` is."""
        return self.files.log_path

    @property
    def size(self) -> int:
        """Return how many bytes there are to read."""
        return self.end.size

    @property
    def max_timestamp(self) -> int:
        """Return the largest timestamp of the records, -1 if they have no timestamps."""
        if self.end.max_timestamp == UNKNOWN:
            self._load_max_timestamp()
        return self.end.max_timestamp

    @property
    def offset_of_max_timestamp(self) -> int:
        """Return the last offset of the first batch that has the largest timestamp."""
        if self.end.max_timestamp == UNKNOWN:
            self._load_max_timestamp()
        return self.end.offset_of_max_timestamp

    @property
    def largest_timestamp(self) -> int:
        """Return the time for retention: the modification time if no record has a timestamp."""
        timestamp = self.max_timestamp
        return timestamp if timestamp >= 0 else self.files.modified_ms

    @property
    def first_batch_timestamp(self) -> int:
        """Return the max timestamp of the first batch, -1 without a timestamp or a batch."""
        if self.size < HEADER_SIZE:
            return NO_TIMESTAMP
        if self.end.first_timestamp == UNKNOWN:
            self.end.note_first(self.header_at(0).max_timestamp)
        return self.end.first_timestamp

    def file(self) -> SegmentFile:
        """Return the ``.log``; it stays open as long as the caller keeps the object."""
        file = self._file
        return file if file is not None else self.files.open_to_read(files.LOG)

    def slice(self, position: int, end: int) -> FileSlice:
        """Return a range of the ``.log`` that outlives the segment's deletion."""
        return FileSlice(self.file(), position, end - position)

    def read(self, position: int, size: int) -> bytes:
        """Return up to ``size`` bytes. Blocks if they are not in the page cache."""
        file = self.file()
        return files.read_at(file.fileno(), min(size, self.size - position), position)

    def locate(self, offset: int, position: int = 0) -> Located | None:
        """Return the first batch whose last offset is at or above ``offset``, if there is one.

        ``position`` may be the start of a batch at or before that one; then the index is not used.
        For an offset in a gap that compaction left, this is the next batch.

        Raises:
            CorruptMessage: The log is damaged there.
        """
        found = self.find(offset, position)
        return None if found < 0 else Located(found, self.header_at(found))

    def find(self, offset: int, position: int = 0) -> int:
        """Return where the batch begins that `locate` returns, or -1.

        A segment that compaction has emptied costs no call: a reader may meet hundreds in a row.

        Raises:
            CorruptMessage: The log is damaged there.
        """
        if not self.end.size:
            return -1
        file = self.file()
        start = position or self.start_before(offset)
        try:
            return find_position(file.fileno(), start, self.end.size, offset)
        except CorruptMessage as error:
            raise self._named(error) from error

    def start_before(self, offset: int) -> int:
        """Return where to begin a walk to a batch: near it, by the index, or at the start."""
        active = self._active
        if active is not None and active.is_ours:  # this process wrote the index, so it is right
            return position_before(active.offsets.data, offset - self.base_offset, 0)
        return self._confirm(self.offset_index().floor(offset))

    def start_before_position(self, position: int) -> int:
        """Return the start of a batch at or shortly before a position, by the index."""
        active = self._active
        if active is not None and active.is_ours:
            return position_before(active.offsets.data, position, 4)
        return self._confirm(self.offset_index().floor_position(position))

    def cut(self, position: int, max_bytes: int, limit: int, *, at_least_one: bool) -> Cut:
        """Return the end of the whole batches from ``position`` on that fit into ``max_bytes``.

        ``position`` is the start of a batch. ``limit``, at most ``size``, is the end of the last
        batch that may be read. With ``at_least_one`` the first batch always fits; otherwise the
        result may be ``position``.

        Raises:
            CorruptMessage: The log is damaged there.
        """
        try:
            return Cut(*find_cut(self, position, max_bytes, limit, at_least_one))
        except CorruptMessage as error:
            raise self._named(error) from error

    def batches(self, position: int = 0, end: int | None = None) -> Iterator[Located]:
        """Yield the batches from ``position``, the start of one, to ``end``."""
        file = self.file()
        try:
            yield from batch_walk.iterate_batches(
                file.fileno(), position, self.size if end is None else end
            )
        except CorruptMessage as error:
            raise self._named(error) from error

    def next_offset(self) -> int:
        """Return the offset after the last batch, ``base_offset`` without one."""
        last = self.offset_index().last()
        # If the index is ahead of a torn log, the walk from the start finds the last batch.
        for position in (self._confirm(last) if last else 0, 0):
            found = deque(self.batches(position), maxlen=1)
            if found:
                return found[0].header.next_offset
        return self.base_offset

    def upper_offset(self, position: int) -> int | None:
        """Return an offset that no batch before ``position`` reaches, None without an entry.

        The list of aborted transactions is read up to this offset; it may have too many of them.
        """
        entry = self.offset_index().ceiling_position(position)
        return entry.offset if entry else None

    def find_timestamp(
        self, timestamp: int, start_offset: int, max_record_bytes: int = UNLIMITED
    ) -> TimestampOffset | None:
        """Return the record with the lowest offset that is at or after both a time and an offset.

        Opens the batches that can hold the record. May block.

        Raises:
            InvalidRecord: A record of a compressed batch before it is larger than the limit.
        """
        before = self.time_index().floor(timestamp)
        sure = before.offset if before and self._is_confirmed(before) else self.base_offset
        position = self.start_before(max(sure, start_offset))
        for batch in self.batches(position):
            header = batch.header
            if header.max_timestamp < timestamp or header.last_offset < start_offset:
                continue
            data = self.read(batch.position, header.size)
            for record in iterate_records(data, max_record_bytes=max_record_bytes):
                if record.timestamp >= timestamp and record.offset >= start_offset:
                    return TimestampOffset(record.timestamp, record.offset, header.leader_epoch)
        return None

    @property
    def may_have_aborted(self) -> bool:
        """Tell whether the segment has aborted transactions, or was not searched for them yet."""
        return self._has_aborted is not False

    def aborted_transactions(self, fetch_offset: int, upper_offset: int) -> AbortedLookup:
        """Return the aborted transactions between two offsets whose markers are in this segment."""
        if self._has_aborted is None:
            has_aborted = self.files.find_size(files.TRANSACTION_INDEX) is not None
            with NOTING:
                if self._has_aborted is None:
                    self._has_aborted = has_aborted
        if not self._has_aborted:
            return AbortedLookup([], is_complete=False)
        return transaction_index.find_aborted(
            self.all_aborted_transactions(), fetch_offset, upper_offset
        )

    def all_aborted_transactions(self) -> list[AbortedTransaction]:
        """Return the whole transaction index."""
        data = self.files.read(files.TRANSACTION_INDEX)
        return [] if data is None else transaction_index.parse(data)

    def offset_index(self) -> OffsetIndex:
        """Return the offset index, wherever its entries are."""
        if self._distrusted:
            return OffsetIndex(self.base_offset, MemoryEntries(OFFSET_ENTRY.size))
        active = self._active
        if active is not None:
            return active.offset_index()
        return OffsetIndex(self.base_offset, self._entries(files.INDEX, OFFSET_ENTRY.size))

    def time_index(self) -> TimeIndex:
        """Return the time index, wherever its entries are."""
        active = self._active
        if active is not None:
            return active.time_index()
        return TimeIndex(self.base_offset, self._entries(files.TIME_INDEX, TIME_ENTRY.size))

    def sample_indexes(self, size: int, end_offset: int) -> dict[str, bytes]:
        """Return a pin's own index files, by kind, for indexes whose file lacks entries."""
        active = self._active
        return active.sample(size, end_offset) if active is not None else {}

    def header_at(self, position: int) -> BatchHeader:
        """Return the header at a position, unchecked.

        Raises:
            struct.error: The segment ends inside the header.
        """
        return BatchHeader.read(self.read(position, HEADER_SIZE))

    def _named(self, error: CorruptMessage) -> CorruptMessage:
        return CorruptMessage(f"{self.log_path}: {error.message}")

    def _confirm(self, entry: OffsetEntry) -> int:
        """Return the position of an index entry if a batch that fits it begins there, else 0.

        With a wrong entry a reader would skip batches, or begin a walk inside a batch. An entry
        that Kafka wrote may stand for several batches and have the position of the first one
        (KAFKA-806).
        """
        position = entry.position
        if not position or (self._active is not None and self._active.is_ours):
            return position
        if 0 < position <= self.size - HEADER_SIZE:
            header = self.header_at(position)
            if (
                header.magic == MAGIC
                and header.length >= HEADER_SIZE - LOG_OVERHEAD
                and self.base_offset <= header.base_offset <= header.last_offset <= entry.offset
            ):
                return position
        if not self._is_damaged_before(position):
            self._distrusted = True
            self._report_distrust(f"no batch of offset {entry.offset} begins at {position}")
        return 0

    def _is_damaged_before(self, position: int) -> bool:
        """Walk from the start: tell whether the log itself is damaged before a position."""
        try:
            for batch in self.batches():
                if batch.position >= position:
                    return False
        except CorruptMessage:
            return True
        return False

    @property
    def has_damaged_index(self) -> bool:
        """Tell whether a lookup has found a wrong entry in the offset index."""
        return self._distrusted

    def _report_distrust(self, reason: str) -> None:
        """Report that the offset index is no longer used; a subclass overrides this."""

    def _is_confirmed(self, entry: TimeEntry) -> bool:
        """Tell whether the batch of a time entry has the entry's timestamp."""
        if entry.offset < self.base_offset:
            return False
        found = self.locate(entry.offset)
        return found is not None and found.header.max_timestamp == entry.timestamp

    def _load_max_timestamp(self) -> None:
        """Read the largest timestamp from the last entry of the time index.

        Retention deletes by this timestamp, so the entry is compared with its batch.
        """
        last = self.time_index().last()
        if last is None:
            last = TimeEntry(NO_TIMESTAMP, self.base_offset)
        elif self._active is None:
            with suppress(CorruptMessage):  # the log is damaged: only the index is left to use
                if not self._is_confirmed(last):
                    last = self._find_max_timestamp()
        with NOTING:
            if self.end.max_timestamp == UNKNOWN:
                self.end.note_max(*last)

    def _find_max_timestamp(self) -> TimeEntry:
        largest = TimeEntry(NO_TIMESTAMP, self.base_offset)
        for _, header in self.batches():
            if header.max_timestamp <= largest.timestamp:
                continue
            last = header.last_offset - self.base_offset
            if not 0 <= header.base_offset - self.base_offset <= last <= MAX_RELATIVE_OFFSET:
                raise CorruptMessage("a batch has offsets that are not in its segment")
            largest = TimeEntry(header.max_timestamp, header.last_offset)
        return largest

    def _entries(self, kind: str, size: int) -> Entries:
        try:
            return FileEntries(size, self.files.open_to_read(kind))
        except FileNotFoundError:
            return MemoryEntries(size)  # lookups then walk from the segment's start


def open_segment(
    directory: Path, base_offset: int, open_files: OpenFiles, *, suffix: str = ""
) -> ReadableSegment:
    """Open a segment for reading only; ``open_files`` keeps the files that are read open.

    Raises:
        FileNotFoundError: There is no ``.log``.
    """
    segment = ReadableSegment(directory, base_offset, suffix=suffix, open_files=open_files)
    segment.end.resize(disk.stat(segment.files.text(files.LOG)).st_size)
    return segment


def base_offset_of(segment: ReadableSegment) -> int:
    """Return the base offset, as a key for bisection."""
    return segment.base_offset


def find_index(segments: Sequence[ReadableSegment], offset: int) -> int:
    """Return the index of the segment with the greatest base offset <= ``offset``, or 0."""
    return max(0, bisect_right(segments, offset, key=base_offset_of) - 1)

"""One segment of a manifest, as planning needs it: its indexes and batch headers.

An index is a hint. An entry counts if a batch that fits it begins where it says; otherwise the
headers are walked. Damage is not reported here: the task that reads the bytes will find it.
"""

import errno
import os
from collections.abc import Iterator
from typing import Final, NamedTuple

from siltstone.pipeline.planning.manifest import PinnedSegment
from siltstone.pipeline.reading.resync import find_batch_after
from siltstone.pipeline.stores import Store, StoredFile, join
from siltstone.protocol.core.constants import HEADER_SIZE, LOG_OVERHEAD, MAGIC
from siltstone.protocol.errors import KafkaError
from siltstone.protocol.records.batch import BatchHeader
from siltstone.protocol.records.record import iterate_records
from siltstone.storage import files
from siltstone.storage.producers import transaction_index
from siltstone.storage.producers.transaction_index import AbortedTransaction
from siltstone.storage.segment.index import (
    OFFSET_ENTRY,
    TIME_ENTRY,
    Entries,
    FileEntries,
    MemoryEntries,
    OffsetEntry,
    OffsetIndex,
    TimeEntry,
    TimeIndex,
)
from siltstone.storage.segment.open_file import SegmentFile

HEADER_CHUNK: Final = 64 * 1024


class Batch(NamedTuple):
    """A batch header and its position."""

    position: int
    header: BatchHeader

    @property
    def end(self) -> int:
        """Where the batch ends."""
        return self.position + self.header.size


class SegmentView:
    """A segment as planning sees it; after `close` its files are opened again when asked for."""

    def __init__(self, store: Store, folder: str, segment: PinnedSegment) -> None:
        self._store = store
        self._folder = folder
        self.segment = segment
        self._file: StoredFile | None = None
        self._offsets: OffsetIndex | None = None
        self._times: TimeIndex | None = None

    @property
    def is_local(self) -> bool:
        """Whether reading a few bytes is cheap."""
        return self._store.is_local

    @property
    def path(self) -> str:
        """The place of the ``.log``."""
        return self._path(files.LOG)

    def close(self) -> None:
        """Close the files. Idempotent."""
        self._offsets = self._times = None
        if self._file is not None:
            self._file.close()
            self._file = None

    def header_at(self, position: int) -> BatchHeader | None:
        """Return the header at a position, if it can be that of a batch of this segment."""
        data = self._opened().read(position, HEADER_SIZE)
        return self._plausible(data, 0, position)

    def batches(self, position: int = 0, chunk: int = HEADER_CHUNK) -> Iterator[Batch]:
        """Yield the batches from a position on, which is the start of one, up to damage or the end.

        ``chunk`` bytes are read at a time; `HEADER_SIZE` reads nothing but headers.
        """
        opened = self._opened()
        while position < self.segment.size:
            data = opened.read(position, min(chunk, self.segment.size - position))
            at = 0
            while (header := self._plausible(data, at, position + at)) is not None:
                yield Batch(position + at, header)
                at += header.size
            if at == 0:
                return
            position += at

    def locate(self, offset: int) -> Batch | None:
        """Return the first batch whose last offset is at or above an offset."""
        for batch in self.batches(self._floor(offset)):
            if batch.header.last_offset >= offset:
                return batch
        return None

    def find_end(self) -> tuple[int, int]:
        """Return where the last whole batch ends, and the offset after it.

        Only a torn tail is left out; damage with a whole batch after it does not end the segment.
        """
        size, offset, end = 0, self.segment.base_offset, self.segment.size
        last = self._offset_index().last()
        position = self._confirmed(last) if last else 0
        while position < end:
            for batch in self.batches(position):
                size, offset = batch.end, batch.header.next_offset
            position = find_batch_after(self._opened(), size, 0, end) if size < end else end
        return size, offset

    def has_bytes_at(self, position: int) -> bool:
        """Tell whether bytes were written at a position; reserved room has zeros."""
        return any(self._opened().read(position, HEADER_SIZE))

    def cut_before(self, position: int, start: int) -> Batch | None:
        """Return the last batch that begins at or before a position, from ``start`` on.

        ``start`` is the start of a batch, for a segment without an index.
        """
        near = self._confirmed(self._offset_index().floor_position(position))
        found = None
        for batch in self.batches(max(near, start)):
            if batch.position > position:
                break
            found = batch
        return found

    def start_of_time(self, timestamp: int) -> int:
        """Return a position before which all records are older than a time."""
        entry = self._time_index().floor(timestamp - 1)
        if entry is None or not self._is_confirmed(entry):
            return 0
        batch = self.locate(entry.offset)
        return batch.end if batch is not None else 0

    def largest_timestamp(self) -> int | None:
        """Return the largest timestamp of the records, None if it is not known without a scan."""
        if self.segment.largest_timestamp >= 0:
            return self.segment.largest_timestamp
        last = None if self.segment.is_active else self._time_index().last()
        return last.timestamp if last is not None and self._is_confirmed(last) else None

    def find_timestamp(self, timestamp: int, start_offset: int) -> int | None:
        """Return the offset of the first record at or after a time and an offset."""
        for batch in self.batches(self.start_of_time(timestamp)):
            header = batch.header
            if header.max_timestamp < timestamp or header.last_offset < start_offset:
                continue
            if header.is_control:
                continue
            data = self._opened().read(batch.position, header.size)
            try:
                for record in iterate_records(data):
                    if record.timestamp >= timestamp and record.offset >= start_offset:
                        return record.offset
            except KafkaError:
                return header.base_offset  # the read begins here and will find the damage
        return None

    def aborted(self) -> list[AbortedTransaction]:
        """Return the transactions whose abort markers are in this segment.

        Raises:
            FileNotFoundError: The index is gone: without it they would count as committed.
        """
        if files.TRANSACTION_INDEX not in self.segment.files:
            return []
        path = self._path(files.TRANSACTION_INDEX)
        data = self._store.read(path)
        if data is None:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), path)
        return transaction_index.parse(data)

    def _path(self, kind: str) -> str:
        return join(self._folder, self.segment.file_name(kind))

    def _opened(self) -> StoredFile:
        if self._file is None:
            self._file = self._store.open(self.path)
        return self._file

    def _floor(self, offset: int) -> int:
        return self._confirmed(self._offset_index().floor(offset))

    def _confirmed(self, entry: OffsetEntry) -> int:
        """Return the position of an entry if a batch that fits it begins there, else 0.

        An entry that Kafka wrote may stand for several batches and name the first (KAFKA-806).
        """
        header = self.header_at(entry.position) if entry.position else None
        is_meant = header is not None and header.last_offset <= entry.offset
        return entry.position if is_meant else 0

    def _is_confirmed(self, entry: TimeEntry) -> bool:
        batch = self.locate(entry.offset)
        return batch is not None and batch.header.max_timestamp == entry.timestamp

    def _offset_index(self) -> OffsetIndex:
        if self._offsets is None:
            data = self._index(files.INDEX, OFFSET_ENTRY.size)
            self._offsets = OffsetIndex(self.segment.base_offset, data)
        return self._offsets

    def _time_index(self) -> TimeIndex:
        if self._times is None:
            data = self._index(files.TIME_INDEX, TIME_ENTRY.size)
            self._times = TimeIndex(self.segment.base_offset, data)
        return self._times

    def _index(self, kind: str, size: int) -> Entries:
        """Return the entries of an index file: on this machine only those that are asked for.

        One that Kafka wrote may end in zeros (KAFKA-10207).
        """
        if kind not in self.segment.files:
            return MemoryEntries(size)
        if self._store.is_local:
            entries = _open_entries(self._path(kind), size)
            if entries is not None and len(entries) and any(entries.entry(len(entries) - 1)):
                return entries
        data = self._store.read(self._path(kind)) or b""
        data = data[: len(data) // size * size]
        zeros = len(data) - len(data.rstrip(b"\x00"))
        return MemoryEntries(size, data[: len(data) - zeros // size * size])

    def _plausible(self, data: bytes, at: int, position: int) -> BatchHeader | None:
        if len(data) - at < HEADER_SIZE:
            return None
        header = BatchHeader.read(data, at)
        is_fine = (
            header.magic == MAGIC
            and header.length >= HEADER_SIZE - LOG_OVERHEAD
            and header.base_offset >= self.segment.base_offset
            and header.last_offset_delta >= 0
            and position + header.size <= self.segment.size
        )
        return header if is_fine else None


def _open_entries(path: str, size: int) -> FileEntries | None:
    try:
        return FileEntries(size, SegmentFile(os.open(path, os.O_RDONLY | os.O_CLOEXEC)))
    except FileNotFoundError:
        return None

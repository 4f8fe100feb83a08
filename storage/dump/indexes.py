"""Prints the indexes of a segment and compares every entry with the ``.log`` beside it.

Both are read in one walk, so that only the index is in memory.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Final, TypeAlias

from siltstone.protocol.errors import CorruptMessage
from siltstone.protocol.records.batch import BatchHeader
from siltstone.storage import files
from siltstone.storage.dump.line import Fault, Line
from siltstone.storage.files import SegmentName
from siltstone.storage.producers import transaction_index
from siltstone.storage.producers.transaction_index import AbortedTransaction
from siltstone.storage.segment.index import OFFSET_ENTRY, TIME_ENTRY
from siltstone.storage.segment.open_file import OpenFiles
from siltstone.storage.segment.readable import open_segment

FINE: Final = ""
"""The judgement of an entry that fits its batch."""


def dump_index(path: Path, name: SegmentName) -> Iterator[Line]:
    """Yield the entries, each before its faults."""
    lines = IndexLines(path, name)
    try:
        segment = open_segment(path.parent, name.base_offset, OpenFiles(), suffix=name.suffix)
        for position, header in segment.batches():
            yield from lines.see(position, header)
    except FileNotFoundError:
        yield Fault("there is no .log beside this index")
    except CorruptMessage as error:
        yield Fault(str(error))
    yield from lines.end()


class IndexLines:
    """The lines of an index, which come as the batches of its ``.log`` go by, in their order."""

    def __init__(self, path: Path, name: SegmentName) -> None:
        """Read the file.

        Raises:
            OSError: It cannot be read.
        """
        data = files.read_bytes(path)
        self.last: tuple[int, int] | None = None  # the order of the last entry that was compared
        self._damage = list(_find_damage(data, name))
        if name.kind == files.INDEX:
            self._entries: Iterator[_Entry] = _offset_entries(data, name.base_offset)
        elif name.kind == files.TIME_INDEX:
            self._entries = _time_entries(data, name.base_offset)
        else:
            self._entries = map(_TransactionEntry, transaction_index.parse(data))
        self._is_strict = name.kind == files.INDEX  # both columns increase
        self._before = (0, 0) if self._is_strict else (-1, 0)
        self._entry = next(self._entries, None)

    def see(self, position: int, header: BatchHeader) -> Iterator[Line]:
        """Yield the entries that can be judged by the next batch."""
        while self._entry is not None:
            fault = self._entry.judge(position, header)
            if fault is None:
                return
            yield from self._tell(self._entry, fault)

    def end(self) -> Iterator[Line]:
        """Yield the entries that no batch has judged, and the faults of the file as a whole."""
        while self._entry is not None:
            yield from self._tell(self._entry, self._entry.missing())
        yield from self._damage

    def _tell(self, entry: "_Entry", fault: str) -> Iterator[Line]:
        yield entry.line
        before, self._before = self._before, entry.order
        if entry.order[0] <= before[0] or entry.order[1] < before[1] + self._is_strict:
            yield Fault(f"{entry.name} does not follow the one before")
        if fault:
            yield Fault(fault)
        self.last = entry.order
        self._entry = next(self._entries, None)


class _OffsetEntry:
    """An entry of the offset index: the position and the last offset of a batch.

    An entry of a Kafka before 4.0 may stand for several batches: its offset is the last one's.
    """

    def __init__(self, base_offset: int, relative: int, position: int) -> None:
        self.order = relative, position
        self._offset = base_offset + relative
        self._position = position
        self._has_begun = False

    @property
    def name(self) -> str:
        return f"entry {self._offset} at {self._position}"

    @property
    def line(self) -> Line:
        return Line(offset=self._offset, position=self._position)

    def judge(self, position: int, header: BatchHeader) -> str | None:
        if position < self._position:
            return None
        self._has_begun = self._has_begun or position == self._position
        if not self._has_begun:
            return self.missing()
        if header.last_offset < self._offset:
            return None
        if header.last_offset == self._offset:
            return FINE
        return f"the batch at {position} ends with {header.last_offset}, not {self._offset}"

    def missing(self) -> str:
        if self._has_begun:
            return f"no batch from position {self._position} on ends with {self._offset}"
        return f"no batch begins at position {self._position}"


class _TimeEntry:
    """An entry of the time index: the batch with the offset has the timestamp."""

    def __init__(self, base_offset: int, timestamp: int, relative: int) -> None:
        self.order = timestamp, relative
        self._offset = base_offset + relative

    @property
    def name(self) -> str:
        return f"entry {self.order[0]} for {self._offset}"

    @property
    def line(self) -> Line:
        return Line(timestamp=self.order[0], offset=self._offset)

    def judge(self, _position: int, header: BatchHeader) -> str | None:
        if header.last_offset < self._offset:
            return None
        if header.base_offset > self._offset:
            return self.missing()
        if header.max_timestamp == self.order[0]:
            return FINE
        return f"the batch of {self._offset} has timestamp {header.max_timestamp}"

    def missing(self) -> str:
        return f"no batch has offset {self._offset}"


class _TransactionEntry:
    """An entry of the transaction index: its last offset is that of a marker of the producer."""

    def __init__(self, entry: AbortedTransaction) -> None:
        self.order = entry.last_offset, 0
        self._entry = entry

    @property
    def name(self) -> str:
        return f"transaction of {self._entry.producer_id} up to {self._entry.last_offset}"

    @property
    def line(self) -> Line:
        return Line(**self._entry._asdict())

    def judge(self, _position: int, header: BatchHeader) -> str | None:
        producer_id, first_offset, last_offset, last_stable_offset = self._entry
        if first_offset > last_offset or last_stable_offset > last_offset + 1:
            return f"the offsets of the transaction of {producer_id} cannot be"
        if header.last_offset < last_offset:
            return None
        is_marker = header.is_control and header.producer_id == producer_id
        return FINE if is_marker and header.last_offset == last_offset else self.missing()

    def missing(self) -> str:
        return f"no marker of producer {self._entry.producer_id} at {self._entry.last_offset}"


_Entry: TypeAlias = _OffsetEntry | _TimeEntry | _TransactionEntry
"""An entry, which has a ``name`` in words, and a ``line`` with its facts.

Its ``order`` must increase in the first number, in an offset index in both. ``judge`` returns the
fault according to a batch, `FINE`, or None if a later batch must be asked; ``missing`` returns the
fault of an entry that no batch has judged.
"""


def _offset_entries(data: bytes, base_offset: int) -> Iterator[_Entry]:
    for relative, position in OFFSET_ENTRY.iter_unpack(_whole(data, OFFSET_ENTRY.size)):
        yield _OffsetEntry(base_offset, relative, position)


def _time_entries(data: bytes, base_offset: int) -> Iterator[_Entry]:
    for timestamp, relative in TIME_ENTRY.iter_unpack(_whole(data, TIME_ENTRY.size)):
        yield _TimeEntry(base_offset, timestamp, relative)


def _whole(data: bytes, size: int) -> bytes:
    return data[: len(data) - len(data) % size]


def _find_damage(data: bytes, name: SegmentName) -> Iterator[Fault]:
    """Yield the faults of a file that no entry has."""
    if name.kind == files.TRANSACTION_INDEX:
        damage = transaction_index.damage_of(data, name.base_offset)
        if damage:
            yield Fault(damage)
        return
    size = OFFSET_ENTRY.size if name.kind == files.INDEX else TIME_ENTRY.size
    if len(data) % size:
        yield Fault(f"{len(data) % size} bytes behind the last whole entry")

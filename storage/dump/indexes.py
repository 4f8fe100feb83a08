"""Prints the indexes of a segment and compares every entry with the ``.log`` beside it."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

from siltstone.protocol.errors import CorruptMessage
from siltstone.protocol.records.batch import BatchHeader
from siltstone.storage import files
from siltstone.storage.dump.line import Fault, Line
from siltstone.storage.files import SegmentName
from siltstone.storage.producers import transaction_index
from siltstone.storage.segment.index import OFFSET_ENTRY, TIME_ENTRY
from siltstone.storage.segment.open_file import OpenFiles
from siltstone.storage.segment.readable import ReadableSegment, open_segment


def dump_offset_index(path: Path, name: SegmentName) -> Iterator[Line]:
    """Yield the entries; a fault if the batch at the position does not end with the offset."""
    data = files.read_bytes(path)
    batches = _Batches(path, name)
    before = (0, 0)
    for relative, position in OFFSET_ENTRY.iter_unpack(_whole(data, OFFSET_ENTRY.size)):
        offset = name.base_offset + relative
        yield Line(offset=offset, position=position)
        if relative <= before[0] or position <= before[1]:
            yield Fault(f"entry {offset} at {position} does not follow the one before")
        before = relative, position
        header = batches.at(position)
        if header is None:
            yield Fault(f"no batch begins at position {position}")
        elif header.last_offset != offset:
            yield Fault(f"the batch at {position} ends with {header.last_offset}, not {offset}")
    yield from batches.faults
    yield from _tail(data, OFFSET_ENTRY.size)


def dump_time_index(path: Path, name: SegmentName) -> Iterator[Line]:
    """Yield the entries; a fault if the batch that ends with the offset has another timestamp."""
    data = files.read_bytes(path)
    batches = _Batches(path, name)
    before = (-1, 0)
    for timestamp, relative in TIME_ENTRY.iter_unpack(_whole(data, TIME_ENTRY.size)):
        offset = name.base_offset + relative
        yield Line(timestamp=timestamp, offset=offset)
        if timestamp <= before[0] or relative < before[1]:
            yield Fault(f"entry {timestamp} for {offset} does not follow the one before")
        before = timestamp, relative
        header = batches.ending_with(offset)
        if header is None:
            yield Fault(f"no batch ends with offset {offset}")
        elif header.max_timestamp != timestamp:
            yield Fault(f"the batch of {offset} has timestamp {header.max_timestamp}")
    yield from batches.faults
    yield from _tail(data, TIME_ENTRY.size)


def dump_transaction_index(path: Path, name: SegmentName) -> Iterator[Line]:
    """Yield the aborted transactions; a fault if the ``.log`` does not have their markers."""
    batches = _Batches(path, name)
    damage = transaction_index.find_damage(path, name.base_offset)
    if damage:
        yield Fault(damage)
    for entry in transaction_index.read(path):
        yield Line(**entry._asdict())
        if (
            entry.first_offset > entry.last_offset
            or entry.last_stable_offset > entry.last_offset + 1
        ):
            yield Fault(f"the offsets of the transaction of {entry.producer_id} cannot be")
        header = batches.ending_with(entry.last_offset)
        if header is None or not header.is_control or header.producer_id != entry.producer_id:
            yield Fault(f"no marker of producer {entry.producer_id} at {entry.last_offset}")
    yield from batches.faults


DUMPERS: Final[dict[str, Callable[[Path, SegmentName], Iterator[Line]]]] = {
    files.INDEX: dump_offset_index,
    files.TIME_INDEX: dump_time_index,
    files.TRANSACTION_INDEX: dump_transaction_index,
}


class _Batches:
    """The headers of the ``.log`` beside an index, read once."""

    def __init__(self, path: Path, name: SegmentName) -> None:
        self.faults: list[Fault] = []
        self._by_position: dict[int, BatchHeader] = {}
        self._by_last_offset: dict[int, BatchHeader] = {}
        try:
            segment = open_segment(path.parent, name.base_offset, OpenFiles(), suffix=name.suffix)
            self._read(segment)
        except FileNotFoundError:
            self.faults.append(Fault("there is no .log beside this index"))
        except CorruptMessage as error:
            self.faults.append(Fault(str(error)))

    def at(self, position: int) -> BatchHeader | None:
        """Return the batch that begins at a position."""
        return self._by_position.get(position)

    def ending_with(self, offset: int) -> BatchHeader | None:
        """Return the batch whose last offset is ``offset``."""
        return self._by_last_offset.get(offset)

    def _read(self, segment: ReadableSegment) -> None:
        for position, header in segment.batches():
            self._by_position[position] = header
            self._by_last_offset[header.last_offset] = header


def _whole(data: bytes, size: int) -> bytes:
    return data[: len(data) - len(data) % size]


def _tail(data: bytes, size: int) -> Iterator[Fault]:
    if len(data) % size:
        yield Fault(f"{len(data) % size} bytes behind the last whole entry")

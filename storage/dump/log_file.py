"""Prints a ``.log``: its batches, and its records when asked for."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final, NamedTuple, TypeAlias

from siltstone.protocol.core.constants import HEADER_SIZE, MAGIC, MIN_LENGTH
from siltstone.protocol.errors import CorruptMessage, InvalidRecord
from siltstone.protocol.records.batch import BatchHeader, has_valid_crc
from siltstone.protocol.records.compression import NAMES, UNLIMITED
from siltstone.protocol.records.record import Record, iterate_records
from siltstone.storage import files
from siltstone.storage.dump.line import Fault, Line, RecordLine
from siltstone.storage.producers.markers import read_marker
from siltstone.storage.segment.check import find_faults

INT64_MAX: Final = (1 << 63) - 1

Describe: TypeAlias = Callable[[Record], dict[str, object] | None]
"""Says what a record of an internal topic means; returns None for one that it does not know."""


class Wanted(NamedTuple):
    """Which batches of a ``.log`` are printed, and how much of each."""

    deep: bool = False
    """With their records."""
    data: bool = False
    """With keys, values and headers."""
    first_offset: int = 0
    last_offset: int = INT64_MAX
    since_ms: int = -1
    until_ms: int = INT64_MAX
    describe: Callable[[Path], Describe | None] = lambda _: None
    """Returns the function that explains the records of a log, None for a topic of users."""

    @property
    def is_part(self) -> bool:
        """Tell whether batches or records are left out because of their offset or time."""
        return self[2:6] != Wanted()[2:6]

    def has_batch(self, header: BatchHeader) -> bool:
        """Tell whether records of a batch may be wanted."""
        return (
            header.last_offset >= self.first_offset
            and header.base_offset <= self.last_offset
            and header.max_timestamp >= self.since_ms
            and (header.has_delete_horizon or header.base_timestamp <= self.until_ms)
        )

    def has_record(self, record: Record) -> bool:
        """Tell whether a record is wanted."""
        return (
            self.first_offset <= record.offset <= self.last_offset
            and self.since_ms <= record.timestamp <= self.until_ms
        )


EVERYTHING: Final = Wanted()


def dump_log(path: Path, wanted: Wanted = EVERYTHING) -> Iterator[Line]:
    """Yield a line per batch, and its records if wanted. Only one batch is in memory at a time."""
    reader = LogLines(path, wanted)
    yield from reader.read()
    if reader.rest and not reader.is_broken:
        yield Fault(f"{reader.rest} bytes at position {reader.position} are no whole batch")


class LogLines:
    """The lines of a ``.log`` that may grow: each `read` begins where the last one ended."""

    def __init__(self, path: Path, wanted: Wanted = EVERYTHING) -> None:
        name = files.parse_name(path.name)
        self.path = path
        self.position = 0
        self.rest = 0  # bytes after the last whole batch
        self.is_broken = False  # no batch follows, so no later one can be found
        self._wanted = wanted
        self._describe = wanted.describe(path)
        self._expected = name.base_offset if name else 0

    def read(self) -> Iterator[Line]:
        """Yield the lines of the batches that are whole.

        Raises:
            OSError: The file cannot be read.
        """
        with files.opened(self.path) as log:
            size = files.size_of(log)
            while size - self.position >= HEADER_SIZE and not self.is_broken:
                header = BatchHeader.read(files.read_at(log, HEADER_SIZE, self.position))
                if header.length < MIN_LENGTH or header.magic != MAGIC:
                    self.is_broken = True
                    yield Fault(
                        f"no batch at position {self.position}: length {header.length}, "
                        f"magic {header.magic}"
                    )
                    break
                if header.size > size - self.position:
                    break
                if self._wanted.has_batch(header):
                    batch = files.read_at(log, header.size, self.position)
                    yield from _dump_batch(self.position, header, batch, self._expected)
                    if self._wanted.deep:
                        yield from _dump_records(batch, header, self._wanted, self._describe)
                self._expected = header.next_offset
                self.position += header.size
            self.rest = size - self.position


def _dump_batch(position: int, header: BatchHeader, batch: bytes, expected: int) -> Iterator[Line]:
    codec = NAMES[header.codec] if header.codec < len(NAMES) else header.codec
    facts: dict[str, object] = {
        "position": position,
        "size": header.size,
        "base_offset": header.base_offset,
        "last_offset": header.last_offset,
        "count": header.count,
        "leader_epoch": header.leader_epoch,
        "codec": codec,
        "max_timestamp": header.max_timestamp,
        "timestamp_type": "LogAppendTime" if header.is_log_append_time else "CreateTime",
        "crc": f"{header.crc:08x}",
    }
    if header.producer_id >= 0:
        facts |= {
            "producer_id": header.producer_id,
            "producer_epoch": header.producer_epoch,
            "base_sequence": header.base_sequence,
            "last_sequence": header.last_sequence,
            "transactional": header.is_transactional,
        }
    if header.is_control:
        facts["control"] = True
    if header.has_delete_horizon:
        facts["delete_horizon_ms"] = header.base_timestamp
    yield Line(**facts)
    if not has_valid_crc(memoryview(batch), header.crc):
        yield Fault(f"wrong checksum of the batch at position {position}")
    for fault in find_faults(header, expected):
        yield Fault(f"position {position}: {fault}")


def _dump_records(
    batch: bytes, header: BatchHeader, wanted: Wanted, describe: Describe | None
) -> Iterator[Line]:
    try:
        if header.is_control:
            marker = read_marker(batch)
            if marker is not None:
                yield RecordLine(
                    {
                        "offset": header.last_offset,
                        "marker": marker.kind.name,
                        "coordinator_epoch": marker.coordinator_epoch,
                    }
                )
            return
        for record in iterate_records(batch, UNLIMITED):
            if wanted.has_record(record):
                yield _record(record, wanted, describe)
    except (CorruptMessage, InvalidRecord) as error:
        yield Fault(f"records of the batch at offset {header.base_offset}: {error}")


def _record(record: Record, wanted: Wanted, describe: Describe | None) -> RecordLine:
    facts: dict[str, object] = {
        "offset": record.offset,
        "timestamp": record.timestamp,
        "key_size": -1 if record.key is None else len(record.key),
        "value_size": -1 if record.value is None else len(record.value),
        "headers": len(record.headers),
    }
    meaning = None if describe is None else describe(record)
    if meaning is not None:
        return RecordLine(facts, meaning)
    if wanted.data:
        facts |= {"key": record.key, "value": record.value}
        if record.headers:
            facts["header_data"] = list(record.headers)
    return RecordLine(facts)

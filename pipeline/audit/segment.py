"""Checks one segment: every batch, every record, every index entry, and the name of the file.

The log is read once, by the compiled core: checksums and lengths of batches and records, the order
of offsets. Index entries are compared with the batches that they point at.
"""

import errno
import os
from array import array
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Final

import pyarrow.compute as pc

from siltstone.pipeline.audit.findings import Findings, Kind
from siltstone.pipeline.audit.transactions import Step, Steps
from siltstone.pipeline.planning.manifest import PinnedPartition, PinnedSegment
from siltstone.pipeline.reading.decoder import Decoder, Fault, Wanted
from siltstone.pipeline.reading.scanned import Scanned
from siltstone.pipeline.stores import StoredFile, join, open_store
from siltstone.protocol.core.columns import Survey
from siltstone.protocol.core.constants import (
    BAD_RECORD,
    FAULTS,
    FULL,
    HEADER_SIZE,
    OFFSET_BACKWARDS,
    TRANSACTIONAL,
    WRONG_CRC,
)
from siltstone.protocol.records.batch import BatchHeader, has_valid_crc
from siltstone.storage import files
from siltstone.storage.producers import transaction_index
from siltstone.storage.producers.transaction_index import AbortedTransaction
from siltstone.storage.segment.index import OFFSET_ENTRY, TIME_ENTRY

CHUNK_BYTES: Final = 8 << 20
_COLUMNS: Final = ("isTombstone", "timestampMs")
_NO_TIMESTAMP: Final = -1
_PASSED_OVER: Final = {FAULTS[WRONG_CRC], FAULTS[BAD_RECORD]}
"""Faults of a batch whose length can still be believed."""


@dataclass(slots=True)
class SegmentReport:
    """The facts that were read from a segment, and its faults."""

    base_offset: int
    size: int = 0
    batches: int = 0
    records: int = 0
    first_offset: int = -1
    last_offset: int = -1
    """The last offset of the last whole batch, or -1."""
    findings: Findings = field(default_factory=Findings)
    steps: list[Step] = field(default_factory=list)
    aborted: list[AbortedTransaction] = field(default_factory=list)

    @property
    def end_offset(self) -> int:
        """The offset after the last whole batch, the base without one."""
        return max(self.base_offset, self.last_offset + 1)


def audit_segment(partition: PinnedPartition, segment: PinnedSegment) -> SegmentReport:
    """Check all files of a segment. Blocks."""
    audit = _SegmentAudit(partition, segment)
    try:
        audit.check()
    except FileNotFoundError as error:
        audit.report.findings.add(
            Kind.MISSING_FILE,
            f"a file of the segment is gone: {error.filename or error}",
            file=audit.name,
        )
    return audit.report


class _SegmentAudit:
    """The work on one segment."""

    def __init__(self, partition: PinnedPartition, segment: PinnedSegment) -> None:
        self._store, self._folder = open_store(partition.folder)
        self._partition = partition
        self._segment = segment
        self.name = join(partition.folder, segment.file_name(files.LOG))
        self.report = SegmentReport(segment.base_offset, size=segment.size)
        self._findings = self.report.findings
        self._log: StoredFile
        self._positions = array("q")  # positions of data batches, ascending
        self._last_offsets = array("q")
        self._timestamps = array("q")
        self._readable = segment.size  # readers stop there: damage hides the rest
        self._rowless: set[int] | None = None  # last offsets of control and empty batches
        self._steps = Steps()
        self.report.steps = self._steps.found

    def check(self) -> None:
        """Check everything."""
        self._log = self._store.open(join(self._folder, self._segment.file_name(files.LOG)))
        try:
            self._check_log()
            if self._check_name():  # entries are relative to it
                self._check_offset_index()
                self._check_time_index()
            self._check_transaction_index()
        finally:
            self._log.close()

    def _check_log(self) -> None:
        """Read the log once."""
        scanned = Scanned()
        wanted = Wanted(
            columns=_COLUMNS, topic=self._partition.topic, partition=self._partition.partition
        )
        decoder = Decoder(wanted, scanned)
        position, size = 0, CHUNK_BYTES
        survey = Survey()
        largest = _NO_TIMESTAMP
        while position < self._segment.size:
            data = self._log.read(position, min(size, self._segment.size - position))
            chunk = memoryview(data)
            for rows in decoder.decode(chunk, position):
                stamps = pc.max(rows["timestampMs"]).as_py()
                largest = max(largest, _NO_TIMESTAMP if stamps is None else stamps)
            whole = decoder.consumed
            if decoder.fault is not None:
                whole += self._pass_over(decoder, decoder.fault, len(data) - whole)
            self._survey(chunk[:whole], position, survey)
            if decoder.fault is not None and whole == decoder.consumed:
                break
            if not whole and len(data) == self._segment.size - position:
                self._note_damage(position, "it is cut off")
                self._readable = position
                break
            position += whole
            size = CHUNK_BYTES if whole else max(decoder.needed, 2 * size)
        self.report.records = scanned.records
        if self._timestamps and largest > max(self._timestamps):
            self._findings.add(
                Kind.MAX_TIMESTAMP,
                f"a record has timestamp {largest}, and no batch says so",
                file=self.name,
            )

    def _pass_over(self, decoder: Decoder, fault: Fault, room: int) -> int:
        """Note a bad batch, and return its size if the batches after it can be read; else 0."""
        self._note_damage(fault.position, fault.reason)
        is_readable = fault.reason in _PASSED_OVER and HEADER_SIZE <= fault.size <= room
        if not is_readable:
            self._readable = fault.position
            return 0
        decoder.pass_over()
        return fault.size

    def _survey(self, chunk: memoryview, origin: int, survey: Survey) -> None:
        """List the batches of data of a chunk, and the steps of transactions if it has any."""
        start, size, flags = 0, 0, 0
        while start < len(chunk):
            survey.scan(chunk, start, origin, False)
            for row in survey.rows:
                self._positions.append(row.origin)
                self._last_offsets.append(row.last_offset)
                self._timestamps.append(row.max_timestamp)
            self.report.batches += len(survey.rows)
            size += survey.rows.size
            flags |= survey.flags
            if survey.status != FULL:
                break
            start = survey.position
        self.report.last_offset = max(self.report.last_offset, survey.last_offset)
        if flags & TRANSACTIONAL or size < len(chunk):  # or a batch has no rows, such as a marker
            self._steps.add(chunk)

    def _note_damage(self, position: int, reason: str) -> None:
        kind = {
            FAULTS[WRONG_CRC]: Kind.BAD_CRC,
            FAULTS[OFFSET_BACKWARDS]: Kind.OFFSET_ORDER,
        }.get(reason, Kind.BAD_BATCH)
        self._findings.add(
            kind,
            f"the batch at position {position} of {self.name} is bad: {reason}",
            file=self.name,
            position=position,
        )

    def _check_name(self) -> bool:
        """Check the base offset: at most the first offset, or equal to it without cleaning."""
        first = self._header_at(0)
        if first is None:
            return True
        self.report.first_offset = first.base_offset
        base = self._segment.base_offset
        is_cleaned = self._partition.is_compacted or self._partition.first_dirty_offset > 0
        is_wrong = first.base_offset < base or (first.base_offset > base and not is_cleaned)
        if is_wrong:
            self._findings.add(
                Kind.WRONG_NAME,
                f"{self.name} is called {base} and begins with offset {first.base_offset}",
                file=self.name,
                offset=first.base_offset,
            )
        return not is_wrong

    def _check_offset_index(self) -> None:
        """Check that each entry names a batch and its last offset, and that entries rise."""
        before = (-1, -1)
        for relative, position in self._entries(files.INDEX, OFFSET_ENTRY.iter_unpack):
            offset = self._segment.base_offset + relative
            if position >= self._readable and (self._segment.is_active or self._is_damaged):
                return  # appended after the moment, or after damage
            if relative <= before[0] or position <= before[1]:
                self._note_entry(Kind.BAD_INDEX, f"entry {offset} does not follow the one before")
            before = relative, position
            last = self._last_offset_at(position)
            if last is None:
                self._note_entry(
                    Kind.BAD_INDEX, f"entry {offset}: no batch begins at position {position}"
                )
            elif last != offset and not self._is_later_in_an_append(last, offset):
                self._note_entry(
                    Kind.BAD_INDEX,
                    f"entry {offset}: the batch at position {position} ends with {last}",
                )

    def _check_time_index(self) -> None:
        """Check that each entry names a batch by its last offset, and has its timestamp."""
        before = (-1, -1)
        for timestamp, relative in self._entries(files.TIME_INDEX, TIME_ENTRY.iter_unpack):
            offset = self._segment.base_offset + relative
            is_open = self._segment.is_active or self._is_damaged
            if is_open and offset > self.report.last_offset:
                return
            if timestamp <= before[0] or relative < before[1]:
                self._note_entry(
                    Kind.BAD_TIME_INDEX, f"entry {timestamp} does not follow the one before"
                )
            before = timestamp, relative
            place = bisect_left(self._last_offsets, offset)
            is_data = place < len(self._last_offsets) and self._last_offsets[place] == offset
            if is_data and self._timestamps[place] != timestamp:
                self._note_entry(
                    Kind.BAD_TIME_INDEX,
                    f"entry {timestamp}: the batch that ends with {offset} says "
                    f"{self._timestamps[place]}",
                )
            elif not is_data and not self._ends_with(offset):
                self._note_entry(
                    Kind.BAD_TIME_INDEX, f"entry {timestamp}: no batch ends with {offset}"
                )

    def _check_transaction_index(self) -> None:
        """Read the entries, which are compared when all segments have been read."""
        if files.TRANSACTION_INDEX not in self._segment.files:
            return
        data = self._read(files.TRANSACTION_INDEX)
        is_open = self._segment.is_active or self._is_damaged
        if is_open:
            data = data[: len(data) - len(data) % transaction_index.ENTRY.size]
        damage = transaction_index.damage_of(data, self._segment.base_offset)
        if damage is not None:
            self._note_entry(Kind.BAD_TRANSACTION_INDEX, damage)
        self.report.aborted = [
            each
            for each in transaction_index.parse(data)
            if not is_open or each.last_offset <= self.report.last_offset
        ]

    @property
    def _is_damaged(self) -> bool:
        return self._readable < self._segment.size

    def _entries(
        self, kind: str, unpack: Callable[[bytes], Iterable[tuple[int, ...]]]
    ) -> Iterator[tuple[int, int]]:
        """Yield the entries of an index. One that Kafka wrote may end in zeros (KAFKA-10207)."""
        if kind not in self._segment.files:
            return
        data = self._read(kind)
        size = OFFSET_ENTRY.size if kind == files.INDEX else TIME_ENTRY.size
        whole = data[: len(data) - len(data) % size]
        zeros = len(whole) - len(whole.rstrip(b"\x00"))
        for entry in unpack(whole[: len(whole) - zeros // size * size]):
            yield entry[0], entry[1]

    def _last_offset_at(self, position: int) -> int | None:
        """Return the last offset of the batch at a position, None if no batch begins there."""
        place = bisect_left(self._positions, position)
        if place < len(self._positions) and self._positions[place] == position:
            return self._last_offsets[place]
        header = self._header_at(position)
        if header is None or not _has_no_rows(header) or not self._is_whole(position, header):
            return None
        return header.last_offset

    def _is_later_in_an_append(self, last: int, offset: int) -> bool:
        """Tell whether an entry stands for several batches and names the first one (KAFKA-806)."""
        place = bisect_left(self._last_offsets, offset)
        return last < offset and self._last_offsets[place : place + 1] == array("q", [offset])

    def _ends_with(self, offset: int) -> bool:
        """Tell whether a batch without rows ends at an offset; the first call reads all headers."""
        if self._rowless is None:
            self._rowless = set()
            position = 0
            while (header := self._header_at(position)) is not None:
                if _has_no_rows(header):
                    self._rowless.add(header.last_offset)
                position += header.size
        return offset in self._rowless

    def _header_at(self, position: int) -> BatchHeader | None:
        data = self._log.read(position, HEADER_SIZE)
        if position + HEADER_SIZE > self._segment.size or len(data) < HEADER_SIZE:
            return None
        header = BatchHeader.read(data)
        return header if header.size >= HEADER_SIZE else None

    def _is_whole(self, position: int, header: BatchHeader) -> bool:
        data = self._log.read(position, header.size)
        return len(data) == header.size and has_valid_crc(memoryview(data), header.crc)

    def _read(self, kind: str) -> bytes:
        path = join(self._folder, self._segment.file_name(kind))
        data = self._store.read(path)
        if data is None:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), path)
        return data

    def _note_entry(self, kind: Kind, sentence: str) -> None:
        file = {
            Kind.BAD_INDEX: files.INDEX,
            Kind.BAD_TIME_INDEX: files.TIME_INDEX,
            Kind.BAD_TRANSACTION_INDEX: files.TRANSACTION_INDEX,
        }[kind]
        name = self.name.removesuffix(files.LOG) + file
        self._findings.add(kind, f"{name}: {sentence}", file=name)


def _has_no_rows(header: BatchHeader) -> bool:
    return header.is_control or not header.count

"""From the bytes of a chunk to Arrow record batches, for every transport.

The batches of a chunk are listed, those that a reader must not see are removed from the list,
compressed ones are opened, and their records become columns. Nothing here knows where the bytes
come from.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final

import pyarrow as pa

from siltstone.pipeline.columns import TYPES, WALKED, arrow_schema, check_names
from siltstone.pipeline.options import FIRST_TIME
from siltstone.pipeline.planning.split import Split
from siltstone.pipeline.reading.arena import Arena
from siltstone.pipeline.reading.scanned import Scanned
from siltstone.protocol.core.columns import Rows, Survey, fill_columns
from siltstone.protocol.core.constants import (
    ATTRIBUTES_POSITION,
    BAD_COUNT,
    BAD_RECORD,
    CODEC_MASK,
    FAULTS,
    FULL,
    HEADER_SIZE,
    MIN_RECORD_BYTES,
    TRANSACTIONAL,
)
from siltstone.protocol.core.rows import BatchRow, Filled, Selection
from siltstone.protocol.errors import CorruptMessage, KafkaError
from siltstone.protocol.records import compression

ROWS_PER_SURVEY: Final = 8192
UNPACKED_BYTES: Final = 16 << 20
"""How many bytes of opened batches become columns at once; one batch may be larger."""

IsAborted = Callable[[int, int], bool]
"""Whether a batch of a producer id at a base offset belongs to an aborted transaction."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """A bad batch: its place in the file, the size that it states, and its fault."""

    position: int
    size: int
    reason: str


class Decoder:
    """Turns chunks of one partition, in order, into record batches. One thread."""

    def __init__(
        self,
        split: Split,
        columns: tuple[str, ...],
        scanned: Scanned,
        is_aborted: IsAborted | None = None,
    ) -> None:
        check_names(columns)
        self._split = split
        self._rules = split.rules
        self._columns = columns
        self._start = split.start_offset
        self._scanned = scanned
        self._is_aborted = is_aborted
        self._schema = arrow_schema(columns)
        self._survey = Survey(ROWS_PER_SURVEY)
        self._constants: dict[str, pa.Array] = {}
        self.consumed = 0
        """Bytes of the last chunk that are done with."""
        self.needed = HEADER_SIZE
        """Bytes that the next batch takes."""
        self.fault: Fault | None = None
        """Why the last chunk was not read to its end."""
        self.next_offset = split.start_offset
        """Everything below it has been read."""
        self.segment = -1
        """The base offset of the segment that the chunks are of."""

    def decode(self, chunk: memoryview, origin: int) -> Iterator[pa.RecordBatch]:
        """Yield the records of the whole batches of a chunk, which begins with one.

        ``origin`` is the chunk's position in its file. Afterwards `consumed`, `needed` and `fault`
        say how far it was read.
        """
        survey = self._survey
        self.consumed, self.fault = 0, None
        status = FULL
        while status == FULL:
            survey.scan(chunk, self.consumed, origin, True)
            status, self.needed = survey.status, survey.needed
            self.consumed = survey.position
            self.next_offset = max(self.next_offset, survey.last_offset + 1)
            if len(survey.rows):
                yield from self._decode_listed(chunk, origin)
            if self.fault is not None:
                return
        if status < 0:
            self.fault = self._fault(chunk, self.consumed, origin, FAULTS[status])

    @property
    def _is_walked(self) -> bool:
        """Whether the records themselves have to be looked at."""
        return not (self._rules.is_of_all_times and WALKED.isdisjoint(self._columns))

    def restart(self, offset: int) -> None:
        """Continue at an offset, after the files have changed."""
        self._start = offset
        self.pass_over()

    def pass_over(self) -> None:
        """Forget the order of offsets: the next batch may come after damaged bytes."""
        self._survey.last_offset = -1

    def _fault(self, chunk: memoryview, at: int, origin: int, reason: str) -> Fault:
        size = int.from_bytes(chunk[at + 8 : at + 12], "big", signed=True) + 12
        self.consumed = at
        return Fault(position=origin + at, size=size, reason=reason)

    def _decode_listed(self, chunk: memoryview, origin: int) -> Iterator[pa.RecordBatch]:
        rows, flags = self._survey.rows, self._survey.flags
        if not self._must_choose(flags):
            yield from self._fill(chunk, rows, origin)
            return
        listed = [row for row in rows if self._is_wanted(row)]
        if flags & CODEC_MASK:
            yield from self._decode_opened(chunk, listed, origin)
        elif listed:
            yield from self._fill(chunk, _rows_of(listed), origin)

    def _must_choose(self, flags: int) -> bool:
        return (
            (self._is_aborted is not None and flags & TRANSACTIONAL != 0)
            or (flags & CODEC_MASK != 0)
            or self._rules.time_from > FIRST_TIME
        )

    def _is_wanted(self, row: BatchRow) -> bool:
        if row.last_offset < self._start or row.base_offset >= self._split.end_offset:
            return False
        if row.max_timestamp < self._rules.time_from:
            return False
        return not (
            self._is_aborted is not None
            and row.attributes & TRANSACTIONAL
            and self._is_aborted(row.producer_id, row.base_offset)
        )

    def _decode_opened(
        self, chunk: memoryview, rows: list[BatchRow], origin: int
    ) -> Iterator[pa.RecordBatch]:
        """Open compressed batches, some at a time, and decode them with those between them."""
        opened = bytearray()
        listed: list[BatchRow] = []
        for row in rows:
            try:
                batch = self._open(chunk, row)
            except KafkaError as error:
                yield from self._fill_opened(opened, listed, origin)
                self.fault = self._fault(chunk, row.position, origin, error.message)
                return
            listed.append(row._replace(position=len(opened), size=len(batch)))
            opened += batch
            if len(opened) >= UNPACKED_BYTES:
                yield from self._fill_opened(opened, listed, origin)
                if self.fault is not None:
                    return
                opened, listed = bytearray(), []
        yield from self._fill_opened(opened, listed, origin)

    def _open(self, chunk: memoryview, row: BatchRow) -> bytes | memoryview:
        """Return a batch with its records uncompressed.

        Raises:
            KafkaError: it cannot be opened, or differs from its header.
        """
        start, size = row.position, row.size
        codec = row.attributes & CODEC_MASK
        if not codec:
            return chunk[start : start + size]
        packed = chunk[start + HEADER_SIZE : start + size]
        if not self._is_walked and self._is_told_by_header(row):
            max_count = (
                len(packed) * compression.MAX_RATIO[codec] if codec <= compression.ZSTD else 0
            )
            self._check_count(row, min(max_count, compression.MAX_DECOMPRESSED_BYTES))
            return chunk[start : start + size]
        records = compression.decompress(codec, packed)
        self._check_count(row, len(records))
        head = bytearray(chunk[start : start + HEADER_SIZE])
        head[ATTRIBUTES_POSITION + 1] &= ~CODEC_MASK
        return bytes(head) + records

    @staticmethod
    def _check_count(row: BatchRow, room: int) -> None:
        """Refuse a count that does not fit so many bytes: memory is reserved by it."""
        if row.count * MIN_RECORD_BYTES > room:
            raise CorruptMessage(FAULTS[BAD_COUNT])

    def _is_told_by_header(self, row: BatchRow) -> bool:
        base, last = row.base_offset, row.last_offset
        is_inside = base >= self._start and last < self._split.end_offset
        is_even = row.count == last - base + 1
        return is_inside and ("offset" not in self._columns or is_even)

    def _fill_opened(
        self, opened: bytearray, rows: list[BatchRow], origin: int
    ) -> Iterator[pa.RecordBatch]:
        if rows:
            yield from self._fill(memoryview(opened), _rows_of(rows), origin)

    def _fill(self, data: memoryview, rows: Rows, origin: int) -> Iterator[pa.RecordBatch]:
        rules = self._rules
        arena = Arena(self._columns, rows.records, rows.size)
        selection = Selection(
            start=self._start,
            end=self._split.end_offset,
            time_from=rules.time_from,
            time_last=rules.time_last,
            time_scale=1000 if "timestamp" in self._columns else 1,
            is_walked=self._is_walked,
        )
        filled = fill_columns(data, rows, selection, arena.layout, arena.buffer)
        bad = rows[filled.bad_row] if filled.bad_row >= 0 else None
        self._scanned.records += filled.rows
        if filled.rows:
            yield self._record_batch(arena, filled)
        if bad is not None:
            self.consumed = bad.origin - origin
            self.fault = Fault(position=bad.origin, size=bad.size, reason=FAULTS[BAD_RECORD])

    def _record_batch(self, arena: Arena, state: Filled) -> pa.RecordBatch:
        rows = state.rows
        filled = arena.arrays(state)
        if not self._columns:
            nothing = pa.Array.from_buffers(pa.struct([]), rows, [None], null_count=0)
            return pa.RecordBatch.from_struct_array(nothing)
        return pa.RecordBatch.from_arrays(
            [
                filled[name] if name in filled else self._constant(name, rows)
                for name in self._columns
            ],
            schema=self._schema,
        )

    def _constant(self, name: str, rows: int) -> pa.Array:
        """Return a column with one value for the whole segment."""
        known = self._constants.get(name)
        value = {
            "topic": self._split.topic,
            "partition": self._split.partition,
            "segment": self.segment,
        }[name]
        if known is None or len(known) < rows or known[0].as_py() != value:
            known = pa.repeat(pa.scalar(value, TYPES[name]), rows)
            self._constants[name] = known
        return known.slice(0, rows)


def _rows_of(listed: list[BatchRow]) -> Rows:
    rows = Rows()
    for row in listed:
        rows.append(row)
    return rows

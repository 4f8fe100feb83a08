"""From the bytes of a chunk to Arrow record batches: what every transport hands its bytes to.

A chunk is surveyed, what a reader must not see is struck from its list of batches, compressed ones
are opened, and the rest becomes columns. Nothing here knows where the bytes come from.
"""

from array import array
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Final

import pyarrow as pa

from pipeline.arena import Arena
from pipeline.columns import TYPES, WALKED, arrow_schema, check_names
from pipeline.options import FIRST_TIME, LAST_TIME
from pipeline.scanned import Scanned
from protocol.errors import CorruptMessage, KafkaError
from protocol.records import column_slots as slots
from protocol.records import compression
from protocol.records.batch import ATTRIBUTES_POSITION, CODEC_MASK, HEADER_SIZE, TRANSACTIONAL
from protocol.records.column_kernels import fill_columns, survey_batches

ROWS_PER_SURVEY: Final = 8192
UNPACKED_BYTES: Final = 16 << 20
"""How much of opened batches is turned into columns at once; one batch may be more."""
LEAST_RECORD_BYTES: Final = 7

IsAborted = Callable[[int, int], bool]
"""Whether a batch of a producer id at a base offset belongs to an aborted transaction."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """What a reader asks of the bytes: columns, offsets and times, and how far to trust them.

    Offsets are from ``start_offset`` to below ``end_offset``; times are in ms, both ends inclusive.
    """

    columns: tuple[str, ...]
    topic: str
    partition: int
    start_offset: int = 0
    end_offset: int = LAST_TIME
    time_from: int = FIRST_TIME
    time_last: int = LAST_TIME
    is_verified: bool = True

    @property
    def is_walked(self) -> bool:
        """Whether the records themselves have to be looked at."""
        is_timed = self.time_from > FIRST_TIME or self.time_last < LAST_TIME
        return is_timed or not WALKED.isdisjoint(self.columns)


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """A batch that is none: where in the file, its size as it says, and why."""

    position: int
    size: int
    reason: str


class Decoder:
    """Turns chunks of one partition, in order, into record batches. One thread."""

    def __init__(
        self, wanted: Wanted, scanned: Scanned, is_aborted: IsAborted | None = None
    ) -> None:
        check_names(wanted.columns)
        self._wanted = wanted
        self._scanned = scanned
        self._is_aborted = is_aborted
        self._schema = arrow_schema(wanted.columns)
        self._rows = array("q", bytes(8 * slots.ROW_NUMBERS * ROWS_PER_SURVEY))
        self._survey = array("q", bytes(8 * slots.SURVEY_SLOTS))
        self._survey[slots.LAST_OFFSET] = -1
        self._constants: dict[str, pa.Array] = {}
        self.consumed = 0
        """Bytes of the last chunk that are done with."""
        self.needed = HEADER_SIZE
        """Bytes that the next batch takes."""
        self.fault: Fault | None = None
        """Why the last chunk was not gone through to its end."""
        self.next_offset = wanted.start_offset
        """Nothing below it is left in what was seen."""
        self.segment = -1
        """The base offset of the segment that the chunks are of."""

    def decode(self, chunk: memoryview, origin: int) -> Iterator[pa.RecordBatch]:
        """Yield the records of the whole batches of a chunk, which begins with one.

        ``origin`` is the chunk's position in its file. Afterwards `consumed`, `needed` and `fault`
        say how far that went.
        """
        state = self._survey
        self.consumed, self.fault = 0, None
        status = slots.FULL
        while status == slots.FULL:
            survey_batches(
                chunk, self.consumed, origin, self._wanted.is_verified, self._rows, state
            )
            status, self.needed = state[slots.STATUS], state[slots.NEEDED]
            self.consumed = state[slots.POSITION]
            self.next_offset = max(self.next_offset, state[slots.LAST_OFFSET] + 1)
            if state[slots.BATCHES]:
                yield from self._decode_listed(chunk, origin)
            if self.fault is not None:
                return
        if status < 0:
            self.fault = self._fault(chunk, self.consumed, origin, slots.FAULTS[status])

    def restart(self, offset: int) -> None:
        """Go on at an offset, in other files than before."""
        self._wanted = replace(self._wanted, start_offset=offset)
        self.pass_over()

    def pass_over(self) -> None:
        """Forget the order of offsets: what comes next may lie behind junk."""
        self._survey[slots.LAST_OFFSET] = -1

    def _fault(self, chunk: memoryview, at: int, origin: int, reason: str) -> Fault:
        size = int.from_bytes(chunk[at + 8 : at + 12], "big", signed=True) + 12
        self.consumed = at
        return Fault(position=origin + at, size=size, reason=reason)

    def _decode_listed(self, chunk: memoryview, origin: int) -> Iterator[pa.RecordBatch]:
        state, width = self._survey, slots.ROW_NUMBERS
        flags, count = state[slots.FLAGS], state[slots.BATCHES]
        if not self._must_choose(flags):
            yield from self._fill(chunk, self._rows, count, origin)
            return
        listed = [
            row
            for at in range(0, count * width, width)
            if self._is_wanted(row := self._rows[at : at + width])
        ]
        if flags & CODEC_MASK:
            yield from self._decode_opened(chunk, listed, origin)
        elif listed:
            rows = array("q", b"".join(row.tobytes() for row in listed))
            yield from self._fill(chunk, rows, len(listed), origin)

    def _must_choose(self, flags: int) -> bool:
        wanted = self._wanted
        return (
            (self._is_aborted is not None and flags & TRANSACTIONAL != 0)
            or (flags & CODEC_MASK != 0)
            or wanted.time_from > FIRST_TIME
        )

    def _is_wanted(self, row: "array[int]") -> bool:
        wanted = self._wanted
        if row[slots.ROW_LAST_OFFSET] < wanted.start_offset:
            return False
        if row[slots.ROW_BASE_OFFSET] >= wanted.end_offset:
            return False
        if row[slots.ROW_MAX_TIMESTAMP] < wanted.time_from:
            return False
        return not (
            self._is_aborted is not None
            and row[slots.ROW_ATTRIBUTES] & TRANSACTIONAL
            and self._is_aborted(row[slots.ROW_PRODUCER_ID], row[slots.ROW_BASE_OFFSET])
        )

    def _decode_opened(
        self, chunk: memoryview, rows: "list[array[int]]", origin: int
    ) -> Iterator[pa.RecordBatch]:
        """Open compressed batches, some at a time, and decode them with those between them."""
        opened = bytearray()
        listed: array[int] = array("q")
        for row in rows:
            try:
                batch = self._open(chunk, row)
            except KafkaError as error:
                yield from self._fill_opened(opened, listed, origin)
                self.fault = self._fault(chunk, row[slots.ROW_POSITION], origin, error.message)
                return
            row[slots.ROW_POSITION] = len(opened)
            opened += batch
            row[slots.ROW_SIZE] = len(opened) - row[slots.ROW_POSITION]
            listed += row
            if len(opened) >= UNPACKED_BYTES:
                yield from self._fill_opened(opened, listed, origin)
                if self.fault is not None:
                    return
                opened, listed = bytearray(), array("q")
        yield from self._fill_opened(opened, listed, origin)

    def _open(self, chunk: memoryview, row: "array[int]") -> bytes | memoryview:
        """Return a batch with its records uncompressed.

        Raises:
            KafkaError: it can not be opened, or not to what its header says.
        """
        start, size = row[slots.ROW_POSITION], row[slots.ROW_SIZE]
        codec = row[slots.ROW_ATTRIBUTES] & CODEC_MASK
        if not codec:
            return chunk[start : start + size]
        packed = chunk[start + HEADER_SIZE : start + size]
        if not self._wanted.is_walked and self._is_told_by_header(row):
            most = len(packed) * compression.MAX_RATIO[codec] if codec <= compression.ZSTD else 0
            self._check_count(row, min(most, compression.MAX_DECOMPRESSED_BYTES))
            return chunk[start : start + size]
        records = compression.decompress(codec, packed)
        self._check_count(row, len(records))
        head = bytearray(chunk[start : start + HEADER_SIZE])
        head[ATTRIBUTES_POSITION + 1] &= ~CODEC_MASK
        return bytes(head) + records

    @staticmethod
    def _check_count(row: "array[int]", room: int) -> None:
        """Refuse a count that so many bytes have no room for: memory is taken by it."""
        if row[slots.ROW_COUNT] * LEAST_RECORD_BYTES > room:
            raise CorruptMessage(slots.FAULTS[slots.BAD_COUNT])

    def _is_told_by_header(self, row: "array[int]") -> bool:
        wanted = self._wanted
        base, last = row[slots.ROW_BASE_OFFSET], row[slots.ROW_LAST_OFFSET]
        is_inside = base >= wanted.start_offset and last < wanted.end_offset
        is_even = row[slots.ROW_COUNT] == last - base + 1
        return is_inside and ("offset" not in wanted.columns or is_even)

    def _fill_opened(
        self, opened: bytearray, rows: "array[int]", origin: int
    ) -> Iterator[pa.RecordBatch]:
        if rows:
            count = len(rows) // slots.ROW_NUMBERS
            yield from self._fill(memoryview(opened), rows, count, origin)

    def _fill(
        self, data: memoryview, rows: "array[int]", count: int, origin: int
    ) -> Iterator[pa.RecordBatch]:
        wanted = self._wanted
        width = slots.ROW_NUMBERS
        records = sum(rows[slots.ROW_COUNT : count * width : width])
        payload = sum(rows[slots.ROW_SIZE : count * width : width])
        arena = Arena(wanted.columns, records, payload)
        state = array("q", bytes(8 * slots.FILL_SLOTS))
        state[slots.START], state[slots.END] = wanted.start_offset, wanted.end_offset
        state[slots.TIME_FROM], state[slots.TIME_LAST] = wanted.time_from, wanted.time_last
        state[slots.TIME_SCALE] = 1000 if "timestamp" in wanted.columns else 1
        state[slots.IS_WALKED] = wanted.is_walked
        fill_columns(data, rows, count, state, arena.layout, arena.buffer)
        self._scanned.batches += count
        self._scanned.records += state[slots.ROWS]
        if state[slots.ROWS]:
            yield self._record_batch(arena, state)
        bad = state[slots.BAD_ROW]
        if bad >= 0:
            at = rows[bad * width + slots.ROW_ORIGIN] - origin
            self.consumed = at
            self.fault = Fault(
                position=origin + at,
                size=rows[bad * width + slots.ROW_SIZE],
                reason=slots.FAULTS[slots.BAD_RECORD],
            )

    def _record_batch(self, arena: Arena, state: "array[int]") -> pa.RecordBatch:
        rows = state[slots.ROWS]
        filled = arena.arrays(state)
        if not self._wanted.columns:
            nothing = pa.Array.from_buffers(pa.struct([]), rows, [None], null_count=0)
            return pa.RecordBatch.from_struct_array(nothing)
        return pa.RecordBatch.from_arrays(
            [
                filled[name] if name in filled else self._constant(name, rows)
                for name in self._wanted.columns
            ],
            schema=self._schema,
        )

    def _constant(self, name: str, rows: int) -> pa.Array:
        """Return a column that has one value for all of a segment."""
        known = self._constants.get(name)
        value = {
            "topic": self._wanted.topic,
            "partition": self._wanted.partition,
            "segment": self.segment,
        }[name]
        if known is None or len(known) < rows or known[0].as_py() != value:
            known = pa.repeat(pa.scalar(value, TYPES[name]), rows)
            self._constants[name] = known
        return known.slice(0, rows)

"""The two readings of a pass: keys into the offset map, then what stays into the output.

Both walk over segments in chunks that begin with a batch and hand each chunk to the kernels. A
kernel comes back early for a compressed batch, which is opened here, and where a table is full.
Kafka: ``buildOffsetMap`` and ``cleanSegments``.
"""

import os
from collections.abc import Callable, Sequence

from siltstone.cleaner.compiled import _kernels as kernels
from siltstone.cleaner.compiled import opening, slots
from siltstone.cleaner.compiled.arrays import KernelArrays, Transactions
from siltstone.cleaner.errors import CorruptSegment, UnopenedBatch
from siltstone.cleaner.one_pass.log_to_clean import LogToClean
from siltstone.cleaner.one_pass.offset_map import OffsetMap
from siltstone.cleaner.one_pass.output import Output
from siltstone.cleaner.one_pass.stats import FileFacts
from siltstone.cleaner.threads.throttle import Throttle
from siltstone.protocol.core import crc32c
from siltstone.protocol.core.constants import FAULTS
from siltstone.protocol.errors import CorruptMessage, InvalidRecord
from siltstone.protocol.records.batch import HEADER_SIZE
from siltstone.protocol.records.compression import UnfoldsTooFar
from siltstone.storage import files
from siltstone.storage.segment.readable import ReadableSegment

Consume = Callable[[ReadableSegment, memoryview, int], int | None]
"""Takes a chunk of a segment and its position; returns how many bytes of whole batches it has
consumed, None to stop. A chunk is valid during the call.
"""

_MAX_SPARE = 1 << 20
"""Spare bytes of the scratch buffer, so that it need not grow with each batch."""


class SegmentWalk:
    """The read buffer of one thread, and the checks before each chunk.

    It checks whether the pass is still wanted, and obeys the throttle. The buffer grows to the size
    of a batch that does not fit, and shrinks after the segment.
    """

    def __init__(self, chunk_bytes: int, throttle: Throttle) -> None:
        self._chunk_bytes = chunk_bytes
        self._buffer = bytearray(chunk_bytes)
        self._throttle = throttle
        self.still_wanted: Callable[[], None] = _always_wanted
        self.throttle_seconds = 0.0
        self.bytes_read = 0

    def run(
        self, segment: ReadableSegment, position: int, state: slots.State, consume: Consume
    ) -> bool:
        """Read a segment from a position on, in chunks; false if ``consume`` stopped it. Blocks.

        Raises:
            CorruptSegment: It ends inside a batch.
            OSError: It cannot be read.
        """
        file = segment.file()
        needed = HEADER_SIZE
        while position < segment.size:
            self.still_wanted()
            left = segment.size - position
            if needed > left:
                raise corrupt(segment, position, state, f"{needed - left} bytes of it are missing")
            chunk = self._read(file.fileno(), position, needed, left)
            if len(chunk) < needed:
                raise corrupt(segment, position, state, "the file is shorter than it was")
            used = consume(segment, chunk, position)
            if used is None:
                return False
            needed = HEADER_SIZE if used else state[slots.NEEDED]
            if not used and needed <= len(chunk):
                raise corrupt(segment, position, state, "its kernel makes no progress on it")
            position += used
            self.bytes_read += used
            self.account(used)
        self.shrink()
        return True

    def begin(self, still_wanted: Callable[[], None]) -> None:
        """Reset the counts, for another pass."""
        self.still_wanted = still_wanted
        self.throttle_seconds = 0.0
        self.bytes_read = 0

    def account(self, count: int) -> None:
        """Count bytes that were read or written, and wait as the throttle demands."""
        self.throttle_seconds += self._throttle.add(count, self.still_wanted)

    def shrink(self) -> None:
        """Shrink to the size that usual batches need."""
        if len(self._buffer) != self._chunk_bytes:
            self._buffer = bytearray(self._chunk_bytes)

    def close(self) -> None:
        """Give the buffer back."""
        self._buffer = bytearray()

    def _read(self, fd: int, position: int, needed: int, left: int) -> memoryview:
        if needed > len(self._buffer):
            self._buffer = bytearray(needed)
        view = memoryview(self._buffer)[: min(len(self._buffer), left)]
        return view[: os.preadv(fd, [view], position)]


class Mapping:
    """Fills a map from the first dirty offset on, as far as it goes."""

    def __init__(
        self, log: LogToClean, offset_map: OffsetMap, arrays: KernelArrays, walk: SegmentWalk
    ) -> None:
        self._log = log
        self._map = offset_map
        self._arrays = arrays
        self._state = arrays.state
        self._walk = walk
        self._transactions = Transactions(log.aborted)

    def run(self, first_dirty_offset: int) -> bool:
        """Map the dirty section; false if the map was full before its end. Blocks.

        The state's LATEST is then the last offset that the map covers: a pass may end in the middle
        of a batch (KAFKA-3894).

        Raises:
            CorruptSegment: Something in the section is no sound batch.
        """
        log, state = self._log, self._state
        state[slots.FIRST_DIRTY] = first_dirty_offset
        state[slots.LATEST] = first_dirty_offset - 1
        state[slots.MAP_KEYS] = 0
        state[slots.MAP_LIMIT] = self._map.usable
        state[slots.LAST_OFFSET] = -1
        self._transactions.enter(state)
        for segment, bound in log.dirty_segments(first_dirty_offset):
            start = segment.start_before(first_dirty_offset)
            if not self._walk.run(segment, start, state, self._consume):
                return False
            state[slots.LATEST] = bound - 1  # there are no records in the gap before it
        return True

    def _consume(self, segment: ReadableSegment, chunk: memoryview, position: int) -> int | None:
        """Map the whole batches of a chunk; None if the map is full."""
        state = self._state
        coming = state[slots.MAP_KEYS] + kernels.count_records(chunk)
        self._map.reserve(min(coming, self._map.usable))
        at = 0
        while True:
            self._map_keys(chunk[at:])
            at += state[slots.POSITION]
            status = state[slots.STATUS]
            if status == slots.OPEN:
                size = opening.size_of(chunk[at:])
                status = self._map_opened(segment, chunk[at : at + size], position + at)
                at += size
            elif status == slots.DONE:
                return at
            if status == slots.FULL:
                return None
            if status == slots.WANTS_PRODUCERS:
                self._transactions.grow(state)
            elif status < 0:
                raise corrupt(segment, position + at, state, FAULTS[status])

    def _map_opened(self, segment: ReadableSegment, batch: memoryview, position: int) -> int:
        """Map a compressed batch and return the status."""
        state = self._state
        opened = open_batch(segment, batch, position, state)
        state[slots.OPENED] = 1
        self._map_keys(memoryview(opened))
        state[slots.OPENED] = 0
        status = state[slots.STATUS]
        if status < 0:
            raise corrupt(segment, position, state, FAULTS[status])
        return status

    def _map_keys(self, batches: memoryview) -> None:
        transactions = self._transactions
        kernels.map_keys(
            batches,
            self._state,
            self._map.numbers,
            transactions.table,
            transactions.aborted,
            self._arrays.rows,
        )


class Copying:
    """Reads groups of one log in order; transactions may span them.

    The kernels plan a chunk and emit what stays; a compressed batch comes back here to be opened,
    and goes through the same kernels alone.
    """

    def __init__(
        self,
        offset_map: OffsetMap,
        transactions: Transactions,
        arrays: KernelArrays,
        walk: SegmentWalk,
    ) -> None:
        self._map = offset_map
        self._transactions = transactions
        self._arrays = arrays
        self._state = arrays.state
        self._walk = walk
        self._output: Output | None = None
        self._crc = 0
        self._scratch = bytearray()
        self._state[slots.LAST_OFFSET] = -1
        transactions.enter(self._state)

    def copy(self, group: Sequence[ReadableSegment], output: Output) -> tuple[FileFacts, ...]:
        """Write what stays of a group, and return the facts of its files. Blocks.

        Raises:
            CorruptSegment: Something in the group is no sound batch.
        """
        state = self._state
        self._output = output
        facts = []
        for segment in group:
            self._crc = 0
            self._walk.run(segment, 0, state, self._consume)
            facts.append(
                FileFacts(
                    files.segment_file_name(segment.base_offset),
                    segment.base_offset,
                    state[slots.LAST_OFFSET] + 1 if segment.size else segment.base_offset,
                    segment.size,
                    self._crc,
                )
            )
            self._flush()
            self._arrays.shrink()
            self._scratch = bytearray()
        return tuple(facts)

    def _consume(self, segment: ReadableSegment, chunk: memoryview, position: int) -> int:
        """Copy what stays of the whole batches of a chunk."""
        state = self._state
        self._arrays.reserve_fates(len(chunk))
        at = 0
        while True:
            part = chunk[at:]
            self._plan(part)
            status, planned = state[slots.STATUS], state[slots.POSITION]
            self._emit(part)
            at += planned
            if status == slots.DONE:
                break
            if status == slots.OPEN:
                size = opening.size_of(chunk[at:])
                self._copy_compressed(segment, chunk[at : at + size], position + at)
                at += size
            elif status == slots.WANTS_PRODUCERS:
                self._transactions.grow(state)
            elif status < 0:
                raise corrupt(segment, position + at, state, FAULTS[status])
        self._crc = crc32c(chunk[:at], self._crc)
        return at

    def _copy_compressed(self, segment: ReadableSegment, batch: memoryview, position: int) -> None:
        """Copy what stays of one compressed batch, in the same codec."""
        state = self._state
        opened = open_batch(segment, batch, position, state)
        self._arrays.reserve_fates(len(opened))
        state[slots.OPENED] = 1
        self._plan(opened)
        if state[slots.STATUS] < 0:
            raise corrupt(segment, position, state, FAULTS[state[slots.STATUS]])
        waiting = state[slots.OUTPUT]
        size = self._emit_opened(opened)
        state[slots.OUTPUT] = waiting
        state[slots.OPENED] = 0
        outcome = state[slots.OUTCOME]
        if outcome == slots.UNCHANGED:
            self._append(batch)
        elif outcome == slots.EMPTIED:
            self._append(memoryview(self._scratch)[:size])
        elif outcome == slots.REBUILT:
            self._append(memoryview(opening.close_batch(memoryview(self._scratch)[:size])))

    def _plan(self, batches: memoryview | bytearray) -> None:
        arrays, transactions = self._arrays, self._transactions
        kernels.plan_batches(
            batches,
            self._state,
            self._map.numbers,
            transactions.table,
            transactions.aborted,
            arrays.producers,
            arrays.plans,
            arrays.fates,
            arrays.rows,
        )

    def _emit(self, batches: memoryview) -> None:
        """Carry out the plans, and write the output whenever it is full."""
        state, arrays = self._state, self._arrays
        while True:
            kernels.emit_batches(batches, state, arrays.plans, arrays.fates, arrays.output)
            if state[slots.STATUS] != slots.OUTPUT_FULL:
                return
            self._flush()
            if state[slots.NEEDED] > len(arrays.output):
                arrays.output = bytearray(state[slots.NEEDED])

    def _emit_opened(self, opened: bytearray) -> int:
        """Carry out the one plan into the scratch, and return its size."""
        state, arrays = self._state, self._arrays
        while True:
            state[slots.OUTPUT] = 0
            kernels.emit_batches(opened, state, arrays.plans, arrays.fates, self._scratch)
            if state[slots.STATUS] != slots.OUTPUT_FULL:
                return state[slots.OUTPUT]
            spare = min(state[slots.NEEDED], _MAX_SPARE)
            self._scratch = bytearray(state[slots.NEEDED] + spare)

    def _append(self, batch: memoryview) -> None:
        """Add one batch to those that wait to be written."""
        state, output = self._state, self._arrays.output
        if state[slots.OUTPUT] + len(batch) > len(output):
            self._flush()
        if len(batch) > len(output):
            self._write(batch)
            return
        end = state[slots.OUTPUT] + len(batch)
        output[state[slots.OUTPUT] : end] = batch
        state[slots.OUTPUT] = end

    def _flush(self) -> None:
        size = self._state[slots.OUTPUT]
        if size:
            self._write(memoryview(self._arrays.output)[:size])
            self._state[slots.OUTPUT] = 0

    def _write(self, batches: memoryview) -> None:
        if self._output is not None:
            self._output.write(batches)
            self._walk.account(len(batches))


def corrupt(
    segment: ReadableSegment, position: int, state: slots.State, reason: str
) -> CorruptSegment:
    """Return the error about the batch at a position."""
    return CorruptSegment(segment.log_path, position, state[slots.LAST_OFFSET] + 1, reason)


def open_batch(
    segment: ReadableSegment, batch: memoryview, position: int, state: slots.State
) -> bytearray:
    """Return a compressed batch with its records unfolded.

    Raises:
        UnopenedBatch: It unfolds to more than the limit.
        CorruptSegment: It cannot be unfolded.
    """
    try:
        return opening.open_batch(batch)
    except UnfoldsTooFar as error:
        offset = state[slots.LAST_OFFSET] + 1
        raise UnopenedBatch(segment.log_path, position, offset, error.message) from error
    except (CorruptMessage, InvalidRecord) as error:
        raise corrupt(segment, position, state, str(error)) from error


def _always_wanted() -> None:
    """Do nothing: the pass continues."""

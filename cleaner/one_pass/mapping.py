"""The first reading: the dirty section's keys into the offset map (Kafka: ``buildOffsetMap``)."""

from siltstone.cleaner.compiled import _kernels as kernels
from siltstone.cleaner.compiled import opening, slots
from siltstone.cleaner.compiled.arrays import KernelArrays, Transactions
from siltstone.cleaner.one_pass.log_to_clean import LogToClean
from siltstone.cleaner.one_pass.offset_map import OffsetMap
from siltstone.cleaner.one_pass.segment_walk import SegmentWalk, corrupt, open_batch
from siltstone.protocol.core.constants import FAULTS
from siltstone.storage.segment.readable import ReadableSegment


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
            state[slots.LATEST] = bound - 1  # what is missing before it is no record
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
        """Map a compressed batch and return how that ended."""
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

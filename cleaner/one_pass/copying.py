"""The second reading: what stays of a group goes into the output (Kafka: ``cleanSegments``)."""

from collections.abc import Sequence

from siltstone.cleaner.compiled import _kernels as kernels
from siltstone.cleaner.compiled import opening, slots
from siltstone.cleaner.compiled.arrays import KernelArrays, Transactions
from siltstone.cleaner.one_pass.offset_map import OffsetMap
from siltstone.cleaner.one_pass.output import Output
from siltstone.cleaner.one_pass.segment_walk import SegmentWalk, corrupt, open_batch
from siltstone.cleaner.one_pass.stats import FileFacts
from siltstone.protocol.core import crc32c
from siltstone.protocol.core.constants import FAULTS
from siltstone.storage import files
from siltstone.storage.segment.readable import ReadableSegment

_MOST_SPARE = 1 << 20
"""Bytes that the scratch has too many, so that it need not grow with each batch."""


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
        """Write what stays of a group, and return what went in. Blocks.

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
        """Carry the plans out, writing the output whenever it is full."""
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
            spare = min(state[slots.NEEDED], _MOST_SPARE)
            self._scratch = bytearray(state[slots.NEEDED] + spare)

    def _append(self, batch: memoryview) -> None:
        """Put one batch behind the others that wait to be written."""
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

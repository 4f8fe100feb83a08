"""The two readings of a pass: keys into the offset map, then the records that stay into the output.

Both walk over segments in chunks that begin with a batch and pass each chunk to the core
(`protocol.core.compaction`). The core returns early at a compressed batch: this module opens it.
Kafka: ``buildOffsetMap`` and ``cleanSegments``.
"""

from collections.abc import Callable, Sequence
from typing import TypeAlias

from siltstone.cleaner.errors import CorruptSegment, UnopenedBatch
from siltstone.cleaner.one_pass import opening
from siltstone.cleaner.one_pass.log_to_clean import LogToClean
from siltstone.cleaner.one_pass.output import CountedOutput
from siltstone.cleaner.one_pass.stats import FileFacts
from siltstone.cleaner.threads.throttle import Throttle
from siltstone.protocol.core import compaction, crc32c
from siltstone.protocol.core.constants import FAULTS, FULL, HEADER_SIZE, IS_CLOSED, WANTS_MORE
from siltstone.protocol.errors import CorruptMessage, InvalidRecord
from siltstone.protocol.records.compression import UnfoldsTooFar
from siltstone.storage import files
from siltstone.storage.segment.readable import ReadableSegment

Consume = Callable[[ReadableSegment, memoryview, int], int | None]
"""Takes a chunk of a segment and its position; returns how many bytes of whole batches it has
consumed, None to stop. A chunk is valid during the call.
"""

Reading: TypeAlias = compaction.MapBuilder | compaction.RecordFilter
"""It has the last offset of the batch that was read last, and the size of the next batch."""


class SegmentWalk:
    """The read buffer of one thread, and the checks before each chunk.

    Each chunk waits for the throttle and for the check whether the pass is still wanted. The buffer
    grows to the size of a batch that does not fit, and shrinks after the segment.
    """

    def __init__(self, chunk_bytes: int, throttle: Throttle) -> None:
        self.chunk_bytes = chunk_bytes
        self._buffer = bytearray(chunk_bytes)
        self._throttle = throttle
        self.still_wanted: Callable[[], None] = _always_wanted
        self.throttle_seconds = 0.0
        self.bytes_read = 0

    def run(
        self, segment: ReadableSegment, position: int, reading: Reading, consume: Consume
    ) -> bool:
        """Read a segment from a position on, in chunks; false if ``consume`` ended it. Blocks.

        Raises:
            CorruptSegment: The segment ends inside a batch.
            OSError: The segment cannot be read.
        """
        file = segment.file()
        needed = HEADER_SIZE
        while position < segment.size:
            self.still_wanted()
            left = segment.size - position
            if needed > left:
                reason = f"{needed - left} bytes of it are missing"
                raise corrupt(segment, position, reading, reason)
            chunk = self._read(file.fileno(), position, needed, left)
            if len(chunk) < needed:
                raise corrupt(segment, position, reading, "the file is shorter than it was")
            used = consume(segment, chunk, position)
            if used is None:
                return False
            needed = HEADER_SIZE if used else reading.needed
            if not used and needed <= len(chunk):
                raise corrupt(segment, position, reading, "the walk makes no progress on it")
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
        """Count bytes that were read or written, and wait as long as the throttle demands."""
        self.throttle_seconds += self._throttle.add(count, self.still_wanted)

    def shrink(self) -> None:
        """Shrink the buffer to the size that usual batches need."""
        if len(self._buffer) != self.chunk_bytes:
            self._buffer = bytearray(self.chunk_bytes)

    def close(self) -> None:
        """Free the buffer."""
        self._buffer = bytearray()

    def _read(self, fd: int, position: int, needed: int, left: int) -> memoryview:
        if needed > len(self._buffer):
            self._buffer = bytearray(needed)
        view = memoryview(self._buffer)[: min(len(self._buffer), left)]
        return view[: files.read_into(fd, view, position)]


class Mapping:
    """Fills a map from the first dirty offset on, until the section ends or the map is full."""

    def __init__(
        self,
        log: LogToClean,
        first_dirty_offset: int,
        offset_map: compaction.OffsetMap,
        walk: SegmentWalk,
    ) -> None:
        self._log = log
        self._walk = walk
        self.builder = compaction.MapBuilder(
            offset_map, compaction.Transactions(log.aborted), first_dirty_offset
        )

    def run(self) -> bool:
        """Map the dirty section; return false if the map was full before its end. Blocks.

        Afterwards the builder's ``latest`` is the last offset that the map covers. It may lie in
        the middle of a batch (KAFKA-3894).

        Raises:
            CorruptSegment: The section has bytes that are not a sound batch.
        """
        builder = self.builder
        first_dirty_offset = builder.first_dirty
        for segment, bound in self._log.dirty_segments(first_dirty_offset):
            start = segment.start_before(first_dirty_offset)
            if not self._walk.run(segment, start, builder, self._consume):
                return False
            builder.latest = bound - 1  # no records are between the last segment and the bound
        return True

    def _consume(self, segment: ReadableSegment, chunk: memoryview, position: int) -> int | None:
        """Map the whole batches of a chunk; None if the map is full."""
        builder = self.builder
        at = 0
        while True:
            at = builder.read(chunk, at)
            if builder.status == IS_CLOSED:
                batch = opening.first_batch(chunk[at:])
                builder.read(self._open(segment, batch, position + at), is_opened=True)
                check(segment, position + at, builder, builder.status)
                at += len(batch)
            elif builder.status == WANTS_MORE:
                return at
            if builder.status == FULL:
                return None
            check(segment, position + at, builder, builder.status)

    def _open(self, segment: ReadableSegment, batch: memoryview, position: int) -> bytearray:
        limit = self._log.config.max_decompressed_message_bytes
        return open_batch(segment, batch, position, self.builder, limit)


class Copying:
    """Reads the groups of one log in order; a transaction may span several groups."""

    def __init__(
        self, record_filter: compaction.RecordFilter, walk: SegmentWalk, max_record_bytes: int
    ) -> None:
        self._filter = record_filter
        self._walk = walk
        self._max_record_bytes = max_record_bytes
        self._crc = 0

    def copy(
        self, group: Sequence[ReadableSegment], output: CountedOutput
    ) -> tuple[FileFacts, ...]:
        """Write the records of a group that stay, and return the facts of its files. Blocks.

        Raises:
            CorruptSegment: The group has bytes that are not a sound batch.
        """
        facts = []

        def consume(segment: ReadableSegment, chunk: memoryview, position: int) -> int:
            used = self._consume(segment, chunk, position)
            if self._filter.size >= self._walk.chunk_bytes:
                self._flush(output)
            return used

        for segment in group:
            self._crc = 0
            self._walk.run(segment, 0, self._filter, consume)
            facts.append(
                FileFacts(
                    files.segment_file_name(segment.base_offset),
                    segment.base_offset,
                    self._filter.last_offset + 1 if segment.size else segment.base_offset,
                    segment.size,
                    self._crc,
                )
            )
            self._flush(output)
            self._filter.shrink()
        return tuple(facts)

    def _consume(self, segment: ReadableSegment, chunk: memoryview, position: int) -> int:
        """Copy the rest of the whole batches of a chunk; a compressed one keeps its codec."""
        copied = self._filter
        at = 0
        while True:
            at = copied.copy(chunk, at)
            if copied.status != IS_CLOSED:
                break
            batch = opening.first_batch(chunk[at:])
            opened = open_batch(segment, batch, position + at, copied, self._max_record_bytes)
            rebuilt = copied.copy_opened(batch, opened)
            check(segment, position + at, copied, copied.status)
            if rebuilt is not None:
                copied.append(opening.close_batch(rebuilt))
            at += len(batch)
        check(segment, position + at, copied, copied.status)
        self._crc = crc32c(chunk[:at], self._crc)
        return at

    def _flush(self, output: CountedOutput) -> None:
        """Write the copied batches."""
        size = self._filter.size
        if size:
            with self._filter.written() as batches:
                output.write(batches)
            self._filter.clear()
            self._walk.account(size)


def check(segment: ReadableSegment, position: int, reading: Reading, status: int) -> None:
    """Raise CorruptSegment if the status says that the batch at a position is faulty."""
    if status < 0:
        raise corrupt(segment, position, reading, FAULTS[status])


def corrupt(
    segment: ReadableSegment, position: int, reading: Reading, reason: str
) -> CorruptSegment:
    """Return the error about the batch at a position."""
    return CorruptSegment(segment.log_path, position, reading.last_offset + 1, reason)


def open_batch(
    segment: ReadableSegment,
    batch: memoryview,
    position: int,
    reading: Reading,
    max_record_bytes: int,
) -> bytearray:
    """Return a compressed batch with its records unfolded.

    Raises:
        UnopenedBatch: The batch, or a record of it, unfolds to more than the limit.
        CorruptSegment: The batch cannot be unfolded.
    """
    try:
        return opening.open_batch(batch, max_record_bytes)
    except UnfoldsTooFar as error:
        offset = reading.last_offset + 1
        raise UnopenedBatch(segment.log_path, position, offset, error.message) from error
    except (CorruptMessage, InvalidRecord) as error:
        raise corrupt(segment, position, reading, str(error)) from error


def _always_wanted() -> None:
    """Do nothing: the pass continues."""

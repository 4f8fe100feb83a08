"""Walking over a segment in chunks that begin with a batch (storage.md §8.11)."""

import os
from collections.abc import Callable

from siltstone.cleaner.compiled import opening, slots
from siltstone.cleaner.errors import CorruptSegment, UnopenedBatch
from siltstone.cleaner.threads.throttle import Throttle
from siltstone.protocol.errors import CorruptMessage, InvalidRecord
from siltstone.protocol.records.batch import HEADER_SIZE
from siltstone.protocol.records.compression import UnfoldsTooFar
from siltstone.storage.segment.readable import ReadableSegment

Consume = Callable[[ReadableSegment, memoryview, int], int | None]
"""Takes a chunk of a segment and its position there; returns the bytes of whole batches in it that
are done with, None to stop. A chunk is valid during the call."""


class SegmentWalk:
    """The read buffer of one thread, and what happens before each chunk.

    It asks whether the pass is still wanted, and does not go too fast. The buffer grows to the
    size of a batch that does not fit, and shrinks after the segment.
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
        """Have all of a segment from a position on consumed; false if it was stopped. Blocks.

        Raises:
            CorruptSegment: It ends inside a batch.
            OSError: It can not be read.
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
        """Count anew, for another pass."""
        self.still_wanted = still_wanted
        self.throttle_seconds = 0.0
        self.bytes_read = 0

    def account(self, count: int) -> None:
        """Note bytes that were read or written, and wait as the rate demands."""
        self.throttle_seconds += self._throttle.add(count, self.still_wanted)

    def shrink(self) -> None:
        """Go back to the size that usual batches need."""
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
        UnopenedBatch: It unfolds to more than is opened anywhere.
        CorruptSegment: It can not be unfolded.
    """
    try:
        return opening.open_batch(batch)
    except UnfoldsTooFar as error:
        offset = state[slots.LAST_OFFSET] + 1
        raise UnopenedBatch(segment.log_path, position, offset, error.message) from error
    except (CorruptMessage, InvalidRecord) as error:
        raise corrupt(segment, position, state, str(error)) from error


def _always_wanted() -> None:
    """Let a pass go on."""

"""What a pass writes: batches into ``.cleaned`` segments, or nowhere in a dry run.

Both kinds use the same index rule and the same counting, so a prediction is what a pass would do.
"""

from array import array
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final, Protocol, Self

from siltstone.cleaner.compiled import _kernels as kernels
from siltstone.cleaner.compiled import slots
from siltstone.cleaner.one_pass.log_to_clean import LogToClean
from siltstone.cleaner.one_pass.stats import FileFacts
from siltstone.protocol.core import crc32c
from siltstone.protocol.records.batch import HEADER_SIZE
from siltstone.storage import files
from siltstone.storage.segment.readable import ReadableSegment
from siltstone.storage.segment.segment import LogSegment
from siltstone.storage.segment.transaction_index import AbortedTransaction
from siltstone.storage.segment.write_back import start_write_back

WRITE_BACK_BYTES: Final = 16 << 20
"""After so many bytes write-back is started, so that the fsync at the end is short."""

_OFFSET_ENTRY_BYTES: Final = 8
_TIME_ENTRY_BYTES: Final = 12
_BASE_OFFSET_BYTES: Final = 8


class Output(Protocol):
    """Where the batches of one group go."""

    def write(self, batches: memoryview) -> None:
        """Take whole batches, in the order of their offsets."""


class CountedOutput:
    """Counts what would be written: segments, their sizes and checksums. Writes nothing.

    Usually one segment; another begins where an offset or a position no longer fits into 31 bits
    (KAFKA-20036).
    """

    def __init__(self, log: LogToClean, base_offset: int) -> None:
        self._log = log
        self._index = array("q", bytes(8 * slots.INDEX_SLOTS))
        self._offsets = bytearray()
        self._times = bytearray()
        self._crc = 0
        self._done: list[FileFacts] = []
        self.bytes_written = 0
        self._begin(base_offset)

    def write(self, batches: memoryview) -> None:
        """Take whole batches, in the order of their offsets."""
        max_entries = len(batches) // HEADER_SIZE + 1
        if len(self._offsets) < max_entries * _OFFSET_ENTRY_BYTES:
            self._offsets = bytearray(max_entries * _OFFSET_ENTRY_BYTES)
            self._times = bytearray(max_entries * _TIME_ENTRY_BYTES)
        index = self._index
        start = 0
        while True:
            index[slots.POSITION] = start
            kernels.index_batches(batches, index, self._offsets, self._times)
            end = index[slots.POSITION]
            with batches[start:end] as run:
                self._crc = crc32c(run, self._crc)
                self._append(run)
            self.bytes_written += end - start
            if index[slots.STATUS] != slots.WANTS_SEGMENT:
                return
            start = end
            self._end()
            self._begin(int.from_bytes(batches[start : start + _BASE_OFFSET_BYTES], "big"))

    def cover(self, group: Sequence[ReadableSegment]) -> None:
        """Ensure that a start after a crash in the swap loads none of the group's old segments.

        Such a start drops the old ones that begin below the end of the new ones, or at one of their
        bases. If the last old segment leaves nothing, an empty one takes its place, until the next
        pass.
        """
        filled = [segment.base_offset for segment in group if segment.size]
        if len(filled) > 1 and self._index[slots.END_OFFSET] <= filled[-1]:
            self._end()
            self._begin(filled[-1])

    def facts(self) -> tuple[FileFacts, ...]:
        """Return the segments, also the unfinished last one."""
        return (*self._done, self._facts())

    def _begin(self, base_offset: int) -> None:
        index = self._index
        for slot in range(slots.INDEX_SLOTS):
            index[slot] = 0
        index[slots.INTERVAL] = self._log.config.index_interval_bytes
        index[slots.BASE_OFFSET] = index[slots.END_OFFSET] = base_offset
        index[slots.MAX_TIMESTAMP_OFFSET] = base_offset
        index[slots.FIRST_TIMESTAMP] = index[slots.MAX_TIMESTAMP] = index[slots.LAST_TIME] = -1
        self._crc = 0

    def _end(self) -> None:
        self._done.append(self._facts())

    def _facts(self) -> FileFacts:
        base_offset = self._index[slots.BASE_OFFSET]
        return FileFacts(
            files.segment_file_name(base_offset),
            base_offset,
            self._index[slots.END_OFFSET],
            self._index[slots.SEGMENT_SIZE],
            self._crc,
        )

    def _append(self, run: memoryview) -> None:
        """Write batches whose index entries are ready; this class writes nothing."""


def drop_unfinished(path: Path) -> None:
    """Delete the ``.cleaned`` files of a folder, which a pass leaves if the disk fails."""
    for left in path.glob(f"*{files.CLEANED}"):
        files.unlink(left)


class SegmentOutput(CountedOutput):
    """Writes ``.cleaned`` segments. At the end of a ``with`` block it deletes them.

    It does not delete those that `hand_over` has returned.
    """

    def __init__(self, log: LogToClean, base_offset: int, now_ms: int) -> None:
        self._now_ms = now_ms
        self._segments: list[LogSegment] = []
        self._unwritten = 0
        super().__init__(log, base_offset)

    def __enter__(self) -> Self:
        """Do nothing: the files are there."""
        return self

    def __exit__(self, *_: object) -> None:
        """Delete what was not handed over; if the disk fails, the next pass does it."""
        with suppress(OSError):
            for segment in self._segments:
                segment.delete()

    def hand_over(self) -> list[LogSegment]:
        """Give the segments to the caller."""
        segments, self._segments = self._segments, []
        return segments

    def flush(self, aborted: Sequence[AbortedTransaction], modified_ns: int) -> None:
        """Put everything on the disk, and set the time of the last segment that went in. Blocks.

        ``aborted`` are the transactions whose markers were written.
        """
        for number, segment in enumerate(self._segments):
            following = self._segments[number + 1 : number + 2]
            for transaction in aborted:
                if transaction.last_offset >= segment.base_offset and not (
                    following and transaction.last_offset >= following[0].base_offset
                ):
                    segment.append_aborted(transaction)
            segment.seal()
            segment.flush()
            for kind in (files.LOG, files.INDEX, files.TIME_INDEX):
                files.set_modified(segment.files.path(kind), modified_ns)

    def _begin(self, base_offset: int) -> None:
        super()._begin(base_offset)
        log = self._log
        self._segments.append(
            LogSegment.create(
                log.path, base_offset, log.config, now_ms=self._now_ms, suffix=files.CLEANED
            )
        )

    def _append(self, run: memoryview) -> None:
        index = self._index
        segment = self._segments[-1]
        segment.append_run(
            run,
            offset_entries=self._offsets[: index[slots.OFFSET_BYTES]],
            time_entries=self._times[: index[slots.TIME_BYTES]],
            first_timestamp=index[slots.FIRST_TIMESTAMP],
            max_timestamp=index[slots.MAX_TIMESTAMP],
            offset_of_max_timestamp=index[slots.MAX_TIMESTAMP_OFFSET],
        )
        self._unwritten += len(run)
        if self._unwritten >= WRITE_BACK_BYTES:
            start_write_back(segment.file(), segment.size - self._unwritten, self._unwritten)
            self._unwritten = 0

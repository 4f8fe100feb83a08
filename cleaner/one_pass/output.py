"""The output of a pass: ``.cleaned`` segments, or only counts in a dry run.

Both use the same rule for index entries and the same counting, so a prediction equals the pass.
"""

from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final, Self

from siltstone.cleaner.errors import CorruptSegment
from siltstone.cleaner.one_pass.log_to_clean import LogToClean
from siltstone.cleaner.one_pass.stats import FileFacts
from siltstone.protocol.core import SegmentScan, crc32c, find_end
from siltstone.protocol.core.constants import FAULTS
from siltstone.storage import files
from siltstone.storage.files import disk
from siltstone.storage.producers.transaction_index import AbortedTransaction
from siltstone.storage.segment.index import IndexRow
from siltstone.storage.segment.readable import ReadableSegment
from siltstone.storage.segment.segment import LogSegment

WRITE_BACK_BYTES: Final = 16 << 20
"""After so many bytes write-back is started, so that the fsync at the end is short."""

_BASE_OFFSET_BYTES: Final = 8
_MAX_POSITION: Final = (1 << 31) - 1


class CountedOutput:
    """Computes the segments, their sizes and their checksums without writing.

    Usually there is one segment; another begins where an offset or a position no longer fits into
    31 bits (KAFKA-20036).
    """

    def __init__(self, log: LogToClean, base_offset: int) -> None:
        self._log = log
        self._crc = 0
        self._done: list[FileFacts] = []
        self.bytes_written = 0
        self._begin(base_offset)

    def write(self, batches: memoryview) -> None:
        """Add whole batches, in the order of their offsets."""
        at = 0
        while at < len(batches):
            scan = self._scan
            position = scan.position
            room = _MAX_POSITION - position
            end = len(batches) if len(batches) - at <= room else find_end(batches, at, at + room)
            with batches[at:end] as fitting:
                entries, _ = scan.scan(fitting)
            size = scan.position - position
            if not size:
                if not scan.batches:
                    raise self._refusal(FAULTS.get(scan.status, "it is no whole batch"))
                self._end()
                self._begin(int.from_bytes(batches[at : at + _BASE_OFFSET_BYTES], "big"))
                continue
            with batches[at : at + size] as run:
                self._crc = crc32c(run, self._crc)
                self._append(run, entries)
            self.bytes_written += size
            at += size

    def cover(self, group: Sequence[ReadableSegment]) -> None:
        """Ensure that a start after a crash in the swap loads none of the group's old segments.

        Such a start drops the old segments that begin below the end of the new ones, or at the base
        of a new one. If no record of the last old segment stays, an empty new segment takes its
        place, until the next pass.
        """
        filled = [segment.base_offset for segment in group if segment.size]
        if len(filled) > 1 and self._scan.last_offset < filled[-1]:
            self._end()
            self._begin(filled[-1])

    def facts(self) -> tuple[FileFacts, ...]:
        """Return the facts of all segments, including the unfinished last one."""
        return (*self._done, self._facts())

    def _begin(self, base_offset: int) -> None:
        self._scan = SegmentScan(base_offset, self._log.config.index_interval_bytes)
        self._crc = 0

    def _end(self) -> None:
        self._done.append(self._facts())

    def _facts(self) -> FileFacts:
        scan = self._scan
        return FileFacts(
            files.segment_file_name(scan.base_offset),
            scan.base_offset,
            scan.last_offset + 1,
            scan.position,
            self._crc,
        )

    def _refusal(self, reason: str) -> CorruptSegment:
        """Return the error about a batch that fits into no segment."""
        path = self._log.path / files.segment_file_name(self._scan.base_offset)
        return CorruptSegment(path, self._scan.position, self._scan.last_offset + 1, reason)

    def _append(self, run: memoryview, entries: Sequence[IndexRow]) -> None:
        """Write batches with their index entries; this class writes nothing."""


def drop_unfinished(path: Path) -> None:
    """Delete the ``.cleaned`` files of a folder, which a pass leaves if the disk fails."""
    with suppress(FileNotFoundError):  # the folder is gone, and its files with it
        for name in sorted(disk.listdir(path)):
            if name.endswith(files.CLEANED):
                files.unlink(path / name)


class SegmentOutput(CountedOutput):
    """Writes ``.cleaned`` segments.

    The end of the ``with`` block deletes those that `hand_over` has not returned.
    """

    def __init__(self, log: LogToClean, base_offset: int, now_ms: int) -> None:
        self._now_ms = now_ms
        self._segments: list[LogSegment] = []
        self._unwritten = 0
        super().__init__(log, base_offset)

    def __enter__(self) -> Self:
        """Do nothing: the files exist."""
        return self

    def __exit__(self, *_: object) -> None:
        """Delete segments that were not handed over; if that fails, the next pass deletes them."""
        with suppress(OSError):
            for segment in self._segments:
                segment.delete()

    def hand_over(self) -> list[LogSegment]:
        """Give the segments to the caller."""
        segments, self._segments = self._segments, []
        return segments

    def flush(self, aborted: Sequence[AbortedTransaction], modified_ns: int) -> None:
        """Fsync all segments, and give them the modification time of the last input. Blocks.

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
                files.set_modified(segment.files.text(kind), modified_ns)

    def _begin(self, base_offset: int) -> None:
        super()._begin(base_offset)
        log = self._log
        self._segments.append(
            LogSegment(
                log.path,
                base_offset,
                log.config,
                now_ms=self._now_ms,
                open_files=log.open_files,
                suffix=files.CLEANED,
            ).create()
        )

    def _append(self, run: memoryview, entries: Sequence[IndexRow]) -> None:
        scan = self._scan
        segment = self._segments[-1]
        segment.append_run(
            run,
            entries,
            first_timestamp=scan.first_timestamp,
            max_timestamp=scan.max_timestamp,
            offset_of_max_timestamp=scan.max_timestamp_offset,
        )
        self._unwritten += len(run)
        if self._unwritten >= WRITE_BACK_BYTES:
            files.start_write_back(segment.file(), segment.size - self._unwritten, self._unwritten)
            self._unwritten = 0

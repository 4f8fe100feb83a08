"""The copy of one segment's files in another folder, byte for byte (KIP-113)."""

from collections.abc import Callable
from pathlib import Path
from typing import Final

from siltstone.storage import files
from siltstone.storage.files import disk
from siltstone.storage.moving.file_copy import copy_range, reading_source
from siltstone.storage.producers import transaction_index
from siltstone.storage.segment.index import OFFSET_ENTRY, TIME_ENTRY
from siltstone.storage.segment.lookup import count_up_to
from siltstone.storage.segment.open_file import SegmentFile
from siltstone.storage.segment.segment import LogSegment

SLICE_BYTES: Final = 1 << 20
"""How much is copied between two checks of the throttle, and of whether the copy is wanted."""

_INDEXES: Final = ((files.INDEX, OFFSET_ENTRY.size, 0), (files.TIME_INDEX, TIME_ENTRY.size, 8))
"""Both indexes: their names, the size of an entry, and where it has the relative offset."""


class SegmentCopy:
    """How much of a segment is copied, and the new segment for readers and appends.

    A finished copy gets the modification time of its source, as the last step after its fsync. By
    this time and the size, a later try knows that the segment need not be copied again.
    """

    __slots__ = (
        "_file", "_folder", "_has_indexes", "_source", "is_finished", "next_offset", "position",
        "twin",
    )  # fmt: skip

    def __init__(self, source: LogSegment, folder: Path, final: Path, *, is_active: bool) -> None:
        """Open the copy in ``folder``, which will be named ``final``. Blocks."""
        self._source = source
        self._folder = folder
        self.twin = LogSegment(
            final,
            source.base_offset,
            source.config,
            now_ms=source.end.created_ms,
            open_files=source.files.open_files,
        )
        self.position = 0
        self.next_offset = source.base_offset  # the end of the copied part, exclusive
        self.is_finished = False
        self._has_indexes = False
        path = self._path(files.LOG)
        if not is_active and self._is_same(path):
            self.position = source.size
            self._file: SegmentFile | None = SegmentFile(files.open_file(path, write=True))
        else:
            self._file = SegmentFile(files.create_file(path))

    def grow(self, limit: int, book: Callable[[int], object]) -> int:
        """Copy the next slice of whole batches and return its size. Blocks.

        ``book`` is called with the size before the copy.

        Raises:
            SourceUnreadable: The segment cannot be read.
            OSError: The disk refuses the write.
            CorruptMessage: The segment is damaged.
        """
        source = self._source
        with reading_source():
            cut = source.cut(self.position, SLICE_BYTES, limit, at_least_one=True)
            file = source.file()
        count = cut.end - self.position
        book(count)
        copy_range(file.fileno(), self._fileno(), self.position, count)
        self.position = cut.end
        self.next_offset = cut.next_offset
        return count

    def sync(self) -> None:
        """Fsync the copied part, and copy and fsync the other files of the segment. Blocks.

        Appends go on, so the indexes of the source may be ahead of the copied part.
        """
        self._sync_up_to(self.next_offset)

    def finish(self) -> None:
        """End the copy of a closed segment. Blocks."""
        self._sync_up_to(None)
        with reading_source():
            modified_ns = self._source.files.modified_ns
        files.set_modified(self._path(files.LOG), modified_ns)
        self._file = None
        self.is_finished = True

    def hand_over(self, limit: int, *, is_active: bool) -> LogSegment:
        """Return the new segment, ready for readers; if it is the last one, also for appends.

        Only the log's owner calls this. It copies the few bytes that are missing.

        Raises:
            OSError: The disk refuses the write.
        """
        if self.is_finished:
            self.twin.follow(self._source)
            return self.twin
        with reading_source():
            file = self._source.file()
        copy_range(file.fileno(), self._fileno(), self.position, limit - self.position)
        self.position = limit
        if not is_active or not self._has_indexes:
            self._copy_indexes(None, durable=False)
        self._copy_aborted(None, durable=False)
        self.twin.succeed(self._source, self._file if is_active else None)
        return self.twin

    def remove(self) -> None:
        """Delete the copy of a segment that the log has deleted. Blocks."""
        self._file = None
        for kind in files.SEGMENT_KINDS:
            files.unlink(self._path(kind))

    def forget_source(self) -> None:
        """Close the files of the source as soon as they have no reader."""
        self._source.files.forget_all()

    def _sync_up_to(self, end: int | None) -> None:
        files.fsync(self._fileno())
        self._copy_indexes(end, durable=True)
        self._copy_aborted(end, durable=True)

    def _copy_indexes(self, end: int | None, *, durable: bool) -> None:
        """Copy the entries below the offset ``end``, or all."""
        for kind, size, at in _INDEXES:
            with reading_source():
                data = self._source.index_bytes(kind)
            if data is None:
                files.unlink(self._path(kind))  # an earlier try may have left this file
                continue
            if end is not None:
                last = end - 1 - self._source.base_offset
                data = data[: count_up_to(data, size, last, 4, at) * size]
            self._write(kind, data, durable=durable)
        self._has_indexes = True

    def _copy_aborted(self, end: int | None, *, durable: bool) -> None:
        """Copy the aborted transactions that end below ``end``, or all."""
        kind = files.TRANSACTION_INDEX
        with reading_source():
            size = self._source.files.find_size(kind)
        if size is None:
            files.unlink(self._path(kind))
        elif durable or files.find_size(str(self._path(kind))) != size:
            with reading_source():
                data = self._source.files.read(kind) or b""
            if end is not None:
                data = transaction_index.cut(data, end)
            self._write(kind, data, durable=durable)

    def _write(self, kind: str, data: bytes, *, durable: bool) -> None:
        fd = files.create_file(self._path(kind))
        try:
            files.write_all(fd, data, 0)
            if durable:
                files.fsync(fd)
        finally:
            files.close(fd)

    def _fileno(self) -> int:
        if self._file is None:
            raise ValueError(f"the copy of {self._source} is finished")
        return self._file.fileno()

    def _is_same(self, path: Path) -> bool:
        """Tell whether an earlier try has copied this file."""
        try:
            found = disk.stat(path)
        except FileNotFoundError:
            return False
        source = self._source
        with reading_source():
            modified_ns = source.files.modified_ns
        return (found.st_size, found.st_mtime_ns) == (source.size, modified_ns)

    def _path(self, kind: str) -> Path:
        return self._folder / files.segment_file_name(self._source.base_offset, kind)

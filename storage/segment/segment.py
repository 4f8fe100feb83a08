"""A segment of a log, as its owner sees it (Kafka: ``LogSegment``).

Reading is in `storage.segment.readable`, names are in `storage.segment.file_set`. This module is
one state machine with the states at rest, active and sealed. Each method is a transition or a
query.
"""

import logging
from collections.abc import Callable, Iterable
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Self, TypeAlias

from siltstone.config.topic import TopicConfig
from siltstone.protocol.core.constants import NO_TIMESTAMP
from siltstone.protocol.records.batch import BatchHeader
from siltstone.storage import files
from siltstone.storage.producers import transaction_index
from siltstone.storage.producers.state import ProducerStateManager
from siltstone.storage.producers.transaction_index import AbortedTransaction
from siltstone.storage.randomness import random_below
from siltstone.storage.segment import damage as segment_damage
from siltstone.storage.segment.end import UNKNOWN
from siltstone.storage.segment.index import (
    OFFSET_ENTRY,
    TIME_ENTRY,
    ActiveIndexes,
    IndexRow,
    MemoryEntries,
)
from siltstone.storage.segment.open_file import OpenFiles, SegmentFile
from siltstone.storage.segment.readable import NOTING, ReadableSegment
from siltstone.storage.segment.scan import Scan, scan_log

if TYPE_CHECKING:
    from typing_extensions import Buffer

_logger = logging.getLogger(__name__)


class LogSegment(ReadableSegment):
    """A segment that can be appended to, by `storage.segment.end.SegmentEnd`.

    It is *active* from its first append until it is sealed and flushed, or closed: its file is
    open, and its indexes are in memory, which a crash may lose (see
    `storage.segment.index.ActiveIndexes`). Otherwise it is at rest, and an append makes it active
    again.

    Bytes below ``size`` change only by `recover`. ``size`` grows after the bytes are written. One
    owner at a time makes changes (``Log.lock``); only `flush` may run in another thread beside
    appends, one flush at a time.
    """

    __slots__ = (
        "_first_config", "_is_torn", "_jitter_ms", "_names_unsynced", "_preallocated", "_sealed",
        "_unsynced", "config",
    )  # fmt: skip

    def __init__(
        self,
        directory: Path,
        base_offset: int,
        config: TopicConfig,
        *,
        now_ms: int,
        open_files: OpenFiles,
        suffix: str = "",
    ) -> None:
        super().__init__(
            directory, base_offset, created_ms=now_ms, suffix=suffix, open_files=open_files
        )
        self._sealed = False
        self._preallocated = False
        self._is_torn = False  # a part of a batch may be left after the end
        # Marks for what the next fsync must cover. A mark is set after the disk has changed and
        # removed before the fsync, so that a change during the fsync keeps its mark.
        self._names_unsynced = False
        # The kinds of index files with unsynced entries. The set is created before two threads may
        # add to it; a segment at rest has no such entries.
        self._unsynced: set[str] | None = None
        self._first_config = config  # its index settings stay as long as the segment exists
        max_ms = min(config.segment_jitter_ms, config.segment_ms)
        self._jitter_ms = random_below(max_ms) if max_ms > 0 else 0
        self.reconfigure(config)

    def create(self) -> Self:
        """Create the files of an empty segment; leftovers of the same names are replaced.

        Raises:
            OSError: A file could not be created, and those that were are removed again. If that
                fails, too, a start drops an empty segment that lies inside another.
        """
        self.files.unlink()
        try:
            for kind in (files.LOG, files.INDEX, files.TIME_INDEX):
                self._create_file(kind)
        except OSError:
            with suppress(OSError):
                self.files.unlink()
            raise
        self.end.note_max(NO_TIMESTAMP, self.base_offset)
        self._has_aborted = False
        self._names_unsynced = True
        return self

    def load(self) -> Self:
        """Open a segment that exists; only the size of its ``.log`` is read.

        Raises:
            FileNotFoundError: There is no ``.log``.
        """
        self.end.resize(self.files.size(files.LOG))
        return self

    def succeed(self, source: Self, file: SegmentFile | None) -> None:
        """Take the place of the segment of which this one is a copy.

        ``file`` is the ``.log`` of the copy, open for writing, if there will be appends. Only the
        log's owner calls this, and no longer appends to the source.
        """
        self.follow(source)
        self._sealed = file is None
        self._unsynced = {files.INDEX, files.TIME_INDEX}
        if self._has_aborted is not False:
            self._note_unsynced(files.TRANSACTION_INDEX)
        self._names_unsynced = True
        if file is not None and source.end.fd >= 0:
            self._active = None if source._active is None else source._active.copy()
            self._file = file
            self.end.open(file.fileno())
        self._note_full()

    def follow(self, source: Self) -> None:
        """Take over the fields of the segment of which this one is a copy."""
        self.end.follow(source.end)
        self._first_config = source._first_config
        self._jitter_ms = source._jitter_ms
        self._has_aborted = source._has_aborted
        self._distrusted = source._distrusted
        self.reconfigure(source.config)

    def index_bytes(self, kind: str) -> bytes | None:
        """Return the entries of `files.INDEX` or `files.TIME_INDEX`, in memory or in the file.

        Returns None if the index was damaged and deleted.
        """
        active = self._active
        if active is not None:
            return bytes((active.offsets if kind == files.INDEX else active.times).data)
        return self.files.read(kind)

    def reconfigure(self, config: TopicConfig) -> None:
        """Use changed settings from the next append on.

        As in Kafka, ``segment.index.bytes`` and ``index.interval.bytes`` count only for segments
        that begin later, and the random jitter stays the same.
        """
        self.config = config
        longest = config.segment_ms
        if config.is_compacted:
            longest = min(longest, config.max_compaction_lag_ms)
        interval = self._first_config.index_interval_bytes
        self.end.obey(config.segment_bytes, interval, longest - self._jitter_ms)
        self._note_full()

    def activate(self) -> None:
        """Open the ``.log`` for writing and read the indexes into memory, unless it is active."""
        if self.end.fd >= 0:
            return
        file = SegmentFile(files.open_file(self.files.text(files.LOG), write=True))
        if self._active is None:
            offsets = self._read_index(files.INDEX, OFFSET_ENTRY.size)
            times = self._read_index(files.TIME_INDEX, TIME_ENTRY.size)
            self._active = ActiveIndexes(self.base_offset, offsets, times)
        if self.end.max_timestamp == UNKNOWN:
            self._load_max_timestamp()
        self.end.begin_interval()
        self._sealed = False
        self._preallocated |= files.has_reserved(file.fileno())  # by an earlier run
        if self._unsynced is None:  # not cleared: a flush may use the old set
            self._unsynced = set()
        self._note_full()
        self._file = file
        self.end.open(file.fileno())

    def write_rest(self, buffer: "Buffer", written: int) -> None:
        """Write the rest of a batch; if that fails, cut the part that was written.

        If the cut fails, too, the next batch overwrites that part, and `cut_torn` cuts the rest.
        """
        try:
            files.write_all(self.end.fd, memoryview(buffer)[written:], self.size + written)
        except OSError:
            self._is_torn = True
            with suppress(OSError):
                self.cut_torn()
            raise

    def cut_torn(self) -> None:
        """Cut a part of a batch that is left after the end, before the next segment begins.

        Raises:
            OSError: The disk refuses the cut.
        """
        if self._is_torn:
            files.truncate(self.end.fd, self.size)
            self._is_torn = False

    def add_index_entries(self, last_offset: int, position: int) -> None:
        """Add entries to both indexes: where a batch begins, and the largest timestamp up to it."""
        active = self._active
        if active is not None:
            active.add(last_offset, position)
            active.add_time(self.end.max_timestamp, self.end.offset_of_max_timestamp)
            self.end.begin_interval()
            self._note_full()

    def append_run(
        self,
        batches: "Buffer",
        entries: Iterable[IndexRow],
        *,
        first_timestamp: int,
        max_timestamp: int,
        offset_of_max_timestamp: int,
    ) -> None:
        """Write many batches at once, for the cleaner, which passes their index entries.

        The timestamps are those of the whole segment: that of its first batch, and the largest so
        far, with the last offset of the batch that has it.

        Raises:
            OSError: The write failed, perhaps in the middle; the caller deletes the segment.
        """
        self.activate()
        data = memoryview(batches)
        files.write_all(self.end.fd, data, self.size)
        active = self._active
        if active is not None:
            active.add_rows(entries)
        end = self.end
        end.note_first(first_timestamp)
        end.note_max(max_timestamp, offset_of_max_timestamp)
        end.resize(end.size + len(data))

    def append_aborted(self, transaction: AbortedTransaction) -> None:
        """Add an entry to the transaction index; its marker is in this segment already."""
        transaction_index.append(self.files.path(files.TRANSACTION_INDEX), [transaction])
        if not self._has_aborted:
            self._names_unsynced = True
        with NOTING:
            self._has_aborted = True
        self._note_unsynced(files.TRANSACTION_INDEX)

    def seal(self) -> None:
        """End the active state: add the last time entry, in memory; `flush` does the rest."""
        self._add_last_time()
        self._sealed = True

    def flush(self) -> None:
        """Fsync everything up to the size at the time of the call. Blocks.

        The directory is fsynced if names in it are new (KAFKA-3968). A sealed segment then frees
        its memory and the room after its end, and its descriptor is kept for reading. One that was
        recovered has none of them, and an append may activate it meanwhile. Files that were
        deleted, or whose folder was renamed meanwhile, need no flush (KAFKA-15391).
        """
        is_too_long = self._preallocated and self._sealed  # in this order, against `activate`
        sealed = self._sealed and self._file is not None
        with suppress(FileNotFoundError):
            if is_too_long:
                self._trim()
            file = self.file()
            files.fsync(file.fileno())
            self._write_indexes()
            self._fsync_indexes()
            if sealed and self._file is file:
                self.files.keep(files.LOG, file)
        if sealed:
            self._rest()

    def close(self) -> None:
        """Write the indexes with the last time entry, and close the files. Idempotent. Blocks.

        This does not fsync the ``.log``: a clean stop calls `seal` and `flush` first.
        """
        self.seal()
        self._trim()
        self._write_indexes()
        self._fsync_indexes()
        self._rest()

    def delete(self) -> None:
        """Unlink the files, with any suffix. Slices that are being sent stay valid."""
        self._sealed = True
        self._active = None
        self._rest()
        self.files.unlink()

    def find_damage(self) -> str | None:
        """Return a fault of the indexes that a few checks find; `recover` repairs it."""
        return segment_damage.find_damage(self)

    def recover(
        self,
        producers: ProducerStateManager | None = None,
        note_epoch: Callable[[int, int], object] = lambda _epoch, _offset: None,
        before_cut: Callable[[], object] = lambda: None,
        *,
        durably: bool = False,
    ) -> int:
        """Check every batch, cut the log before the first bad one, rebuild the indexes. Blocks.

        If ``producers`` are given, as of ``base_offset``, their state is brought to the segment's
        end and the transaction index is rebuilt, too. ``note_epoch`` gets the leader epoch of each
        batch and its offset. If something has to be cut, ``before_cut`` is called while the damage
        is still in the file. The cut is fsynced: otherwise a power failure could bring whole
        batches back behind new ones. So is a log whose offset index is missing: a start that was
        killed may have cut it. Returns the number of bytes that were cut.

        The offset index is deleted first and written last: without it the next start scans the
        segment again. The next `flush` of the segment fsyncs the rebuilt files. With ``durably``
        they are fsynced here: nothing else flushes a segment below the recovery point.

        Raises:
            LegacyFormatError: The ``.log`` has messages of a Kafka before 0.11; nothing was
            changed.
        """
        aborted: list[AbortedTransaction] = []

        def observe(header: BatchHeader, batch: memoryview) -> None:
            note_epoch(header.leader_epoch, header.base_offset)
            if producers is not None:
                entry = producers.replay(header, batch)
                if entry is not None:
                    aborted.append(entry)

        file = SegmentFile(files.open_file(self.files.text(files.LOG), write=True))
        scan = scan_log(
            file.fileno(), self.size, self.base_offset, self.config.index_interval_bytes, observe
        )
        had_index = files.unlink(self.files.text(files.INDEX))
        self.files.forget(files.INDEX)  # else readers go on with the one that may be damaged
        if durably:
            files.fsync_directory(self.files.directory)
        cut = self.size - scan.end
        if cut:
            before_cut()
        self._adopt(scan, file)
        if cut or files.has_reserved(file.fileno()):
            self._cut_log(scan.end)
        if cut or not had_index:
            files.fsync(file.fileno())
        if producers is not None:
            producers.map_end_offset = scan.next_offset
            transaction_index.rewrite(self.files.path(files.TRANSACTION_INDEX), aborted)
            self._has_aborted = bool(aborted)
            if aborted:
                self._note_unsynced(files.TRANSACTION_INDEX)
        self.seal()
        self._write_rebuilt(scan.indexes, durably=durably)
        return cut

    def _create_file(self, kind: str) -> None:
        fd = files.create_file(self.files.text(kind))
        try:
            if kind == files.LOG and self.config.preallocate:
                files.preallocate(fd, self.config.segment_bytes)
                self._preallocated = True
        finally:
            files.close(fd)

    def _adopt(self, scan: Scan, file: SegmentFile) -> None:
        """Become active with the result of a scan; the indexes are only in memory."""
        self._create_file(files.TIME_INDEX)
        self._note_unsynced(files.TIME_INDEX)  # no entry may come, and old ones are only cut
        self._names_unsynced = True
        self._distrusted = False
        self._active = scan.indexes
        self._sealed = False
        self._file = file
        end = self.end
        end.note_first(scan.first_timestamp)
        end.note_max(scan.max_timestamp, scan.offset_of_max_timestamp)
        end.begin_interval(scan.since_index)
        end.open(file.fileno())
        self._note_full()

    def _write_rebuilt(self, indexes: ActiveIndexes, *, durably: bool) -> None:
        """Write the indexes that a scan has found, the offset index last."""
        self._write_entries(files.TIME_INDEX, indexes.times)
        if durably:
            self._fsync_indexes()
        self._create_file(files.INDEX)
        self._names_unsynced = True
        self._write_entries(files.INDEX, indexes.offsets)
        if durably:
            self.flush()
        self._rest()

    def _read_index(self, kind: str, entry_size: int) -> bytes:
        """Return the whole entries of an index file; create the file if it is missing."""
        try:
            data = files.read_bytes(self.files.text(kind))
        except FileNotFoundError:
            files.close(files.create_file(self.files.text(kind)))
            self._names_unsynced = True
            return b""
        return data[: len(data) - len(data) % entry_size]

    def _note_full(self) -> None:
        active = self._active
        limit = self._first_config.segment_index_bytes
        self.end.note_full(active is not None and active.is_full(limit))

    def _add_last_time(self) -> None:
        active = self._active
        if active is not None:
            active.add_time(self.end.max_timestamp, self.end.offset_of_max_timestamp)

    def _trim(self) -> None:
        """Free the room that was reserved when the segment was created."""
        if not self._preallocated:
            return
        fd = files.open_file(self.files.text(files.LOG), write=True)
        try:
            files.truncate(fd, self.size)
        finally:
            files.close(fd)
        self._preallocated = False

    def _write_indexes(self) -> None:
        """Write the entries that the files lack."""
        active = self._active
        if active is None:
            return
        self._write_entries(files.INDEX, active.offsets)
        self._write_entries(files.TIME_INDEX, active.times)

    def _write_entries(self, kind: str, entries: MemoryEntries) -> None:
        begin = entries.written
        data = entries.unwritten(begin)
        if not data:
            return
        fd = files.open_file(self.files.text(kind), write=True)
        try:
            files.write_all(fd, data, begin)
        finally:
            files.close(fd)
        entries.note_written(begin + len(data))
        self._note_unsynced(kind)

    def _note_unsynced(self, kind: str) -> None:
        if self._unsynced is None:
            self._unsynced = set()
        self._unsynced.add(kind)

    def _fsync_indexes(self) -> None:
        """Fsync the index files that have changed, and the directory if names in it are new."""
        unsynced = self._unsynced or set()
        for kind in sorted(unsynced):
            unsynced.discard(kind)
            try:
                with suppress(FileNotFoundError):  # there is no file without aborted transactions
                    fd = files.open_file(self.files.text(kind))
                    try:
                        files.fsync(fd)
                    finally:
                        files.close(fd)
            except OSError:
                unsynced.add(kind)
                raise
        if self._names_unsynced:
            self._names_unsynced = False
            try:
                files.fsync_directory(self.files.directory)
            except OSError:
                self._names_unsynced = True
                raise

    def _cut_log(self, size: int) -> None:
        files.truncate(self.end.fd, size)
        self.end.resize(size)

    def _report_distrust(self, reason: str) -> None:
        _logger.error(
            "offset index is damaged and goes: lookups in the segment walk its log until the "
            "next start builds it again file=%s reason=%r",
            self.files.text(files.INDEX),
            reason,
        )
        if self._active is None:
            self._delete_index()

    def _delete_index(self) -> None:
        """Delete a damaged offset index: the next start rebuilds a missing one."""
        self.files.forget(files.INDEX)
        with suppress(OSError):
            files.unlink(self.files.text(files.INDEX))

    def _rest(self) -> None:
        """Release the descriptor and the memory."""
        if self._distrusted and self._active is not None:
            self._delete_index()
        self.end.rest()
        self._file = None
        self._active = None
        self._unsynced = self._unsynced or None


LogView: TypeAlias = tuple[int, tuple[LogSegment, ...], int]
"""The log as its readers see it: its end offset, its segments, the end's position in the last.

It is published in one assignment: a reader reads it once and needs no lock. Everything in it stays
valid: segments that retention or the cleaner removes meanwhile keep their open files, and bytes
below the end never change. A bare tuple: one is made for each append.
"""

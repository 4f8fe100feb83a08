"""One partition: segments that grow at one end and are read anywhere (Kafka: ``UnifiedLog``).

Appends run on the event loop and end in the page cache. Work that waits for the disk runs on the
background thread or on an io thread. `LogEnd` appends, and `LogReader` reads.
`storage.log.retention` decides what retention deletes, `storage.log.recovery` opens a log after a
crash, `storage.log.timestamp_lookup` finds records by time, and `storage.segment.swap` has the
order of a swap on the disk. The class is long because one lock covers all of it.
"""

import logging
import uuid
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Protocol

from siltstone.config.topic import TopicConfig
from siltstone.protocol import errors
from siltstone.protocol.core.constants import CONTROL
from siltstone.protocol.errors import KafkaError
from siltstone.storage import files, threads
from siltstone.storage.appending.batch import ValidatedBatch
from siltstone.storage.directory.log_directory import LogDirectory
from siltstone.storage.directory.partition_metadata import PartitionMetadata
from siltstone.storage.log import timestamp_lookup
from siltstone.storage.log.dropped_segments import RETRY_MS, DroppedSegments
from siltstone.storage.log.end import LogEnd
from siltstone.storage.log.frozen import FrozenLog, NameGate
from siltstone.storage.log.reads import LogParts, LogRead, LogReader
from siltstone.storage.log.recovery import LoadedPartition
from siltstone.storage.log.retention import Doomed, find_doomed
from siltstone.storage.log.services import LogServices
from siltstone.storage.log.timestamp_lookup import TimestampedOffset
from siltstone.storage.producers.checks import Origin
from siltstone.storage.producers.entry import AppendedBatch, ProducerCount
from siltstone.storage.producers.markers import read_marker
from siltstone.storage.segment.readable import ReadableSegment, base_offset_of, find_index
from siltstone.storage.segment.segment import LogSegment, LogView
from siltstone.storage.segment.swap import SegmentSwap

_logger = logging.getLogger(__name__)

HIGH_WATERMARK = -1
"""The offset by which DeleteRecords means the high watermark."""


class Watcher(Protocol):
    """A member of ``Log.watchers``, until it removes itself (loop only).

    The broker's are in `broker.fetching.watching`.
    """

    def log_changed(self) -> None:
        """Note that the log has more records, or another start or last stable offset."""

    def log_gone(self) -> None:
        """Note that the log, or records that the watcher has not read yet, were deleted."""


class Log(LogParts):
    """A partition's segments, offsets, producers and leader epochs.

    Its parts: ``end`` has the segments and offsets, and appends; ``reader`` reads; ``producers``
    recognise a batch that is sent again; ``epochs`` say which leader wrote which offsets.

    Only the event loop appends, rolls, applies retention and changes settings. ``lock`` is for the
    few other threads that use the same memory, and no thread holds it while it waits for the disk.
    A crash loses at most what was not fsynced: recovery begins at the recovery point, which moves
    only after an fsync, and cuts a torn end.

    Invariants: log start offset <= last stable offset <= high watermark = log end offset (one
    replica); recovery point <= log end offset; segment bases strictly increase; the first base <=
    log start offset.

    A reader in any thread reads ``view`` once. The view stays valid, even if batches are appended
    or deleted meanwhile; an append is in the view only after its bytes are written.
    """

    __slots__ = (
        "__weakref__", "_abandoned", "_flush_lock", "_leaving", "_services", "_swap",
        "_unflushed_gone", "config", "last_flush_ms", "leader_epoch", "lock", "names", "path",
        "producers", "topic_id", "topic_partition", "watchers",
    )  # fmt: skip

    def __init__(self, loaded: LoadedPartition, services: LogServices) -> None:
        self._services = services
        self.topic_partition = loaded.folder.topic_partition
        self.topic_id = loaded.topic_id
        self.config: TopicConfig = loaded.folder.config  # loop only; a new value replaces it
        self.end = end = LogEnd(loaded, services.clock, services.appends)
        self.reader = LogReader(end)
        self.epochs = loaded.epochs
        self.lock = end.lock
        self.producers = loaded.producers  # guarded by: lock
        self.producers.count_in(services.producers)
        self.leader_epoch = end.leader_epoch
        self.watchers: dict[Watcher, None] = end.watchers  # loop only; see `Watcher`
        self.path = loaded.folder.path  # changes when the folder is renamed for deletion
        self.names = NameGate()
        # Held while writing into the folder; the event loop never takes it.
        self._flush_lock = threads.Lock()
        self._abandoned = False  # the folder will be deleted; background work stops
        self._swap: SegmentSwap | None = None  # owned by the thread that cleans
        # Deleted segments that a power failure may bring back torn. Guarded by: lock
        self._unflushed_gone: tuple[LogSegment, ...] = ()
        self._leaving = set[int]()  # bases of deleted segments whose files may have their names
        self.last_flush_ms = services.clock.now_ms()

    @property
    def directory(self) -> LogDirectory:
        """Return the log directory that the folder is in."""
        return self.end.directory

    @property
    def has_old_names(self) -> bool:
        """Tell whether a start could find deleted segments, since they may have their names."""
        return bool(self._leaving)

    @property
    def view(self) -> LogView:
        """Return what readers see: end offset, segments, and the end's position in the last one."""
        return self.end.view

    @property
    def segments(self) -> tuple[LogSegment, ...]:
        """Return the segments from the oldest to the active one."""
        return self.end.view[1]

    @property
    def size(self) -> int:
        """Return the bytes of all segments."""
        return self.end.size

    @property
    def log_start_offset(self) -> int:
        """Return the first offset that can be read."""
        return self.end.log_start_offset

    @property
    def log_end_offset(self) -> int:
        """Return the offset of the next record."""
        return self.end.log_end_offset

    @property
    def high_watermark(self) -> int:
        """Return the offset below which clients may read; with one replica the log end offset."""
        return self.end.log_end_offset

    @property
    def last_stable_offset(self) -> int:
        """Return the first offset of the earliest open transaction, else the high watermark."""
        return self.end.last_stable_offset

    @property
    def recovery_point(self) -> int:
        """Return the offset below which everything is on the disk."""
        return self.end.recovery_point

    @property
    def is_closed(self) -> bool:
        """Tell whether everything is refused from now on."""
        return self.end.is_closed

    def append(self, batch: ValidatedBatch, origin: Origin = Origin.CLIENT) -> ValidatedBatch:
        """Append a validated batch at once, by `LogEnd.append`, and return it.

        Raises:
            OutOfOrderSequence: The batch is out of order, or another error of
                `ProducerStateManager.check`.
            KafkaStorageError: The directory refuses writes since this or an earlier failure, or
                refuses clients' writes because less room than its reserve is free.
        """
        self.end.append(self, batch, origin)
        error = batch.error
        if error is not None:
            batch.error = None
            try:
                raise error
            finally:
                del error  # its traceback has this frame, which has the batch
        return batch

    def read(
        self, offset: int, max_bytes: int, upto: int, *, at_least_one: bool = True
    ) -> LogRead | None:
        """Return whole batches from an offset on, as `LogReader.read` does."""
        return self.reader.read(self, offset, max_bytes, upto, at_least_one)

    def available_bytes(self, offset: int, upto: int) -> int:
        """Return the number of bytes from ``offset`` to ``upto``, over all segments."""
        return self.reader.available_bytes(self, offset, upto)

    def aborted_transactions(self, offset: int, next_offset: int) -> list[tuple[int, int]]:
        """Return producer id and first offset of each aborted transaction in a range.

        ``offset`` is inclusive; ``next_offset`` is exclusive and is that of the `LogRead`. The
        result may have a transaction too many, which is harmless to a consumer; it misses none.
        """
        segments = self.segments
        segments = segments[find_index(segments, offset) :]
        aborted: list[tuple[int, int]] = []
        if not any(segment.may_have_aborted for segment in segments):
            return aborted
        with self._reading():
            for segment in segments:
                found, complete = segment.aborted_transactions(offset, next_offset)
                aborted += [(each.producer_id, each.first_offset) for each in found]
                if complete:
                    break
        return aborted

    def find_offset_by_timestamp(self, timestamp: int, upto: int) -> TimestampedOffset | None:
        """Return the first record below ``upto`` from this time on. Blocks: io thread."""
        find = timestamp_lookup.find_at_or_after
        limit = self.config.max_decompressed_message_bytes
        return self._look_up(lambda view: find(view, timestamp, self.log_start_offset, limit), upto)

    def find_max_timestamp(self, upto: int) -> TimestampedOffset | None:
        """Return the first record with the greatest timestamp, if it is below ``upto``. Blocks."""
        limit = self.config.max_decompressed_message_bytes
        return self._look_up(lambda view: timestamp_lookup.find_max(view, limit), upto)

    def _look_up(
        self, find: Callable[[LogView], TimestampedOffset | None], upto: int
    ) -> TimestampedOffset | None:
        """Return what is found in the view, if it is below ``upto``.

        If files are gone because the log has other segments by then, it looks again.
        """
        with self._reading():
            while True:
                view = self.view
                try:
                    found = find(view)
                    break
                except FileNotFoundError:
                    if self.segments is view[1]:
                        raise
        return found if found is not None and found.offset < upto else None

    def end_offset_for_epoch(self, epoch: int) -> tuple[int, int]:
        """Return the last epoch up to ``epoch`` and the offset after it; (-1, -1) if undefined."""
        return self.epochs.end_offset_for(epoch, self.end.log_end_offset)

    def check_producer(self, batch: ValidatedBatch, origin: Origin) -> AppendedBatch | None:
        """Return the earlier batch that this one repeats; raise if it may not be written."""
        if batch.attributes & CONTROL:
            marker = read_marker(batch.buffer)
            if marker is not None:
                self.producers.check_marker(batch, marker, origin)
            return None
        return self.producers.check(batch, origin)

    def note_producer(self, batch: ValidatedBatch, base_offset: int, segment: LogSegment) -> None:
        """Note a written batch in the producer state, and an aborted transaction in its index."""
        if not batch.attributes & CONTROL:
            self.producers.update(batch, base_offset)
            return
        marker = read_marker(batch.buffer)
        if marker is None:
            return
        try:
            self.producers.update_marker(batch, marker, base_offset, segment.append_aborted)
        except OSError as error:
            # The marker is in the log already; only recovery can complete the index.
            raise self.directory.fail(error, for_good=True) from error

    def dismiss_watchers(self) -> None:
        """Tell the watchers that the log is gone or cut. Only the event loop calls this."""
        for each in tuple(self.watchers):
            each.log_gone()
        self._services.moved_starts.pop(self.end, None)

    def roll(self) -> None:
        """Start a new segment at the log end offset, unless the active one is empty.

        Raises:
            KafkaStorageError: The directory refuses writes, or does so from now on.
            NotLeaderOrFollower: The log is closed.
        """
        with self.lock:
            if self.is_closed or self.directory.refusal is not None:
                raise self.refusal()
            if self.segments[-1].size:
                self.begin_segment()

    def begin_segment(self) -> LogSegment:
        """Start a new active segment; the caller holds the lock.

        The background thread writes the last index entries of the old segment, fsyncs it and writes
        the producer snapshot. Only then does the recovery point reach the end of the old segment.
        So a crash in between loses nothing: a start scans that segment. Before that, the checkpoint
        has no offset after the segment: `storage.checkpointed.noted_recovery_point`.

        Raises:
            KafkaStorageError: The disk refuses the new segment; the log is as it was.
        """
        end_offset, segments, _ = self.view
        ended = segments[-1]
        try:
            ended.cut_torn()
            self.producers.drop_volatile()
            segment = LogSegment(
                self.path,
                end_offset,
                self.config,
                now_ms=self._services.clock.now_ms(),
                open_files=ended.files.open_files,
            ).create()
        except OSError as error:
            raise self.directory.fail(error) from error
        ended.seal()
        snapshot = self.producers.capture(end_offset)
        self.end.add_segment(segment)

        def finish() -> None:
            if self._abandoned:
                return
            if snapshot is not None:
                with self._flush_lock, self._writing():
                    self.producers.write_snapshot(snapshot)
            self.flush(end_offset)

        self._services.background.submit("flush of a rolled segment", finish)
        return segment

    def start_write_back(self, segment: LogSegment, size: int) -> None:
        """Ask the kernel to begin writing the last bytes of a segment to the disk."""
        position = max(0, segment.size - size)
        self._services.background.write_back(segment.file(), position, size)

    def delete_records(self, offset: int) -> int:
        """Raise the log start offset and return it; `HIGH_WATERMARK` means all records.

        The next retention deletes the segments that lie below it. As in Kafka, a crash can lose the
        new start: it is durable with the next checkpoint of log start offsets.

        Raises:
            PolicyViolation: The topic is compacted, and its ``cleanup.policy`` has no ``delete``.
            OffsetOutOfRange: The offset is negative or above the high watermark.
        """
        if self.config.is_compacted and not self.config.is_deleted:
            raise errors.PolicyViolation(
                f"records of {self.topic_partition} cannot be deleted: its cleanup.policy is "
                "compact, without delete"
            )
        end = self.end
        with self.lock:
            if end.is_closed or end.directory.failure is not None:
                raise self.refusal()
            end_offset = end.log_end_offset
            start_offset = end_offset if offset == HIGH_WATERMARK else offset
            if not 0 <= start_offset <= end_offset:
                raise errors.OffsetOutOfRange(
                    f"records of {self.topic_partition} below {offset} cannot be deleted: "
                    f"its high watermark is {end_offset}"
                )
            if start_offset > end.log_start_offset:
                self._start_at(start_offset)
            return end.log_start_offset

    def read_times(self, now_ms: int) -> Iterator[None]:
        """Read the times of the segments that are too old by now, a segment a step.

        Of hundreds that expired while the broker was stopped, `apply_retention` would read all at
        once.

        Raises:
            KafkaStorageError: A segment cannot be read.
        """
        if self.is_closed or not self.config.is_deleted or self.config.retention_ms < 0:
            return
        for segment in self.segments:
            if segment not in self.segments:  # the log has lost it between two steps
                continue
            with self._reading():
                is_over = now_ms - segment.largest_timestamp > self.config.retention_ms
            if not is_over:
                return
            yield

    def apply_retention(self, now_ms: int) -> int:
        """Delete the oldest segments by the rules of retention, and return how many.

        If all segments go, the log rolls first, so that an empty segment at the log end offset
        stays. While the disk takes no writes, the active segment stays instead; the others are
        deleted, which makes room. The event loop calls this, and a cleaner thread that has taken
        the log. The decision is made again under the lock, since a batch may have come meanwhile.

        Raises:
            KafkaStorageError: The segments cannot be read.
        """
        if self.is_closed or self.directory.failure is not None or not self._find_doomed(now_ms):
            return 0
        with self.lock:
            doomed = self._find_doomed(now_ms)
            count = sum(each.segments for each in doomed)
            if count == len(self.segments) and not self._roll_if_possible():
                count -= 1
            if not count:
                return 0
            gone = self._drop(count)
        _logger.info(
            "segments deleted partition=%s count=%d bytes=%d log_start_offset=%d reason=%r",
            self.topic_partition,
            count,
            sum(segment.size for segment in gone),
            self.log_start_offset,
            ", ".join(each.reason for each in doomed),
        )
        return count

    def _find_doomed(self, now_ms: int) -> list[Doomed]:
        """Return what retention deletes now; the first call may read bytes of the segments."""
        with self._reading():
            return find_doomed(
                self.segments, self.config, now_ms=now_ms, log_start_offset=self.log_start_offset
            )

    def _roll_if_possible(self) -> bool:
        """Roll, unless the disk takes no writes; the caller holds the lock."""
        if self.directory.refusal is not None:
            return False
        try:
            self.begin_segment()
        except errors.KafkaStorageError:
            return False
        return True

    def _drop(self, count: int) -> tuple[LogSegment, ...]:
        """Take the oldest segments out of the view; the caller holds the lock."""
        gone, kept = self.segments[:count], self.segments[count:]
        unflushed = find_index(self.segments, self.recovery_point)
        self._unflushed_gone += gone[unflushed:]  # before the view: a flush must not miss them
        if kept[0].base_offset > self.log_start_offset:
            self._start_at(kept[0].base_offset)
        self.end.show(kept)
        self.reader.forget()
        snapshots = [self.producers.forget_snapshot(each.base_offset) for each in gone]
        dropped = self._dropped(gone, [path for path in snapshots if path is not None])
        bases = {each.base_offset for each in gone}
        self._leaving.update(bases)
        delete = partial(self._delete, dropped, bases)
        self._services.background.submit("renaming of deleted segments", delete)
        return gone

    def _delete(self, dropped: DroppedSegments, bases: set[int]) -> None:
        """Rename segments that the log no longer has, and have them unlinked later. Blocks.

        Among them may be new ones of an unfinished swap. It is finished first: to finish it later
        would give them their names again, and the next start would load them.

        Raises:
            KafkaStorageError: The disk failed.
        """
        try:
            self.finish_swap()
        except OSError as error:
            self._services.deletions.schedule(RETRY_MS, partial(self._delete, dropped, bases))
            raise self.directory.fail(error) from error
        dropped.rename(self.config.file_delete_delay_ms)
        self._leaving.difference_update(bases)

    def _dropped(self, gone: Sequence[LogSegment], snapshots: Sequence[Path]) -> DroppedSegments:
        """Return segments that the log no longer has, and their snapshots, to be deleted."""
        return DroppedSegments(
            gone,
            snapshots,
            self.directory,
            self._services,
            self.names,
            self._flush_lock,
            lambda: self._abandoned,
        )

    def _start_at(self, offset: int) -> None:
        """Raise the log start offset; the caller holds the lock.

        A cleaner thread may call this, so the event loop tells the watchers later.
        """
        self.end.start_at(offset)
        if self.watchers:
            self._services.moved_starts[self.end] = None

        def trim() -> None:
            if self._abandoned:
                return
            with self._flush_lock, self._writing():
                self.epochs.truncate_start(offset)

        self._services.background.submit("trimming of leader epochs", trim)

    def flush(self, upto: int | None = None) -> None:
        """Wait until the log is on the disk, all of it or up to ``upto``, exclusive. Blocks.

        The recovery point moves afterwards. It passes the end of a segment only if the segment was
        sealed before its flush. Several threads may call this at the same time.

        Segments that were deleted since the last flush are flushed, too, and so is the folder: if a
        power failure brings them back, a start scans them, and damage in them would end the log.

        Raises:
            KafkaStorageError: Some of it may not be on the disk.
        """
        with self._flush_lock:
            if self.directory.failure is not None:
                # After a failed flush another one would succeed, although bytes may be lost.
                raise self.directory.refuse()
            with self.lock:  # a marker is in the view before its entry is in the transaction index
                end_offset, segments, _ = self.view
            target = end_offset if upto is None else min(upto, end_offset)
            self.last_flush_ms = self._services.clock.now_ms()
            if self._abandoned or target <= self.recovery_point:
                return
            gone = self._unflushed_gone
            first = find_index(segments, self.recovery_point)
            began = self._services.clock.monotonic()
            try:
                with self._writing():
                    if gone:
                        self._flush_gone(gone)
                    for segment in segments[first:]:
                        if self._abandoned:
                            return
                        if segment.base_offset < target:
                            segment.flush()
                    segments[-1].files.check_present()
            finally:
                self._services.flush_stats.add(self._services.clock.monotonic() - began)
            with self.lock:
                following = self.segments[find_index(self.segments, target)]
                if target == end_offset and following is not segments[-1]:
                    target -= 1  # the log has rolled at the target since the segment's flush
                self.end.note_flushed(target)
                if gone:
                    self._unflushed_gone = self._unflushed_gone[len(gone) :]

    def _flush_gone(self, segments: Iterable[LogSegment]) -> None:
        """Fsync deleted segments that still have files, and the folder, for those without."""
        for segment in segments:
            if segment.files.find_size(files.LOG) is not None:
                segment.flush()
        files.fsync_directory(self.path)

    def replace_segments(self, new: Sequence[LogSegment], old: Iterable[ReadableSegment]) -> None:
        """Put cleaned segments in the place of old ones (docs/compaction.md, The swap). Blocks.

        ``new`` are ``.cleaned``, complete and flushed, and belong to the log from now on. One
        thread at a time may call this, and nothing else may remove segments meanwhile: the
        cleaner's states ensure that. Readers see either all old segments or all new ones. A failure
        of the disk does not stop writes; see `finish_swap`.

        Raises:
            OSError: The disk failed. Either the log is as it was, or it serves the new segments and
                only their names are not final.
            NotLeaderOrFollower: The log is closed.
            UnknownTopicOrPartition: Its topic was deleted.
        """
        self.finish_swap()
        chosen = set(old)
        swap = SegmentSwap(self.path, new, [each for each in self.segments if each in chosen])
        try:
            # A flush of old segments would write to files of the new ones, and a deletion would
            # undo what is not yet published.
            with self._flush_lock:
                self._swap = swap
                swap.begin()
                self._publish(swap)
        except (OSError, KafkaError):
            with suppress(OSError):
                self.finish_swap()
            raise
        self.finish_swap()

    @property
    def has_unfinished_swap(self) -> bool:
        """Tell whether the disk failed in the middle of `replace_segments`."""
        return self._swap is not None

    def finish_swap(self) -> None:
        """Complete or undo a swap during which the disk failed. Blocks.

        Until this succeeds no segment may be cleaned. A start settles an unfinished swap, too.

        Raises:
            OSError: The disk still fails.
        """
        if self._swap is None:
            return
        with self._flush_lock, self.names.changing():
            swap = self._swap
            if swap is None:  # another thread has finished it
                return
            if self._abandoned:  # a new folder may have the name already
                swap.forget()
            elif swap.is_published:
                swap.end()
            else:
                swap.undo()
            self._swap = None
        if swap.is_published and not self._abandoned:
            gone = self._dropped(swap.old, swap.snapshots)
            self._services.deletions.schedule(self.config.file_delete_delay_ms, gone.unlink)

    def _publish(self, swap: SegmentSwap) -> None:
        """Show readers the new segments, in one assignment.

        Retention may have deleted some of the old ones already (KAFKA-7278).
        """
        bases = {segment.base_offset for segment in swap.new}
        chosen = set(swap.old)
        with self.lock:
            if self.is_closed:
                raise self.refusal()
            kept = [segment for segment in self.segments if segment not in chosen]
            merged = sorted([*kept, *swap.new], key=base_offset_of)
            for segment in swap.new:
                segment.reconfigure(self.config)
            self.end.show(tuple(merged))
            self.reader.forget()
            for segment in swap.old:
                if segment.base_offset not in bases:
                    snapshot = self.producers.forget_snapshot(segment.base_offset)
                    if snapshot is not None:
                        swap.snapshots.append(snapshot)
            swap.is_published = True

    def freeze(self, first_dirty_offset: int = 0) -> FrozenLog:
        """Return the log as it is, and keep the names of its files until `names` is released.

        For the event loop: this reads memory only. The result has ``first_dirty_offset``, too.

        Raises:
            NotLeaderOrFollower: The log is closed.
            UnknownTopicOrPartition: Its topic was deleted.
        """
        with self.lock:
            if self.is_closed:
                raise self.absence()
            self.names.hold()
            end_offset, segments, end_position = self.view
            return FrozenLog(
                topic_partition=self.topic_partition,
                topic_id=self.topic_id,
                path=self.path,
                directory=self.directory.path,
                segments=segments,
                sizes=(*(segment.size for segment in segments[:-1]), end_position),
                log_start_offset=self.log_start_offset,
                log_end_offset=end_offset,
                last_stable_offset=self.last_stable_offset,
                first_dirty_offset=first_dirty_offset,
                is_compacted=self.config.is_compacted,
                delete_retention_ms=self.config.delete_retention_ms,
                names=self.names,
            )

    def hold_flushes(self) -> None:
        """Keep other threads from writing into the folder until `release_flushes`. Blocks."""
        self._flush_lock.acquire()

    def release_flushes(self) -> None:
        """Undo `hold_flushes`; any thread may call this."""
        self._flush_lock.release()

    def move(
        self,
        directory: LogDirectory,
        path: Path,
        segments: tuple[LogSegment, ...],
        recovery_point: int,
    ) -> None:
        """Continue in another directory with copied segments; the caller holds the lock."""
        for segment in self.segments:  # a reader that opens a file now gets that of the copy
            segment.files.relocate(path)
        self.end.move(directory, segments, recovery_point)
        self._unflushed_gone = ()  # the copy does not have these segments
        self._leaving.clear()
        self.reader.forget()
        self.path = path
        self.epochs.relocate(path)
        self.producers.relocate(path)

    def assign_topic_id(self, topic_id: uuid.UUID) -> None:
        """Write the topic's id into ``partition.metadata``. Blocks."""
        with self._writing():
            PartitionMetadata(topic_id=topic_id).write(self.path)
        self.topic_id = topic_id

    def reconfigure(self, config: TopicConfig) -> None:
        """Use other settings from the next append on."""
        with self.lock:
            self.config = config
            self.end.obey(config)
            for segment in self.segments:
                segment.reconfigure(config)

    def remove_expired_producers(self, now_ms: int) -> int:
        """Forget the producers that have written nothing for too long, and return how many."""
        with self.lock:
            return self.producers.remove_expired(now_ms)

    def close(self) -> None:
        """Refuse everything from now on, and flush. Blocks; idempotent.

        Raises:
            KafkaStorageError: The directory has failed, so it does not get a clean stop.
        """
        with self.lock:
            if self.is_closed:
                return
            self.end.close()
            end_offset, segments, _ = self.view
            snapshot = None
            if end_offset > self.log_start_offset:
                snapshot = self.producers.capture(end_offset)
        if self.directory.failure is not None:
            raise self.directory.refuse()
        with self._writing():
            if end_offset > self.recovery_point:
                segments[-1].seal()
            self.flush()
            self.producers.drop_volatile()
            if snapshot is not None:
                self.producers.write_snapshot(snapshot)
            for segment in segments:
                segment.close()

    def leave(self) -> None:
        """Keep further flushes and other background work from beginning; `abandon` follows.

        Otherwise `abandon` would wait for all queued flushes: the thread that had the flush lock
        last usually gets it again.
        """
        self._abandoned = True

    def abandon(self, path: Path) -> None:
        """Refuse everything from now on: the folder is about to be renamed for deletion. Blocks.

        This waits for one file that is being flushed, not for the flush of the whole log.
        """
        self.leave()
        with self._flush_lock, self.lock:
            self.end.close()
            self.path = path
            for segment in self.segments:
                segment.files.relocate(path)
            self.epochs.relocate(path)
            self.producers.relocate(path)
            self.producers.count_in(ProducerCount())  # no longer counted for all logs
            segments = self.segments
        for segment in segments:
            segment.files.forget_all()

    def write_epochs(self) -> None:
        """Write the leader epochs into their file. Blocks."""
        with self._flush_lock, self._writing():
            self.epochs.flush()

    def absence(self) -> KafkaError:
        """Return the error of a log that is closed."""
        if self._abandoned:
            return errors.UnknownTopicOrPartition(f"{self.topic_partition} was deleted meanwhile")
        return errors.NotLeaderOrFollower(f"{self.topic_partition} is not served: the broker stops")

    def out_of_range(self, offset: int, end_offset: int) -> errors.OffsetOutOfRange:
        """Return the error for a read of an offset that the log does not have."""
        return errors.OffsetOutOfRange(
            f"offset {offset} of {self.topic_partition} is outside "
            f"{self.log_start_offset}..{end_offset}"
        )

    def unreadable(self, error: OSError) -> KafkaError:
        """Return the error for a read that the disk failed; other reads, and writes, go on."""
        if self._abandoned:
            return self.absence()
        sentence = f"files of {self.topic_partition} cannot be read: {error}; check the disk"
        self.directory.report_once(sentence)
        return errors.KafkaStorageError(sentence)

    def damaged(self, error: errors.CorruptMessage) -> errors.CorruptMessage:
        """Return the error for a read that found no batch."""
        sentence = f"{self.topic_partition} is damaged: {error.message}"
        self.directory.report_once(sentence)
        return errors.CorruptMessage(sentence)

    def refusal(self) -> KafkaError:
        """Return the error that says why nothing can be appended."""
        return self.absence() if self.is_closed else self.directory.refuse()

    @contextmanager
    def _reading(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise self.unreadable(error) from error
        except errors.CorruptMessage as error:
            raise self.damaged(error) from error

    @contextmanager
    def _writing(self) -> Iterator[None]:
        """Make the directory refuse writes after an OSError, unless the folder was deleted."""
        try:
            yield
        except FileNotFoundError as error:  # KAFKA-15391
            if not self._abandoned:
                raise self.directory.fail(error) from error
        except OSError as error:
            raise self.directory.fail(error) from error

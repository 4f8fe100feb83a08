"""One partition: segments that grow at one end and are read anywhere (Kafka: ``UnifiedLog``).

Appends run on the event loop and end in the page cache; whatever waits for the disk is handed to
the background thread or called from an io thread. What retention deletes is decided in
`storage.log.retention`, opening after a crash is `storage.log.recovery`, lookups by time are
`storage.log.timestamp_lookup`. Longer than 300 lines because one lock covers all of it.
"""

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING

from siltstone.protocol.errors import OffsetOutOfRange, PolicyViolation
from siltstone.protocol.records.batch import CONTROL
from siltstone.storage.appending.kernels import PlainRules
from siltstone.storage.appending.values import AppendResult, Origin
from siltstone.storage.directory.partition_metadata import PartitionMetadata
from siltstone.storage.log.dropped_segments import DroppedSegments
from siltstone.storage.log.movable import MovableLog
from siltstone.storage.log.read_kernels import LogReader
from siltstone.storage.log.retention import Doomed, find_doomed
from siltstone.storage.log.view import find_index
from siltstone.storage.producers.markers import read_marker
from siltstone.storage.segment.segment import LogSegment

if TYPE_CHECKING:
    import uuid
    from pathlib import Path

    from siltstone.config.topic import TopicConfig
    from siltstone.storage.appending.values import ValidatedBatch
    from siltstone.storage.log.recovery import LoadedPartition
    from siltstone.storage.log.services import LogServices

_logger = logging.getLogger(__name__)

HIGH_WATERMARK = -1
"""The offset by which DeleteRecords means all there is."""


class Log(MovableLog):
    """A partition's segments, offsets, producers and leader epochs.

    The event loop is the only one that appends, rolls, retains and changes settings; ``lock`` is
    for the few others that touch the same memory, and nobody holds it while waiting for the disk.
    A crash loses at most what was not fsynced: recovery begins at the recovery point, which moves
    only after an fsync, and cuts a torn end. Recovery point <= log end offset.
    """

    __slots__ = (
        "__weakref__",
        "bytes_out",
        "last_flush_ms",
    )

    def __init__(self, loaded: "LoadedPartition", services: "LogServices") -> None:
        super().__init__(loaded, services)
        self.last_flush_ms = services.clock.now_ms()
        self.bytes_out = 0  # whoever sends a read adds to it

    def _check_producer(self, batch: "ValidatedBatch", origin: Origin) -> AppendResult | None:
        """Return the answer to a batch that was sent again; refuse one that may not be written."""
        if batch.attributes & CONTROL:
            marker = read_marker(batch.buffer)
            if marker is not None:
                self.producers.check_marker(batch, marker, origin)
            return None
        first = self.producers.check(batch, origin)
        if first is None:
            return None
        return AppendResult(
            first.first_offset,
            first.last_offset,
            first.timestamp,
            self.log_start_offset,
            duplicate=True,
            flush_due=False,
        )

    def _note_producer(
        self, batch: "ValidatedBatch", base_offset: int, segment: LogSegment
    ) -> None:
        """Take a written batch into the producer state, an aborted transaction into its index."""
        if not batch.attributes & CONTROL:
            self.producers.update(batch, base_offset)
            return
        marker = read_marker(batch.buffer)
        if marker is None:
            return
        aborted = self.producers.update_marker(batch, marker, base_offset)
        if aborted is None:
            return
        try:
            segment.append_aborted(aborted)
        except OSError as error:
            # The marker is in the log already: only recovery can make the index complete.
            raise self.directory.fail(error, for_good=True) from error

    def tell_watchers(self) -> None:
        """Tell everybody who watches that the log has changed. For the event loop."""
        for each in tuple(self.watchers):
            each.log_changed()

    def dismiss_watchers(self) -> None:
        """Tell everybody who watches that the log is gone, or cut. For the event loop."""
        for each in tuple(self.watchers):
            each.log_gone()
        self._services.moved_starts.discard(self)

    def roll(self) -> None:
        """Start a new segment at the log end offset, unless the active one is empty."""
        with self.lock:
            if self._view[1][-1].size:
                self._roll()

    def _roll(self) -> LogSegment:
        """Start a new active segment; the caller holds the lock.

        The old one's last index entries, its fsync and the producer snapshot are the background's
        work; only after them does the recovery point move, so a crash in between finds all of it
        again.
        """
        end_offset, segments, _ = self._view
        active = segments[-1]
        segment = LogSegment.create(
            self.path, end_offset, self.config, now_ms=self._services.clock.now_ms()
        )
        active.seal()
        snapshot = self.producers.capture(end_offset)
        self._view = (end_offset, (*segments, segment), 0)
        self._unwritten = 0

        def finish() -> None:
            if self._abandoned:
                return
            if snapshot is not None:
                with self._flush_lock, self._writing():
                    self.producers.write_snapshot(snapshot)
            self.flush(end_offset)

        self._services.background.submit("flush of a rolled segment", finish)
        return segment

    def _start_write_back(self, segment: LogSegment) -> None:
        position = max(0, segment.size - self._unwritten)
        self._services.background.write_back(segment.file(), position, self._unwritten)
        self._unwritten = 0

    def delete_records(self, offset: int) -> int:
        """Raise the log start offset and return it; `HIGH_WATERMARK` means all there is.

        Whole segments below go with the next retention. A stop that is not clean can lose it, as
        Kafka's can: it is durable with the next checkpoint of log start offsets.

        Raises:
            PolicyViolation: The topic's ``cleanup.policy`` has no ``delete``.
            OffsetOutOfRange: The offset is negative or above the high watermark.
        """
        if not self.config.is_deleted:
            raise PolicyViolation(
                f"records of {self.topic_partition} can not be deleted: its cleanup.policy has no "
                "delete"
            )
        with self.lock:
            if self._closed or self.directory.failure is not None:
                raise self._refusal()
            end_offset = self.log_end_offset
            start_offset = end_offset if offset == HIGH_WATERMARK else offset
            if not 0 <= start_offset <= end_offset:
                raise OffsetOutOfRange(
                    f"records of {self.topic_partition} below {offset} can not be deleted: "
                    f"its high watermark is {end_offset}"
                )
            if start_offset > self.log_start_offset:
                self._start_at(start_offset)
            return self.log_start_offset

    def apply_retention(self, now_ms: int) -> int:
        """Delete the oldest segments that retention dooms, and return how many.

        If all go, the log rolls first, so that an empty segment at the log end offset stays; while
        the disk takes no writes the active segment stays instead. A full disk does not keep the
        others: this is what makes room. For the event loop, and for a cleaner thread that has taken
        the log: it decides again under the lock, since a batch may have come meanwhile.

        Raises:
            KafkaStorageError: The segments can not be read.
        """
        if self._closed or self.directory.failure is not None or not self._find_doomed(now_ms):
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
        """Return what retention dooms now; the first time it may read bytes of the segments."""
        with self._reading():
            return find_doomed(
                self.segments,
                self.config,
                now_ms=now_ms,
                log_start_offset=self.log_start_offset,
            )

    def _roll_if_possible(self) -> bool:
        """Roll, unless the disk takes no writes; the caller holds the lock."""
        if self.directory.refusal is not None:
            return False
        try:
            self._roll()
        except OSError as error:
            self.directory.fail(error)
            return False
        return True

    def _drop(self, count: int) -> tuple[LogSegment, ...]:
        """Take the oldest segments out of the view; the caller holds the lock."""
        end_offset, segments, end_position = self._view
        gone, kept = segments[:count], segments[count:]
        if kept[0].base_offset > self.log_start_offset:
            self._start_at(kept[0].base_offset)
        self._view = (end_offset, kept, end_position)
        self._reader = LogReader()
        self.size -= sum(segment.size for segment in gone)
        snapshots = [self.producers.forget_snapshot(each.base_offset) for each in gone]
        dropped = DroppedSegments(
            gone,
            [path for path in snapshots if path is not None],
            self.directory,
            self._services,
            self.names,
            lambda: self._abandoned,
        )
        rename = partial(dropped.rename, self.config.file_delete_delay_ms)
        self._services.background.submit("renaming of deleted segments", rename)
        return gone

    def _start_at(self, offset: int) -> None:
        """Raise the log start offset; the caller holds the lock.

        A cleaner thread may be who does it, so the event loop tells who watches, when it looks.
        """
        self.log_start_offset = offset
        if self.watchers:
            self._services.moved_starts.add(self)
        self.recovery_point = max(self.recovery_point, offset)

        def trim() -> None:
            if self._abandoned:
                return
            with self._flush_lock, self._writing():
                self.epochs.truncate_start(offset)

        self._services.background.submit("trimming of leader epochs", trim)

    def flush(self, upto: int | None = None) -> None:
        """Wait until all below ``upto`` (exclusive; all there is) is on the disk. Blocks.

        The recovery point moves afterwards. May be called by several threads at a time.

        Raises:
            KafkaStorageError: It may not be on the disk.
        """
        with self._flush_lock:
            if self.directory.failure is not None:
                # Whoever waited for a flush that failed would see the next one succeed.
                raise self.directory.refuse()
            end_offset, segments, _ = self._view
            target = end_offset if upto is None else min(upto, end_offset)
            self.last_flush_ms = self._services.clock.now_ms()
            if self._abandoned or target <= self.recovery_point:
                return
            first = find_index(segments, self.recovery_point)
            began = self._services.clock.monotonic()
            try:
                with self._writing():
                    for segment in segments[first:]:
                        if segment.base_offset < target:
                            segment.flush()
                    segments[-1].check_present()
            finally:
                self._services.flush_stats.add(self._services.clock.monotonic() - began)
            with self.lock:
                self.recovery_point = max(self.recovery_point, target)

    def assign_topic_id(self, topic_id: "uuid.UUID") -> None:
        """Write the topic's id into ``partition.metadata``. Blocks."""
        with self._writing():
            PartitionMetadata(topic_id=topic_id).write(self.path)
        self.topic_id = topic_id

    def reconfigure(self, config: "TopicConfig") -> None:
        """Obey other settings from the next append on."""
        with self.lock:
            self.config = config
            self.rules = PlainRules(config)
            for segment in self._view[1]:
                segment.reconfigure(config)

    def remove_expired_producers(self, now_ms: int) -> int:
        """Forget the producers that have been silent for too long, and return how many."""
        with self.lock:
            return self.producers.remove_expired(now_ms)

    def close(self) -> None:
        """Refuse everything from now on, and flush. Blocks; idempotent.

        Raises:
            KafkaStorageError: The directory failed; the stop was not clean for it.
        """
        with self.lock:
            if self._closed:
                return
            self._closed = True
            end_offset, segments, _ = self._view
            snapshot = None
            if end_offset > self.log_start_offset:
                snapshot = self.producers.capture(end_offset)
        if self.directory.failure is not None:
            raise self.directory.refuse()
        with self._writing():
            if end_offset > self.recovery_point:
                segments[-1].seal()
            self.flush()
            if snapshot is not None:
                self.producers.write_snapshot(snapshot)
            for segment in segments:
                segment.close()

    def abandon(self, path: "Path") -> None:
        """Refuse everything from now on: the folder is about to be renamed for deletion. Blocks."""
        with self._flush_lock, self.lock:
            self._closed = self._abandoned = True
            self.path = path
            for segment in self._view[1]:
                segment.relocate(path)
            self.epochs.relocate(path)
            self.producers.relocate(path)

    def write_epochs(self) -> None:
        """Write the leader epochs into their file. Blocks."""
        with self._flush_lock, self._writing():
            self.epochs.flush()

    @contextmanager
    def _writing(self) -> Iterator[None]:
        """Have the directory refuse writes after an OSError, unless the folder was taken away."""
        try:
            yield
        except FileNotFoundError as error:  # KAFKA-15391
            if not self._abandoned:
                raise self.directory.fail(error) from error
        except OSError as error:
            raise self.directory.fail(error) from error

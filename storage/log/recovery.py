"""Opens a partition folder after any stop (docs/log.md; Kafka: ``LogLoader``).

The steps and their order are Kafka's: settle the cleaner's leftovers, load the segments, scan those
above the recovery point if the stop was not clean, cut at the first damaged batch and drop the
rest. Every step can be interrupted and repeated. A segment keeps a prefix of the bytes that were
written to it.
"""

import logging
import uuid
from bisect import bisect_right
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from siltstone.config.topic import TopicConfig
from siltstone.protocol.errors import CorruptMessage
from siltstone.storage import files
from siltstone.storage.directory.checkpoint import MalformedCheckpoint
from siltstone.storage.directory.log_directory import LogDirectory
from siltstone.storage.directory.partition_metadata import PartitionMetadata
from siltstone.storage.files import SegmentName
from siltstone.storage.log import leftovers
from siltstone.storage.log.epochs import EpochStart, LeaderEpochs
from siltstone.storage.log.producer_recovery import rebuild_producers, write_snapshot
from siltstone.storage.producers.entry import NO_LIMIT
from siltstone.storage.producers.state import ProducerStateManager
from siltstone.storage.segment.index import MAX_RELATIVE_OFFSET
from siltstone.storage.segment.open_file import OpenFiles
from siltstone.storage.segment.segment import LogSegment
from siltstone.storage.topic_partition import TopicPartition

UNKNOWN_TOPIC_ID = uuid.UUID(int=0)
"""The topic id of a folder without a valid ``partition.metadata`` (Kafka's ``ZERO_UUID``)."""

FIRST_EPOCH = 0
"""The leader epoch of a new partition. Nothing raises it: the only replica is never fenced."""

_logger = logging.getLogger(__name__)


class LoadStopped(Exception):  # noqa: N818  # no error: a stop has asked for it
    """The broker was told to stop before all logs were open."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionFolder:
    """A folder to open, and the facts that the log directory knows about it.

    ``open_files`` keeps files open for reading, for all logs. ``is_clean`` says that a clean stop
    closed the log. A folder without a recovery point came from elsewhere, and is scanned even after
    a clean stop.
    """

    topic_partition: TopicPartition
    directory: LogDirectory
    path: Path
    config: TopicConfig
    open_files: OpenFiles
    producer_expiration_ms: int
    max_producers: int = NO_LIMIT
    is_clean: bool = False
    recovery_point: int = 0
    log_start_offset: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadedPartition:
    """The parts from which a `storage.log.log.Log` is built."""

    folder: PartitionFolder
    topic_id: uuid.UUID
    segments: tuple[LogSegment, ...]
    epochs: LeaderEpochs
    producers: ProducerStateManager
    log_start_offset: int
    log_end_offset: int
    recovery_point: int


def create_partition(folder: PartitionFolder, topic_id: uuid.UUID, now_ms: int) -> LoadedPartition:
    """Create a partition's folder with the topic's id, before its first record. Blocks.

    The leader epoch is in memory only; the caller writes its file. Without the file, recovery reads
    the epoch from the batches.

    Raises:
        OSError: The folder cannot be written.
    """
    files.create_folder(folder.path)
    PartitionMetadata(topic_id=topic_id).write(folder.path)
    epochs = LeaderEpochs(folder.path)
    epochs.assign(FIRST_EPOCH, 0, write=False)
    segment = LogSegment(
        folder.path, 0, folder.config, now_ms=now_ms, open_files=folder.open_files
    ).create()
    return LoadedPartition(
        folder=folder,
        topic_id=topic_id,
        segments=(segment,),
        epochs=epochs,
        producers=_new_producers(folder),
        log_start_offset=0,
        log_end_offset=0,
        recovery_point=0,
    )


def never() -> bool:
    """Return false: nobody asks for a stop."""
    return False


def load_partition(
    folder: PartitionFolder, now_ms: int, is_stopped: Callable[[], bool] = never
) -> LoadedPartition:
    """Open a partition folder; how much is scanned depends on ``is_clean``. Blocks.

    Raises:
        OSError: The folder cannot be read or repaired.
        LoadStopped: ``is_stopped`` said so before a segment was scanned.
        KafkaError: The folder has bytes that no broker writes. Other exceptions may mean the same.
    """
    return _Loading(folder, now_ms, is_stopped).run()


@dataclass(slots=True)
class _Loading:
    """The state of one load; the methods are its steps, in the order in which `run` calls them."""

    folder: PartitionFolder
    now_ms: int
    is_stopped: Callable[[], bool]
    names: list[SegmentName] = field(default_factory=list)
    segments: list[LogSegment] = field(default_factory=list)
    damage: dict[int, str] = field(default_factory=dict)  # keys are indexes of segments
    epochs: LeaderEpochs = field(init=False)
    epochs_on_disk: tuple[EpochStart, ...] = ()
    producers: ProducerStateManager | None = None  # the producers as the last scan left them
    bytes_cut: int = 0
    end_offset: int | None = None  # None until it is known

    def run(self) -> LoadedPartition:
        folder = self.folder
        self.names = leftovers.settle(folder.path, folder.config)
        self._load_segments()
        self.epochs = self._load_epochs()
        self._rebuild_damaged()
        self._scan_unflushed()
        end_offset = self.end_offset
        if end_offset is None:
            end_offset = self.segments[-1].next_offset() if self.segments else 0
        if end_offset > files.MAX_OFFSET:
            raise CorruptMessage(f"its last batch ends at offset {end_offset}")
        if not self.segments or end_offset < folder.log_start_offset:
            end_offset = max(end_offset, folder.log_start_offset)
            self._start_over(end_offset)
        log_start_offset = max(folder.log_start_offset, self.segments[0].base_offset)
        self._settle_epochs(log_start_offset, end_offset)
        producers = self._settle_producers(log_start_offset, end_offset)
        is_clean = folder.is_clean and not self.bytes_cut
        # The changes that a scan made to the last segment are not on the disk yet.
        flushed = max(self.segments[-1].base_offset, end_offset - 1)
        return LoadedPartition(
            folder=folder,
            topic_id=find_topic_id(folder.path),
            segments=tuple(self.segments),
            epochs=self.epochs,
            producers=producers,
            log_start_offset=log_start_offset,
            log_end_offset=end_offset,
            recovery_point=end_offset if is_clean else min(folder.recovery_point, flushed),
        )

    def _load_segments(self) -> None:
        """Open the segments in the order of their offsets, and note which have to be scanned.

        Kafka scans a segment without an offset index, and leaves a missing time index empty. Here a
        segment is scanned if either is missing. The end of the last segment is checked, since the
        next append goes there.
        """
        kinds: dict[int, set[str]] = {}
        for name in self.names:
            if name.kind != files.SNAPSHOT:
                kinds.setdefault(name.base_offset, set()).add(name.kind)
        path, config = self.folder.path, self.folder.config
        for base_offset in sorted(kinds):
            present = kinds[base_offset]
            if files.LOG not in present:
                for kind in sorted(present):
                    files.unlink(path / files.segment_file_name(base_offset, kind))
                continue
            segment = LogSegment(
                path, base_offset, config, now_ms=self.now_ms, open_files=self.folder.open_files
            ).load()
            if self._is_overtaken(segment):
                self._delete(segment, "it is empty and begins inside the one before")
                continue
            missing = {files.INDEX, files.TIME_INDEX} - present
            if missing:
                self.damage[len(self.segments)] = f"{min(missing)} is missing"
            elif files.TRANSACTION_INDEX in present:
                self._note_damage(len(self.segments), segment.find_damage())
            self.segments.append(segment)
        if self.segments and self.folder.is_clean and len(self.segments) - 1 not in self.damage:
            self._walk_tail(self.segments[-1])

    def _is_overtaken(self, segment: LogSegment) -> bool:
        """Tell whether a segment is empty and the segment before has records from its base on.

        A roll that failed may have left the empty segment, or a power failure may have undone its
        removal. If it stayed, it would hide those records.
        """
        if segment.size or not self.segments:
            return False
        before = self.segments[-1]
        try:
            is_overtaken = before.find(segment.base_offset) >= 0
        except CorruptMessage:
            return False  # the segment before is damaged: a scan ends the log there
        if before.has_damaged_index:
            self._note_damage(len(self.segments) - 1, "its offset index is damaged")
        return is_overtaken

    def _walk_tail(self, segment: LogSegment) -> None:
        """Find the log end offset; note damage if other bytes than batches come before it."""
        end = segment.start_before(segment.base_offset + MAX_RELATIVE_OFFSET)
        end_offset = segment.base_offset
        if segment.has_damaged_index:
            self._note_damage(len(self.segments) - 1, "its offset index is damaged")
            return
        try:
            for position, header in segment.batches(end):
                end, end_offset = position + header.size, header.next_offset
        except CorruptMessage as error:
            self._note_damage(len(self.segments) - 1, str(error))
            return
        if end == segment.size:
            self.end_offset = end_offset
        else:
            self._note_damage(len(self.segments) - 1, f"its last batch ends at {end}")

    def _note_damage(self, index: int, damage: str | None) -> None:
        if damage is not None:
            self.damage.setdefault(index, damage)

    def _load_epochs(self) -> LeaderEpochs:
        """Read the leader epochs; if their file is lost, read them from the flushed batches.

        The epochs of the batches that are not flushed are added by their scan.
        """
        try:
            epochs = LeaderEpochs.load(self.folder.path)
        except MalformedCheckpoint as error:
            _logger.warning("leader epochs are taken from the batches error=%s", error)
            epochs = LeaderEpochs(self.folder.path)
        self.epochs_on_disk = epochs.entries
        if not epochs.entries:
            for segment in self.segments[: self._first_unflushed()]:
                self._note_epochs(epochs, segment)
        return epochs

    @staticmethod
    def _note_epochs(epochs: LeaderEpochs, segment: LogSegment) -> None:
        """Note the epochs of a flushed segment, up to the first damage."""
        try:
            for _, header in segment.batches():
                epochs.assign(max(0, header.leader_epoch), header.base_offset, write=False)
        except CorruptMessage as error:
            _logger.warning("leader epochs behind a damaged batch are not known error=%s", error)

    def _rebuild_damaged(self) -> None:
        """Scan damaged segments below the recovery point; the segments after them stay."""
        first_unflushed = self._first_unflushed()
        for index, damage in sorted(self.damage.items()):
            if index >= first_unflushed:
                continue
            segment = self.segments[index]
            _logger.warning("segment is scanned file=%s reason=%r", segment.log_path, damage)
            self._check_stop()
            producers = self._producers_at(segment.base_offset)
            self._note_cut(segment, segment.recover(producers, self.epochs.note, durably=True))

    def _check_stop(self) -> None:
        if self.is_stopped():
            raise LoadStopped

    def _scan_unflushed(self) -> None:
        """Scan from the recovery point on; the first damage ends the log."""
        first = self._first_unflushed()
        if first == len(self.segments):
            return
        producers = self._producers_at(self.segments[first].base_offset)
        for index in range(first, len(self.segments)):
            self._check_stop()
            segment = self.segments[index]
            drop_rest = partial(self._drop_behind_damage, index + 1)
            bytes_cut = segment.recover(producers, self.epochs.note, drop_rest)
            self._note_cut(segment, bytes_cut)
            if self.folder.directory.must_rewrite:
                files.write_again(segment.log_path)
            if bytes_cut:
                break
            if index + 1 < len(self.segments):
                following = self.segments[index + 1].base_offset
                self._report_gap(producers.map_end_offset, following)
                write_snapshot(producers, following, fsync=True)
        self.producers = producers

    def _report_gap(self, end_offset: int, following: int) -> None:
        """Report a gap between two segments that is not due to compaction: a disk lost records.

        Each segment alone is sound, and the records after the gap were acknowledged, so they stay,
        as in Kafka.
        """
        if end_offset < following and not self.folder.config.is_compacted:
            _logger.warning(
                "records are missing between two segments partition=%s first=%d last=%d",
                self.folder.topic_partition,
                end_offset,
                following - 1,
            )

    def _first_unflushed(self) -> int:
        """Return the index of the first segment that may have bytes which were not flushed."""
        if self.folder.is_clean:
            return len(self.segments)
        bases = [segment.base_offset for segment in self.segments]
        return max(0, bisect_right(bases, self.folder.recovery_point) - 1)

    def _note_cut(self, segment: LogSegment, bytes_cut: int) -> None:
        self.bytes_cut += bytes_cut
        if bytes_cut:
            _logger.warning(
                "damaged end of a segment is cut file=%s bytes=%d size=%d",
                segment.log_path,
                bytes_cut,
                segment.size,
            )

    def _drop_from(self, index: int, reason: str) -> None:
        """Delete the segments from ``index`` on."""
        for segment in self.segments[index:]:
            self._delete(segment, reason)
        del self.segments[index:]

    def _drop_behind_damage(self, index: int) -> None:
        """Delete the segments from ``index`` on, durably.

        If the start fails before the damage is cut, the next start must find the damage again and
        end the log there. Once the damage is cut, no power failure may bring the deleted segments
        back.
        """
        if index < len(self.segments):
            self._drop_from(index, "it follows damaged bytes")
            files.fsync_directory(self.folder.path)

    @staticmethod
    def _delete(segment: LogSegment, reason: str) -> None:
        _logger.warning(
            "segment is deleted file=%s bytes=%d reason=%r", segment.log_path, segment.size, reason
        )
        segment.files.unlink()

    def _start_over(self, offset: int) -> None:
        """Begin again at ``offset``: the log is empty, or ends below its log start offset.

        The new segment is durable, since from now on only its name tells the offset.
        """
        self._drop_from(0, f"the log ends below its log start offset {offset}")
        self.epochs.clear()
        self.producers = _new_producers(self.folder)
        self.producers.scan_snapshots()
        self.producers.truncate_fully(offset)
        folder = self.folder
        segment = LogSegment(
            folder.path, offset, folder.config, now_ms=self.now_ms, open_files=folder.open_files
        ).create()
        self.segments = [segment]
        files.fsync_directory(self.folder.path)

    def _settle_epochs(self, log_start_offset: int, end_offset: int) -> None:
        """Keep the epochs that the log still has, and ensure one for the next append.

        An epoch that begins at the log end offset stays. Kafka drops it, and adds it again when the
        partition gets its leader. Here the file of an empty partition is not written at each start.
        """
        self.epochs.truncate_end(end_offset + 1, write=False)
        self.epochs.truncate_start(log_start_offset, write=False)
        if not self.epochs.entries:
            self.epochs.assign(FIRST_EPOCH, end_offset, write=False)
        if self.epochs.entries != self.epochs_on_disk:
            self.epochs.flush()

    def _settle_producers(self, log_start_offset: int, end_offset: int) -> ProducerStateManager:
        """Return the producers at the log end offset, with a snapshot of them."""
        producers = self.producers
        if producers is None:
            producers = self._producers_at(end_offset, log_start_offset)
        producers.remove_stray_snapshots({segment.base_offset for segment in self.segments})
        if end_offset > log_start_offset:
            is_base = end_offset == self.segments[-1].base_offset  # and stays as long as that
            write_snapshot(producers, end_offset, fsync=is_base)
        producers.map_end_offset = end_offset
        return producers

    def _producers_at(self, offset: int, log_start_offset: int = 0) -> ProducerStateManager:
        """Return the producers as of ``offset``, from a snapshot and the batches after that."""
        producers = _new_producers(self.folder)
        producers.scan_snapshots(
            name.base_offset for name in self.names if name.kind == files.SNAPSHOT
        )
        rebuild_producers(
            producers,
            self.segments,
            max(log_start_offset, self.folder.log_start_offset),
            offset,
            self.now_ms,
        )
        return producers


def _new_producers(folder: PartitionFolder) -> ProducerStateManager:
    return ProducerStateManager(
        folder.path,
        folder.topic_partition,
        expiration_ms=folder.producer_expiration_ms,
        max_count=folder.max_producers,
    )


def find_topic_id(path: Path) -> uuid.UUID:
    """Return the id in ``partition.metadata``, `UNKNOWN_TOPIC_ID` without a valid one."""
    try:
        metadata = PartitionMetadata.read(path)
    except MalformedCheckpoint as error:
        _logger.warning("partition has no valid topic id error=%s", error)
        return UNKNOWN_TOPIC_ID
    return UNKNOWN_TOPIC_ID if metadata is None else metadata.topic_id

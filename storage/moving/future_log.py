"""The copy of a partition that grows in another log directory, to take its place (KIP-113).

Kafka's future replica fetches the batches that it lacks. Here the segment files are copied as they
are, in slices of whole batches, so that offsets, positions and indexes stay valid. The name of the
copy's folder ends in ``-future``.
"""

from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Final

from siltstone.storage import files
from siltstone.storage.directory.log_directory import LogDirectory
from siltstone.storage.directory.partition_metadata import PartitionMetadata
from siltstone.storage.log.epochs import LeaderEpochs
from siltstone.storage.log.log import Log
from siltstone.storage.moving.file_copy import reading_source
from siltstone.storage.moving.segment_copy import SegmentCopy
from siltstone.storage.segment.segment import LogSegment, LogView
from siltstone.storage.topic_partition import (
    MAX_FOLDER_NAME,
    FolderState,
    TopicPartition,
    folder_name,
)

NEAR_BYTES: Final = 1 << 20
"""When a copy is at most so far behind the end of the log, it is settled."""

_UNIQUE_ID_LENGTH = 32


class MoveCancelled(Exception):  # noqa: N818  # what happened, not a fault
    """The copy is no longer wanted."""


class FutureLog:
    """A copy under way. After a restart the part that is a prefix of the log is used again.

    One thread at a time copies. The event loop reads the figures, cancels, and calls `take_over`
    while no thread copies. ``book`` is called with the number of bytes before
    they are copied; it waits as the throttle demands and meanwhile checks whether the copy is still
    wanted.

    If a crash comes before the folder gets its final name, the log is still the old folder. After
    that the copy is the log, and the folder of the same name in the old directory is not. The file
    `files.MOVED` marks the copy; the copy has it from its creation until the old folder is gone.
    """

    def __init__(
        self,
        log: Log,
        directory: LogDirectory,
        path: Path,
        book: Callable[[int, Callable[[], None]], object] = lambda _, still_wanted: still_wanted(),
    ) -> None:
        self.topic_partition: TopicPartition = log.topic_partition
        self.log = log
        self.source = log.directory
        self.directory = directory
        self.path = path
        self.final_path = directory.path / folder_name(log.topic_partition)
        self.size = 0  # bytes copied
        self.end_offset = log.segments[0].base_offset  # the end of the copied part, exclusive
        self.recovery_point = 0  # the offset below which the copy is on the disk
        self.is_cancelled = False
        self._book = book
        self._copies: dict[LogSegment, SegmentCopy] = {}
        self._snapshots: set[int] = set()

    @property
    def segments(self) -> tuple[LogSegment, ...]:
        """Return the segments of the log; the copy has the same bases."""
        return self.log.segments

    @property
    def has_old_names(self) -> bool:
        """Tell as the log does; at the same start the copy has no other segments."""
        return self.log.has_old_names

    @property
    def log_start_offset(self) -> int:
        """Return the first offset that can be read."""
        return self.log.log_start_offset

    @property
    def high_watermark(self) -> int:
        """Return the end offset of the copied part."""
        return self.end_offset

    @property
    def lag(self) -> int:
        """Return how many offsets the copy is behind; 0 once it has taken over."""
        return 0 if self.has_taken_over else max(0, self.log.log_end_offset - self.end_offset)

    @property
    def has_taken_over(self) -> bool:
        """Tell whether the copy is the log already; the old folder may still exist."""
        return self.log.directory is self.directory

    def cancel(self) -> None:
        """Stop the copy at its next check."""
        self.is_cancelled = True

    def check(self) -> None:
        """Check that the copy is still wanted and possible.

        Raises:
            MoveCancelled: The copy is no longer wanted, or the log is closed.
            KafkaStorageError: The log's directory failed, or the copy's directory refuses writes.
        """
        if self.is_cancelled or self.log.is_closed:
            raise MoveCancelled
        if self.source.failure is not None:
            raise self.source.refuse()
        if self.directory.client_refusal is not None:
            raise self.directory.refuse()

    def create(self) -> None:
        """Create the folder, or continue in the folder of an interrupted copy. Blocks.

        Raises:
            OSError: The disk refuses it.
        """
        files.create_folder(self.path)
        files.replace_file(self.path / files.MOVED, b"")
        PartitionMetadata(topic_id=self.log.topic_id).write(self.path)
        self._remove_strangers()

    def copy(self) -> None:
        """Copy until the end of the log is near. Blocks for as long as that takes.

        Raises:
            MoveCancelled: The copy is no longer wanted.
            OSError: A disk failed; `storage.moving.file_copy.SourceUnreadable` if the disk of the
                log failed.
            CorruptMessage: The log is damaged.
            KafkaStorageError: A directory failed meanwhile.
        """
        self.check()
        while self._missing_bytes(self.log.view) > NEAR_BYTES or not self._copies:
            self._copy_up_to(self.log.view, lambda count: self._book(count, self.check))
        for copy in self._copies.values():
            if not copy.is_finished:
                copy.sync()  # so that little is left to fsync while flushes wait

    def settle(self) -> None:
        """Copy and fsync everything up to the end of the log. Blocks.

        The caller holds the flushes of the log, so that everything that is durable in the log is
        also durable in the copy. There is no throttle, since little is left.

        Raises:
            MoveCancelled, OSError, CorruptMessage, KafkaStorageError: As `copy` does.
        """
        view = self.log.view
        self._copy_up_to(view, lambda _: None)
        self._copies[view[1][-1]].sync()
        self._copy_snapshots()
        LeaderEpochs(self.path, self.log.epochs.entries).flush()
        files.fsync_directory(self.path)
        self.recovery_point = view[0]

    def take_over(self, max_bytes: int) -> bool:
        """Become the log, unless the log has changed too much since the copy was settled.

        For the event loop, with flushes held. This copies the bytes that the copy lacks, at most
        ``max_bytes``; if the copy has segments that the log has deleted, it cannot take over yet.

        Raises:
            OSError: The disk refused it; the log is as it was.
        """
        log = self.log
        with log.lock:
            view = log.view
            has_strangers = not self._copies.keys() <= set(view[1])  # a start would find them
            if has_strangers or self._missing_bytes(view) > max_bytes:
                return False
            twins = self._hand_over(view)
            files.rename(self.path, self.final_path)  # from here on a start uses the copy
            log.move(self.directory, self.final_path, twins, self.recovery_point)
        return True

    def _hand_over(self, view: LogView) -> tuple[LogSegment, ...]:
        """Copy what is missing, and return the segments for readers and appends."""
        end_offset, segments, end_position = view
        twins = []
        for segment, following in pairwise(segments):
            copy = self._copy_of(segment)
            if not copy.is_finished:  # closed since then: flush its last entries
                self.recovery_point = min(self.recovery_point, following.base_offset - 1)
            twins.append(copy.hand_over(segment.size, is_active=False))
        last = self._copy_of(segments[-1], is_active=True)
        twins.append(last.hand_over(end_position, is_active=True))
        self.end_offset = end_offset
        return tuple(twins)

    def forget_source(self) -> None:
        """Close the old files, now that the copy has taken over."""
        for copy in self._copies.values():
            copy.forget_source()

    def _copy_up_to(self, view: LogView, book: Callable[[int], object]) -> None:
        end_offset, segments, end_position = view
        for gone in self._copies.keys() - set(segments):
            copy = self._copies.pop(gone)
            self.size -= copy.position
            copy.remove()
        for number, segment in enumerate(segments, 1):
            is_active = number == len(segments)
            copy = self._copy_of(segment, is_active=is_active)
            limit = end_position if is_active else segment.size
            while copy.position < limit:
                self.check()
                self.size += copy.grow(limit, book)
                self.end_offset = copy.next_offset
            if not is_active and not copy.is_finished:
                copy.finish()
                self.recovery_point = segments[number].base_offset
        self.end_offset = end_offset

    def _copy_of(self, segment: LogSegment, *, is_active: bool = False) -> SegmentCopy:
        copy = self._copies.get(segment)
        if copy is None:
            copy = SegmentCopy(segment, self.path, self.final_path, is_active=is_active)
            self._copies[segment] = copy
            self.size += copy.position
        return copy

    def _missing_bytes(self, view: LogView) -> int:
        """Return the bytes that are not copied yet."""
        _, segments, end_position = view
        copied = sum(copy.position for copy in map(self._copies.get, segments) if copy is not None)
        return sum(segment.size for segment in segments[:-1]) + end_position - copied

    def _copy_snapshots(self) -> None:
        for offset in self.log.producers.snapshots:
            if offset not in self._snapshots:
                name = files.segment_file_name(offset, files.SNAPSHOT)
                with reading_source():
                    try:
                        data = files.read_bytes(self.log.path / name)
                    except FileNotFoundError:
                        continue  # the file is written neither in the log nor in the copy yet
                files.replace_file(self.path / name, data)
                self._snapshots.add(offset)

    def _remove_strangers(self) -> None:
        """Delete the files of an earlier copy whose segments the log does not have.

        A copy that Kafka began has other segments; it begins again from the start.
        """
        bases = {segment.base_offset for segment in self.log.segments}
        for name in files.list_names(self.path):
            parsed = files.parse_name(name)
            if parsed is not None and (
                parsed.suffix or parsed.kind == files.SNAPSHOT or parsed.base_offset not in bases
            ):
                files.unlink(self.path / name)


def has_room_for_name(topic_partition: TopicPartition) -> bool:
    """Tell whether the topic's whole name fits into the name of a copy's folder (KAFKA-4893)."""
    marks = 1 + _UNIQUE_ID_LENGTH + len(FolderState.FUTURE)
    return len(str(topic_partition)) + marks <= MAX_FOLDER_NAME

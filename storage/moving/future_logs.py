"""The copies under way, and the folders that are left when they end (Kafka: ``LogManager``)."""

import logging
from collections.abc import Callable, Container, Iterable
from pathlib import Path
from uuid import UUID

from siltstone.storage import files
from siltstone.storage.directory.found_folders import FoundFolder
from siltstone.storage.directory.log_directory import LogDirError
from siltstone.storage.directory.placement import Placement
from siltstone.storage.log.recovery import find_topic_id
from siltstone.storage.moving.future_log import FutureLog
from siltstone.storage.randomness import random_id
from siltstone.storage.topic_partition import FolderState, TopicPartition, folder_name

_logger = logging.getLogger(__name__)


class FutureLogs:
    """The copies, at most one for each partition. Only the loop calls methods that do not block.

    The old folder of a partition is renamed only when the copy's new name is on the disk, and the
    mark is deleted after that. So a start finds either one folder, or two folders and the mark.
    """

    def __init__(self, placement: Placement, schedule_removal: Callable[[Path], None]) -> None:
        self.under_way: dict[TopicPartition, FutureLog] = {}
        self.found: tuple[FoundFolder, ...] = ()  # constant after load: interrupted copies
        self._left: dict[Path, TopicPartition] = {}
        self._placement = placement
        self._schedule_removal = schedule_removal

    @property
    def copies(self) -> list[FutureLog]:
        """Return the copies that have not taken over yet. Any thread may call."""
        return [each for each in list(self.under_way.values()) if not each.has_taken_over]

    def begin(self, future: FutureLog) -> None:
        """Count a copy among the partitions of its directory, and in its checkpoints."""
        self.under_way[future.topic_partition] = future
        self._placement.add(future.directory)

    def end(self, future: FutureLog) -> None:
        """Stop counting a copy: it has taken over, or was given up."""
        del self.under_way[future.topic_partition]
        self._placement.add(future.source if future.has_taken_over else future.directory, -1)

    def note_source(self, future: FutureLog) -> None:
        """Note that a log has moved; its old folder exists until `remove_source`."""
        self._left.pop(future.final_path, None)  # an earlier folder, which was moved away
        self._left[_source_of(future)] = future.topic_partition

    @property
    def sources(self) -> list[TopicPartition]:
        """Return the partitions of which an old folder is left for a start to delete."""
        return list(self._left.values())

    def forget_sources(self, topic_partition: TopicPartition) -> None:
        """Forget the old folders of a partition, since none exists any more."""
        for path, each in list(self._left.items()):
            if each == topic_partition:
                del self._left[path]

    def remove_source(self, future: FutureLog) -> None:
        """Delete the old folder of a log that has moved. Blocks; if it fails, a start deletes it.

        Raises:
            OSError: Its directory does not allow it.
        """
        path = _source_of(future)
        with future.log.names.changing():  # a pin may be linking the files under their old names
            self._doom(path, future.topic_partition)
        del self._left[path]
        future.forget_source()
        if future.topic_partition in self.sources:  # an earlier folder: a start needs the mark
            return
        files.unlink(future.final_path / files.MOVED)
        files.fsync_directory(future.final_path)

    def remove(self, path: Path, topic_partition: TopicPartition, *, at_once: bool = False) -> None:
        """Delete the folder of a copy that was given up, after the delay of deletions. Blocks.

        Raises:
            OSError: Its directory does not allow it.
        """
        if at_once:
            files.remove_folder(path)
        elif files.exists(path):
            self._doom(path, topic_partition)

    def remove_deleted(self, topic_ids: Container[UUID]) -> None:
        """Delete interrupted copies of topics that are being deleted. Blocks.

        Raises:
            OSError: A directory does not allow it.
        """
        deleted = [each for each in self.found if find_topic_id(each.path) in topic_ids]
        for each in deleted:
            self.remove(each.path, each.topic_partition)
        self.found = tuple(each for each in self.found if each not in deleted)

    def leave(self, left: Iterable[FoundFolder]) -> None:
        """Delete folders of partitions that had been moved when the broker was killed. Blocks.

        Raises:
            LogDirError: A directory does not allow it.
        """
        for folder in left:
            _logger.info("folder of a partition that was moved goes folder=%s", folder.path)
            try:
                self._doom(folder.path, folder.topic_partition)
            except OSError as error:
                raise LogDirError(
                    f"folder {folder.path} of a partition that was moved to another log directory "
                    f"cannot be renamed ({error}); check the disk"
                ) from error

    def _doom(self, path: Path, topic_partition: TopicPartition) -> None:
        gone = path.with_name(folder_name(topic_partition, FolderState.DELETE, random_id()))
        files.rename(path, gone)
        files.fsync_directory(path.parent)
        self._schedule_removal(gone)


def _source_of(future: FutureLog) -> Path:
    return future.source.path / folder_name(future.topic_partition)

"""Finds the partition folders of the log directories when the broker starts."""

import logging
import stat
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from siltstone.storage import files
from siltstone.storage.directory.log_directory import LogDirectory, LogDirError
from siltstone.storage.files import disk
from siltstone.storage.topic_partition import FolderState, TopicPartition, parse_folder

_KRAFT_METADATA = TopicPartition("__cluster_metadata", 0)
_NOT_OURS = frozenset({"remote-log-index-cache", "lost+found"})

_logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class FoundFolder:
    """A folder with the name of a partition."""

    topic_partition: TopicPartition
    directory: LogDirectory
    path: Path


@dataclass(frozen=True, slots=True)
class FoundFolders:
    """The folders in the log directories: partitions, and partitions whose deletion had begun.

    ``futures`` are unfinished copies for another directory. ``left`` are folders of partitions
    whose copy in another directory has taken over; these folders will be deleted.
    """

    live: dict[TopicPartition, FoundFolder] = field(default_factory=dict)
    futures: list[FoundFolder] = field(default_factory=list)
    left: list[FoundFolder] = field(default_factory=list)
    doomed: list[Path] = field(default_factory=list)


def find_folders(directories: Sequence[LogDirectory]) -> FoundFolders:
    """List the partition folders; other folders are logged and left alone. Blocks.

    Kafka refuses to start if there is a folder whose name it does not understand.

    Raises:
        LogDirError: A directory cannot be listed, or two of them hold the same partition.
    """
    found = FoundFolders()
    for directory in directories:
        try:
            kinds = disk.scan(directory.path)
        except OSError as error:
            raise LogDirError(
                f"log directory {directory.path} cannot be listed ({error}); check the disk"
            ) from error
        for name in sorted(kinds):
            if kinds[name] in {stat.S_IFDIR, stat.S_IFLNK}:
                _note(found, directory, name)
    return found


def _note(found: FoundFolders, directory: LogDirectory, name: str) -> None:
    """Add one folder to the list to which its name belongs."""
    path = directory.path / name
    try:
        topic_partition, state = parse_folder(name)
    except ValueError:
        # A folder whose name begins with a dot, such as the probe's, belongs to no topic.
        if name not in _NOT_OURS and not name.startswith("."):
            _logger.warning("folder is left alone: it is no partition's folder=%s", path)
        return
    if state is not FolderState.LIVE and files.is_link(path):
        _logger.warning("folder is left alone: it is a link folder=%s", path)
    elif state is FolderState.DELETE:
        found.doomed.append(path)
    elif state is FolderState.FUTURE:
        found.futures.append(FoundFolder(topic_partition, directory, path))
    elif state is not FolderState.LIVE:
        _logger.warning("folder is left alone: its name ends in %s folder=%s", state, path)
    elif topic_partition != _KRAFT_METADATA:
        folder = FoundFolder(topic_partition, directory, path)
        other = found.live.get(topic_partition)
        if other is not None:
            folder, left = _tell_apart(other, folder)
            found.left.append(left)
        found.live[topic_partition] = folder


def _tell_apart(one: FoundFolder, other: FoundFolder) -> tuple[FoundFolder, FoundFolder]:
    """Sort two folders of one partition: first the one that has taken over, then the old one."""
    moved = find_moved(one.topic_partition, one.path, other.path)
    return (one, other) if moved is one.path else (other, one)


def find_moved(topic_partition: TopicPartition, one: Path, other: Path) -> Path:
    """Return which of two folders of one partition has taken over.

    Raises:
        LogDirError: No mark says it.
    """
    moved = [each for each in (one, other) if files.exists(each / files.MOVED)]
    if len(moved) != 1:
        raise LogDirError(
            f"partition {topic_partition} is in two log directories, {one} and {other}; move one "
            "of them away"
        )
    return moved[0]

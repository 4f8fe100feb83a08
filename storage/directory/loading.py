"""Finding and opening the partition folders of the log directories when the broker starts."""

import errno
import logging
import os
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from uuid import UUID

from siltstone.protocol.errors import KafkaError
from siltstone.storage import files
from siltstone.storage.directory.log_directory import LogDirectory, LogDirError, remedy_for
from siltstone.storage.log.recovery import (
    UNKNOWN_TOPIC_ID,
    LoadedPartition,
    PartitionFolder,
    find_topic_id,
    load_partition,
)
from siltstone.storage.segment.scan import LegacyFormatError
from siltstone.storage.topic_partition import FolderState, TopicPartition, parse_folder

_KRAFT_METADATA = TopicPartition("__cluster_metadata", 0)
_NOT_OURS = frozenset({"remote-log-index-cache", "lost+found"})

# The errors of a folder that contains something else than its names say.
_WRONG_KIND = frozenset(
    {
        errno.EFBIG,
        errno.EINVAL,
        errno.EISDIR,
        errno.ELOOP,
        errno.ENOENT,
        errno.ENOTDIR,
        errno.ENXIO,
        errno.ESPIPE,
    }
)

_logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class FoundFolder:
    """A folder with the name of a partition."""

    topic_partition: TopicPartition
    directory: LogDirectory
    path: Path


@dataclass(frozen=True, slots=True)
class SetAside:
    """A partition that is not served, since no broker writes what its folder has; the reason."""

    folder: PartitionFolder
    topic_id: UUID
    reason: str

    @property
    def path(self) -> Path:
        """Return the folder's path."""
        return self.folder.path


@dataclass(frozen=True, slots=True)
class FoundFolders:
    """The folders in the log directories: partitions, and deletions that had begun.

    ``futures`` are unfinished copies for another directory. ``left`` are folders of partitions
    whose copy in another directory has taken over; they will be deleted.
    """

    live: dict[TopicPartition, FoundFolder] = field(default_factory=dict)
    futures: list[FoundFolder] = field(default_factory=list)
    left: list[FoundFolder] = field(default_factory=list)
    doomed: list[Path] = field(default_factory=list)


def find_folders(directories: Sequence[LogDirectory]) -> FoundFolders:
    """List the partition folders; others are logged and left alone. Blocks.

    Kafka refuses to start beside a folder whose name it does not understand.

    Raises:
        LogDirError: A directory cannot be listed, or two of them hold the same partition.
    """
    found = FoundFolders()
    for directory in directories:
        try:
            with os.scandir(directory.path) as entries:
                names = sorted(each.name for each in entries if each.is_dir() or each.is_symlink())
        except OSError as error:
            raise LogDirError(
                f"log directory {directory.path} cannot be listed ({error}); check the disk"
            ) from error
        for name in names:
            _note(found, directory, name)
    return found


def _note(found: FoundFolders, directory: LogDirectory, name: str) -> None:
    """Sort one folder in by its name."""
    path = directory.path / name
    try:
        topic_partition, state = parse_folder(name)
    except ValueError:
        # A folder whose name begins with a dot, such as the probe's, is no topic's.
        if name not in _NOT_OURS and not name.startswith("."):
            _logger.warning("folder is left alone: it is no partition's folder=%s", path)
        return
    if state is not FolderState.LIVE and path.is_symlink():
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
    """Return of two folders of a partition the one that has taken over, and the old one.

    Raises:
        LogDirError: No mark says which it is.
    """
    moved = [each for each in (one, other) if files.exists(each.path / files.MOVED)]
    if len(moved) != 1:
        raise LogDirError(
            f"partition {one.topic_partition} is in two log directories, {one.path} and "
            f"{other.path}; move one of them away"
        )
    return (one, other) if moved[0] is one else (other, one)


def load_folders(
    folders: Sequence[PartitionFolder], *, threads: int, now_ms: int
) -> list[LoadedPartition | SetAside]:
    """Open partitions, ``threads`` of each directory at a time. Blocks.

    Several threads help after a crash, when they wait for the disk or run compiled code. A clean
    start is Python's work; one thread is enough.

    A partition that is damaged in a way that no start can mend is set aside: it is not served, and
    the others are.

    Raises:
        LogDirError: The disk does not let a partition be opened.
    """
    queues: dict[Path, list[PartitionFolder]] = {}
    for folder in folders:
        queues.setdefault(folder.directory.path, []).append(folder)
    workers = [
        iterator
        for group in queues.values()
        for iterator in [iter(group)] * (1 if group[0].directory.was_clean else threads)
    ]
    if len(workers) <= 1:
        return [loaded for worker in workers for loaded in _load_from(worker, now_ms)]
    with ThreadPoolExecutor(len(workers), thread_name_prefix="recovery") as pool:
        loads = [pool.submit(_load_from, worker, now_ms) for worker in workers]
        return [loaded for load in loads for loaded in load.result()]


def _load_from(folders: Iterator[PartitionFolder], now_ms: int) -> list[LoadedPartition | SetAside]:
    """Open partitions from an iterator that several threads share."""
    return [_load(folder, now_ms) for folder in folders]


def set_aside(folder: PartitionFolder, error: Exception) -> SetAside:
    """Log in one line that a partition is not served, and why."""
    reason = error.message if isinstance(error, KafkaError) else f"{type(error).__name__}: {error}"
    _logger.error(
        "partition is set aside and not served, the others are: look at it with siltstone "
        "dump-log, mend it or move it away, and restart folder=%s reason=%r",
        folder.path,
        reason,
    )
    try:
        topic_id = find_topic_id(folder.path)
    except OSError:
        topic_id = UNKNOWN_TOPIC_ID
    return SetAside(folder, topic_id, reason)


def _load(folder: PartitionFolder, now_ms: int) -> LoadedPartition | SetAside:
    try:
        return load_partition(folder, now_ms)
    except OSError as error:
        if isinstance(error, LegacyFormatError) or error.errno in _WRONG_KIND:
            return set_aside(folder, error)
        remedy = remedy_for(error) or "check the disk and the rights, or move the folder away"
        raise LogDirError(
            f"partition folder {folder.path} cannot be opened ({error}); {remedy}"
        ) from error
    except Exception as error:  # noqa: BLE001  # no content of a folder may stop the others
        return set_aside(folder, error)

"""Opens the log directories at the start: locks, identities, marks of the last stop."""

import os
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from siltstone.protocol.names import uuid_text
from siltstone.storage import files
from siltstone.storage.directory import clean_shutdown
from siltstone.storage.directory.checkpoint import MalformedCheckpoint
from siltstone.storage.directory.lock import DirectoryLock, DirectoryLocked
from siltstone.storage.directory.log_directory import LogDirectory, LogDirError
from siltstone.storage.directory.meta_properties import MetaProperties
from siltstone.storage.files import disk
from siltstone.storage.randomness import random_id
from siltstone.storage.topic_partition import FolderState, TopicPartition, parse_folder


def open_directories(
    paths: Sequence[Path], node_id: int, now_ms: int, *, cluster_id: str | None = None
) -> tuple[tuple[LogDirectory, ...], str]:
    """Lock the directories, and return them with the id of the cluster that they belong to. Blocks.

    A directory without ``meta.properties`` is new and gets the cluster id of the others. If all are
    new, they get ``cluster_id``, or a random one. A directory must not have another cluster id. The
    marks of a clean stop stay until `take_marks`: a start that ends before it loads a log has
    changed no log.

    Raises:
        LogDirError: The text has a line for every fault; nothing is locked then.
    """
    found: list[_Locked] = []
    try:
        _report(_lock_all(paths, found))
        known = _read_identities(paths)
        agreed = _agree(known, node_id, cluster_id)
        directories = tuple(
            _identify(each, known.get(each.path), agreed, node_id, now_ms) for each in found
        )
    except LogDirError:
        for each in found:
            each.lock.release()
        raise
    return directories, agreed


def find_identity_fault(paths: Iterable[Path], node_id: int, cluster_id: str | None) -> str | None:
    """Return why a start refuses the identities of directories, a line each, or None. Blocks."""
    try:
        _agree(_read_identities(paths), node_id, cluster_id)
    except LogDirError as error:
        return str(error)
    return None


def find_ids(paths: Iterable[Path]) -> dict[Path, str]:
    """Return the ids of the directories that have one. Blocks.

    Raises:
        LogDirError: An identity is damaged.
    """
    return {path: known.directory_id for path, known in _read_identities(paths).items()}


def forget_identities(directories: Iterable[LogDirectory]) -> None:
    """Delete the identities of new directories, since the start ended before it loaded a log."""
    for directory in directories:
        if directory.is_new:
            with suppress(OSError):
                files.unlink(directory.path / files.META_PROPERTIES)


def take_marks(directories: Iterable[LogDirectory]) -> None:
    """Note whether the last stop was clean, and delete its mark. Blocks.

    Raises:
        LogDirError: The disk refuses the deletion.
    """
    for directory in directories:
        try:
            is_marked = clean_shutdown.take(directory.path)
        except OSError as error:
            raise _cannot_write(directory.path, error) from error
        directory.was_clean = is_marked and not directory.must_rewrite


def find_readable(paths: Sequence[Path]) -> tuple[Path, ...]:
    """Return the log directories that exist, for commands that only read. Blocks.

    A missing directory is taken for a new one if others exist.

    Raises:
        LogDirError: No directory exists, or one is no folder or this user may not read it; the text
            has a line for each.
    """
    faults = []
    found = []
    for path in paths:
        try:
            disk.listdir(path)
        except FileNotFoundError:
            continue
        except NotADirectoryError:
            faults.append(f"log directory {path} is not a folder; choose another log.dirs")
        except OSError as error:
            faults.append(
                f"log directory {path} cannot be read ({error.strerror}); run this as the user "
                "whose it is, or choose another log.dirs"
            )
        else:
            found.append(path)
    if not found and not faults:
        missing = ", ".join(map(str, paths))
        faults.append(f"log directory {missing} does not exist; choose another log.dirs")
    _report(faults)
    return tuple(found)


def live_folders(directories: Iterable[Path]) -> Iterator[tuple[TopicPartition, Path]]:
    """Yield the partition folders that are in use, those of each directory sorted by name. Blocks.

    Folders of deleted topics and foreign folders are left out.
    """
    for directory in directories:
        for name in sorted(disk.listdir(directory)):
            with suppress(ValueError):
                folder = parse_folder(name)
                if folder.state is FolderState.LIVE and files.is_folder(directory / name):
                    yield folder.topic_partition, directory / name


def forget_failed_fsyncs(directories: Iterable[LogDirectory]) -> None:
    """Remove the marks of failed fsyncs, after everything was written again. Blocks.

    Raises:
        LogDirError: The disk still fails.
    """
    for directory in directories:
        if directory.must_rewrite:
            try:
                files.unlink(directory.path / files.FSYNC_FAILED)
                files.fsync_directory(directory.path)
            except OSError as error:
                raise _cannot_write(directory.path, error) from error


def _cannot_write(path: Path, error: OSError) -> LogDirError:
    return LogDirError(f"log directory {path} cannot be written ({error}); check the disk")


class _Locked(NamedTuple):
    """A directory that is locked; ``identity`` is its device and inode."""

    path: Path
    lock: DirectoryLock
    identity: tuple[int, int]


def _lock_all(paths: Iterable[Path], found: list[_Locked]) -> list[str]:
    """Lock the directories that can be used, add them to ``found``; return the others' faults."""
    faults = []
    for path in paths:
        try:
            found.append(_lock(path))
        except LogDirError as error:
            faults.append(str(error))
    return faults


def _lock(path: Path) -> _Locked:
    """Create a directory if only its last folder is missing, and lock it.

    Missing parent folders are not created: they mean a typing error or a disk that is not mounted.
    """
    try:
        if not files.exists(path):
            files.create_folder(path)
        elif not files.exists(path / files.META_PROPERTIES) and not _is_mounted(path):
            with suppress(PermissionError):  # then another user has made it
                files.fsync_directory(path.parent)  # a start that made it may have ended before
        if files.is_folder(path) and not disk.access(path, os.W_OK | os.X_OK):
            raise LogDirError(
                f"log directory {path} cannot be written by user {os.geteuid()}, it belongs to "
                f"{disk.stat(path).st_uid}; chown -R {os.geteuid()} {path} (of a container: the "
                "folder that is mounted there), or choose another log.dirs"
            )
        lock = DirectoryLock(path)
        lock.acquire()
        try:
            return _Locked(path, lock, files.find_identity(path))
        except OSError:
            lock.release()
            raise
    except FileNotFoundError as error:
        raise LogDirError(
            f"log directory {path} does not exist and neither does the folder it would be in; "
            "create that or choose another log.dirs"
        ) from error
    except NotADirectoryError as error:
        raise LogDirError(
            f"log directory {path} is not a folder; choose another log.dirs"
        ) from error
    except DirectoryLocked as error:
        raise LogDirError(str(error)) from error
    except OSError as error:
        raise LogDirError(
            f"log directory {path} cannot be used ({error}); check the disk or choose another "
            "log.dirs"
        ) from error


def _is_mounted(path: Path) -> bool:
    """Tell whether another file system begins there; then no start has made the directory.

    A parent in a read-only image may refuse an fsync with EINVAL.
    """
    return files.find_identity(path)[0] != files.find_identity(path.parent)[0]


def _report(faults: list[str]) -> None:
    if faults:
        raise LogDirError("\n".join(faults))


def _read_identities(paths: Iterable[Path]) -> dict[Path, MetaProperties]:
    found: dict[Path, MetaProperties] = {}
    faults = []
    for path in paths:
        try:
            properties = MetaProperties.read(path)
        except MalformedCheckpoint as error:
            faults.append(f"{error}; restore the file or choose another log.dirs")
        except OSError as error:
            name = path / files.META_PROPERTIES
            faults.append(f"{name} cannot be read: {error}; check the disk")
        else:
            if properties is not None:
                found[path] = properties
    _report(faults)
    return found


def _agree(known: dict[Path, MetaProperties], node_id: int, wanted: str | None) -> str:
    """Return the cluster id of all directories, a new one if they have no id yet."""
    _report(
        [
            f"log directory {path} belongs to node.id={properties.node_id}, not to {node_id}; set "
            "node.id to that or choose another log.dirs"
            for path, properties in known.items()
            if properties.node_id != node_id
        ]
    )
    clusters = {properties.cluster_id: path for path, properties in known.items()}
    if len(clusters) > 1:
        listing = ", ".join(f"{path} has {cluster}" for cluster, path in sorted(clusters.items()))
        raise LogDirError(
            f"log directories belong to different clusters: {listing}; take those of others out of "
            "log.dirs"
        )
    for found, path in clusters.items():
        if wanted is not None and found != wanted:
            raise LogDirError(
                f"log directory {path} belongs to cluster {found}, not to {wanted} as cluster.id "
                "(CLUSTER_ID of a container) says; remove that, or choose another log.dirs"
            )
    return next(iter(clusters), None) or wanted or uuid_text(random_id())


def _identify(
    found: _Locked, properties: MetaProperties | None, cluster_id: str, node_id: int, now_ms: int
) -> LogDirectory:
    """Return the directory with its ids; ids of a new directory are written."""
    try:
        is_new = properties is None
        if properties is None or not properties.directory_id:
            properties = MetaProperties(
                cluster_id=cluster_id, node_id=node_id, directory_id=uuid_text(random_id())
            )
            properties.write(found.path, now_ms)
        must_rewrite = files.exists(found.path / files.FSYNC_FAILED)
    except OSError as error:
        raise _cannot_write(found.path, error) from error
    return LogDirectory(
        found.path,
        properties.directory_id,
        is_new=is_new,
        must_rewrite=must_rewrite,
        lock=found.lock,
        identity=found.identity,
    )

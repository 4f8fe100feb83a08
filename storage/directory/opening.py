"""Opening the log directories at the start: locks, whose they are, marks of the last stop."""

import os
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path

from siltstone.protocol.names import random_id, uuid_text
from siltstone.storage import files
from siltstone.storage.directory import clean_shutdown
from siltstone.storage.directory.checkpoint import MalformedCheckpoint
from siltstone.storage.directory.log_directory import LogDirectory, LogDirError
from siltstone.storage.directory.meta_properties import MetaProperties
from siltstone.storage.topic_partition import FolderState, TopicPartition, parse_folder


def open_directories(
    paths: Sequence[Path], node_id: int, now_ms: int, *, cluster_id: str | None = None
) -> tuple[tuple[LogDirectory, ...], str]:
    """Lock the directories, and return them with the id of the cluster that they belong to. Blocks.

    A directory without ``meta.properties`` is new and joins the others; the first of all are given
    ``cluster_id``, or a random one, and none may have another. The clean-shutdown marks
    are taken last, when nothing can refuse the start any more.

    Raises:
        LogDirError: With a line for every fault; then nothing is locked.
    """
    directories = tuple(LogDirectory(path) for path in paths)
    try:
        _report(_faults(directories))
        known = _read_identities(directories)
        agreed = _agree(known, node_id, cluster_id)
        for directory in directories:
            _identify(directory, known.get(directory.path), agreed, node_id, now_ms)
    except LogDirError:
        for directory in directories:
            directory.release()
        raise
    return directories, agreed


def find_readable(paths: Sequence[Path]) -> tuple[Path, ...]:
    """Return the log directories that are there, for who only reads them. Blocks.

    One that is missing is new to a broker that has others.

    Raises:
        LogDirError: None is there, or one is no folder or not for this user, a line for each.
    """
    faults = []
    found = []
    for path in paths:
        try:
            with os.scandir(path):
                found.append(path)
        except FileNotFoundError:
            continue
        except NotADirectoryError:
            faults.append(f"log directory {path} is not a folder; choose another log.dirs")
        except OSError as error:
            faults.append(
                f"log directory {path} cannot be read ({error.strerror}); run this as the user "
                "whose it is, or choose another log.dirs"
            )
    if not found and not faults:
        missing = ", ".join(map(str, paths))
        faults.append(f"log directory {missing} does not exist; choose another log.dirs")
    _report(faults)
    return tuple(found)


def live_folders(directories: Iterable[Path]) -> Iterator[tuple[TopicPartition, Path]]:
    """Yield the partition folders that are in use, those of each directory sorted by name. Blocks.

    Folders of deleted topics and what is none of ours are passed over.
    """
    for directory in directories:
        for path in sorted(directory.iterdir()):
            with suppress(ValueError):
                folder = parse_folder(path.name)
                if folder.state is FolderState.LIVE and path.is_dir():
                    yield folder.topic_partition, path


def forget_failed_fsyncs(directories: Iterable[LogDirectory]) -> None:
    """Take the marks of failed fsyncs away: all that may have been lost was written again. Blocks.

    Raises:
        LogDirError: The disk still fails.
    """
    for directory in directories:
        if directory.must_rewrite:
            try:
                files.unlink(directory.path / files.FSYNC_FAILED)
                files.fsync_directory(directory.path)
            except OSError as error:
                raise LogDirError(
                    f"log directory {directory.path} can not be written ({error}); check the disk"
                ) from error


def _faults(directories: Iterable[LogDirectory]) -> list[str]:
    faults = []
    for directory in directories:
        try:
            directory.acquire()
        except LogDirError as error:
            faults.append(str(error))
    return faults


def _report(faults: list[str]) -> None:
    if faults:
        raise LogDirError("\n".join(faults))


def _read_identities(directories: Iterable[LogDirectory]) -> dict[Path, MetaProperties]:
    found: dict[Path, MetaProperties] = {}
    faults = []
    for directory in directories:
        try:
            properties = MetaProperties.read(directory.path)
        except (MalformedCheckpoint, OSError) as error:
            faults.append(f"{error}; restore the file or choose another log.dirs")
        else:
            if properties is not None:
                found[directory.path] = properties
    _report(faults)
    return found


def _agree(known: dict[Path, MetaProperties], node_id: int, wanted: str | None) -> str:
    """Return the cluster id that all directories name, a new one if there is none yet."""
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
    directory: LogDirectory,
    properties: MetaProperties | None,
    cluster_id: str,
    node_id: int,
    now_ms: int,
) -> None:
    """Give the directory its ids, writing them if they are new, and take its mark."""
    try:
        directory.is_new = properties is None
        if properties is None or not properties.directory_id:
            properties = MetaProperties(
                cluster_id=cluster_id, node_id=node_id, directory_id=uuid_text(random_id())
            )
            properties.write(directory.path, now_ms)
        directory.must_rewrite = (directory.path / files.FSYNC_FAILED).exists()
        is_marked = clean_shutdown.take(directory.path)
        directory.was_clean = is_marked and not directory.must_rewrite
    except OSError as error:
        raise LogDirError(
            f"log directory {directory.path} can not be written ({error}); check the disk"
        ) from error
    directory.directory_id = properties.directory_id

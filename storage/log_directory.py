"""The log directories: whose they are, who may write there, and whether their disks work."""

import logging
import os
from collections.abc import Iterable, Sequence
from pathlib import Path

from protocol.errors import KafkaStorageError
from protocol.names import random_id, uuid_text
from storage import clean_shutdown
from storage.checkpoint import MalformedCheckpoint
from storage.directory_lock import DirectoryLock, DirectoryLocked
from storage.meta_properties import MetaProperties

_logger = logging.getLogger(__name__)


class LogDirError(Exception):
    """The broker can not start with its log directories; the text says which one and what to do."""


class LogDirectory:
    """One entry of ``log.dirs``, from locking to unlocking it.

    The first OSError of one of its logs takes it offline until the next start: its logs answer
    `KafkaStorageError`, those of other directories go on (KAFKA-17356). Whoever meets the error
    calls `fail`, from any thread.
    """

    __slots__ = ("_lock", "directory_id", "failure", "path", "was_clean")

    def __init__(self, path: Path, directory_id: str = "", *, was_clean: bool = False) -> None:
        self.path = path  # constant after init
        self.directory_id = directory_id  # constant once the directories are open
        self.was_clean = was_clean  # likewise: whether the last stop left its mark
        self.failure: str | None = None  # written once, by any thread
        self._lock = DirectoryLock(path)

    def fail(self, error: OSError) -> KafkaStorageError:
        """Take the directory offline and return what the caller raises from ``error``."""
        if self.failure is None:
            self.failure = str(error)
            _logger.error(
                "log directory is offline: check the disk and restart the broker "
                "directory=%s error=%s",
                self.path,
                error,
            )
        return self.offline_error()

    def offline_error(self) -> KafkaStorageError:
        """Return the refusal that everything in this directory gets."""
        return KafkaStorageError(
            f"log directory {self.path} is offline ({self.failure}): check the disk and restart"
        )

    def acquire(self) -> None:
        """Create the directory if only itself is missing, and lock it. Blocks.

        A whole path is not created: it is a typing error, or a disk that is not mounted.

        Raises:
            LogDirError: It is missing, not writable or in use.
        """
        try:
            if not self.path.exists():
                self.path.mkdir()
            if self.path.is_dir() and not os.access(self.path, os.W_OK | os.X_OK):
                raise LogDirError(
                    f"log directory {self.path} can not be written by this user; give it the right "
                    "to or choose another log.dirs"
                )
            self._lock.acquire()
        except FileNotFoundError as error:
            raise LogDirError(
                f"log directory {self.path} does not exist and neither does the folder it would be "
                "in; create that or choose another log.dirs"
            ) from error
        except NotADirectoryError as error:
            raise LogDirError(
                f"log directory {self.path} is not a folder; choose another log.dirs"
            ) from error
        except DirectoryLocked as error:
            raise LogDirError(str(error)) from error
        except OSError as error:
            raise LogDirError(
                f"log directory {self.path} can not be used ({error.strerror or error}); check the "
                "disk or choose another log.dirs"
            ) from error

    def release(self) -> None:
        """Let another broker have the directory. Idempotent."""
        self._lock.release()


def open_directories(
    paths: Sequence[Path], node_id: int, now_ms: int
) -> tuple[tuple[LogDirectory, ...], str]:
    """Lock the directories, and return them with the id of the cluster that they belong to. Blocks.

    A directory without ``meta.properties`` is new and joins the others. The clean-shutdown marks
    are taken last, when nothing can refuse the start any more.

    Raises:
        LogDirError: With a line for every fault; then nothing is locked.
    """
    directories = tuple(LogDirectory(path) for path in paths)
    try:
        _report(_faults(directories))
        known = _read_identities(directories)
        cluster_id = _agree(known, node_id)
        for directory in directories:
            _identify(directory, known.get(directory.path), cluster_id, node_id, now_ms)
    except LogDirError:
        for directory in directories:
            directory.release()
        raise
    return directories, cluster_id


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


def _agree(known: dict[Path, MetaProperties], node_id: int) -> str:
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
    return next(iter(clusters), None) or uuid_text(random_id())


def _identify(
    directory: LogDirectory,
    properties: MetaProperties | None,
    cluster_id: str,
    node_id: int,
    now_ms: int,
) -> None:
    """Give the directory its ids, writing them if they are new, and take its mark."""
    try:
        if properties is None or not properties.directory_id:
            properties = MetaProperties(
                cluster_id=cluster_id, node_id=node_id, directory_id=uuid_text(random_id())
            )
            properties.write(directory.path, now_ms)
        directory.was_clean = clean_shutdown.take(directory.path)
    except OSError as error:
        raise LogDirError(
            f"log directory {directory.path} can not be written ({error}); check the disk"
        ) from error
    directory.directory_id = properties.directory_id

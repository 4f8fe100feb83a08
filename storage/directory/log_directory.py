"""One log directory: whether another broker has it, and whether its disk takes writes."""

import errno
import logging
import os
import threading
from pathlib import Path
from typing import Final

from siltstone.protocol.errors import KafkaStorageError
from siltstone.storage import files
from siltstone.storage.directory.lock import DirectoryLock, DirectoryLocked
from siltstone.storage.files import FsyncFailed

ROOM_BYTES: Final = 1 << 20
"""What must fit into a directory that was full before it takes writes again: the largest batch."""

CALM_CHECKS: Final = 3
"""Checks without another refusal after which the log says that a directory takes writes again."""

_REMEDIES: Final = {
    errno.ENOSPC: "make room on the disk",
    errno.EDQUOT: "raise the quota or make room",
    errno.EROFS: "mount the file system for writing",
    errno.EMFILE: "raise the limit of open files of the process",
    errno.ENFILE: "raise the limit of open files of the machine",
    errno.ENOMEM: "free memory",
}

_logger = logging.getLogger(__name__)


class LogDirError(Exception):
    """The broker can not start with its log directories; the text says which one and what to do."""


def remedy_for(error: OSError) -> str | None:
    """Return what helps against an error that passes; None if it does not pass by itself."""
    return None if isinstance(error, FsyncFailed) else _REMEDIES.get(error.errno or 0)


class LogDirectory:
    """One entry of ``log.dirs``, from locking to unlocking it.

    Whoever meets an OSError while writing calls `fail`, from any thread. What can pass by itself (a
    full disk, a read-only mount, no descriptors left) refuses writes until `check` finds that they
    work; nothing was lost by it. Anything else refuses them until the next start. That holds above
    all for a failed fsync: the kernel may have dropped the pages that it could not write, and calls
    the next fsync a success, so the first answer is the only one to believe.

    Reading never asks: what can be read is served, and one unreadable segment stops nobody who
    reads another. Directories do not share their fate (KAFKA-17356).
    """

    __slots__ = (
        "_announced",
        "_calm_checks",
        "_identity",
        "_lock",
        "_remedy",
        "_reported",
        "_state",
        "directory_id",
        "failure",
        "is_new",
        "must_rewrite",
        "path",
        "refusal",
        "was_clean",
    )

    def __init__(self, path: Path, directory_id: str = "", *, was_clean: bool = False) -> None:
        self.path = path  # constant after init
        self.directory_id = directory_id  # constant once the directories are open
        self.was_clean = was_clean  # likewise: whether the last stop left its mark
        self.is_new = False  # likewise: whether it had no id before this start
        self.must_rewrite = False  # likewise: whether an fsync failed during the last run
        self.refusal: str | None = None  # why writes are refused, for now or for good; any thread
        self.failure: str | None = None  # why they are refused until the next start; written once
        self._remedy = ""  # what helps against the last refusal; any thread
        self._lock = DirectoryLock(path)
        self._identity: tuple[int, int] | None = None  # device and inode
        self._state = threading.Lock()  # held for a few instructions
        self._announced = False  # guarded by: _state; that the log has told of a refusal
        self._calm_checks = 0  # likewise
        self._reported: set[str] = set()  # what was told once, by any thread

    def fail(self, error: OSError, *, for_good: bool = False) -> KafkaStorageError:
        """Refuse writes and return what the caller raises; until when, the error says.

        ``for_good``: until the next start, whatever the error.
        """
        remedy = None if for_good else remedy_for(error)
        with self._state:
            is_news = self.failure is None and (remedy is None or not self._announced)
            self.refusal = str(error) if self.failure is None else self.failure
            self._calm_checks = 0
            if remedy is None:
                self.failure = self.refusal
            else:
                self._remedy = remedy
            self._announced = True
        if is_news and remedy is not None:
            _logger.error(
                "log directory takes no writes for now, reads go on: %s directory=%s error=%s",
                remedy,
                self.path,
                error,
            )
        elif is_news:
            _logger.error(
                "log directory is offline for writes, reads go on: check the disk and restart the "
                "broker directory=%s error=%s",
                self.path,
                error,
            )
            if isinstance(error, FsyncFailed):
                files.note_failed_fsync(self.path)
        return self.refuse()

    def refuse(self) -> KafkaStorageError:
        """Return the refusal that every write to this directory gets."""
        return KafkaStorageError(
            f"log directory {self.path} {self.trouble or 'takes no writes now'}"
        )

    @property
    def trouble(self) -> str | None:
        """What keeps writes out and what to do about it, after the path; None if nothing does."""
        refusal, remedy = self.refusal, self._remedy
        if self.failure is not None:
            return f"is offline for writes ({self.failure}): check the disk and restart the broker"
        return None if refusal is None else f"takes no writes now ({refusal}): {remedy}"

    def report_once(self, sentence: str) -> None:
        """Log a sentence on something unreadable, the first time only."""
        if sentence not in self._reported:
            self._reported.add(sentence)
            _logger.error("%s", sentence)

    def check(self) -> None:
        """Notice that the directory is gone, or that it takes writes again. Blocks.

        Kafka keeps a full directory offline until it is restarted; there is no need to.
        """
        if self.failure is not None:
            return
        refused = self.refusal is not None
        try:
            self._check_identity()
            if refused:
                files.try_room(self.path, ROOM_BYTES)
        except OSError as error:
            self.fail(error)
            return
        with self._state:
            if refused and self.failure is None:
                self.refusal = None
            self._calm_checks += 1
            is_calm = self._announced and self.refusal is None and self._calm_checks > CALM_CHECKS
            if is_calm:
                self._announced = False
        if is_calm:
            _logger.info("log directory takes writes again directory=%s", self.path)

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
            self._identity = files.find_identity(self.path)
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

    def _check_identity(self) -> None:
        """Tell a directory that was moved, deleted or unmounted from ours.

        Raises:
            OSError: It is not there, or another one is.
        """
        if self._identity is not None and files.find_identity(self.path) != self._identity:
            raise OSError(errno.ESTALE, "another folder is there now", str(self.path))

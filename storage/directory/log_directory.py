"""One log directory: its lock, and whether its disk takes writes."""

import errno
import logging
from pathlib import Path
from typing import Final

from siltstone.protocol.errors import KafkaStorageError
from siltstone.storage import files, threads
from siltstone.storage.directory.lock import DirectoryLock
from siltstone.storage.directory.room import Level, Room
from siltstone.storage.files import FsyncFailed

ROOM_BYTES: Final = 1 << 20
"""The room that a full directory must have before it takes writes again: the largest batch."""

CALM_CHECKS: Final = 3
"""After so many checks without another refusal it is logged that a directory takes writes again."""

_MAX_REPORTED: Final = 1000

_REMEDIES: Final = {
    errno.ENOSPC: "make room on the disk",
    errno.EDQUOT: "raise the quota or make room",
    errno.EROFS: "mount the file system for writing",
    errno.EMFILE: "raise the limit of open files of the process",
    errno.ENFILE: "raise the limit of open files of the machine",
    errno.ENOMEM: "free memory",
}

_MAKE_ROOM: Final = "delete topics or records, shorten retention, or make room on the disk"

_logger = logging.getLogger(__name__)


class LogDirError(Exception):
    """The broker cannot start with its log directories; the text says which and what to do."""


def remedy_for(error: OSError) -> str | None:
    """Return the remedy for an error that may pass; None for an error that does not pass."""
    return None if isinstance(error, FsyncFailed) else _REMEDIES.get(error.errno or 0)


class LogDirectory:
    """One entry of ``log.dirs``, from when it is locked until it is unlocked.

    After an OSError of a write call `fail`, from any thread. After an error that may pass (a full
    disk, a read-only mount, no descriptors) writes are refused until `check` finds that they work;
    nothing is lost. After any other error writes are refused until the next start. A failed fsync
    is such an error: the kernel may have dropped the pages that it could not write. The next fsync
    then succeeds although the pages are lost, so only the first result can be trusted.

    If less room than the reserve is free, only produce requests are refused. Deletions, retention,
    the cleaner, committed offsets and ends of transactions go on, and `check` allows produce
    requests again when there is room.

    Reads do not depend on any of this: every readable segment is served, and an unreadable one
    affects no other. Directories do not affect each other (KAFKA-17356).
    """

    __slots__ = (
        "_announced", "_calm_checks", "_identity", "_lock", "_must_mark", "_remedy", "_reported",
        "_state", "client_refusal", "directory_id", "failure", "is_new", "must_rewrite", "path",
        "refusal", "room", "was_clean",
    )  # fmt: skip

    def __init__(
        self,
        path: Path,
        directory_id: str = "",
        *,
        is_new: bool = False,
        must_rewrite: bool = False,
        lock: DirectoryLock | None = None,
        identity: tuple[int, int] | None = None,
    ) -> None:
        """Create the object for a folder that is locked and whose device and inode are known."""
        self.path = path
        self.directory_id = directory_id
        self.is_new = is_new  # whether it had no id before this start
        self.was_clean = False  # whether the last stop was clean; known when logs are loaded
        self.must_rewrite = must_rewrite  # whether an fsync failed during the last run
        self.refusal: str | None = None  # why writes are refused, for now or for good; any thread
        self.failure: str | None = None  # why writes are refused until the next start; set once
        self.client_refusal: str | None = None  # why produce requests are refused; any thread
        self.room = Room()  # measured by `check`, read by any thread
        self._remedy = ""  # the remedy for the last refusal; any thread
        self._lock = lock
        self._identity = identity
        self._state = threads.Lock()  # held for a few instructions
        self._announced = False  # guarded by: _state; a refusal has been logged
        self._calm_checks = 0  # likewise
        self._must_mark = False  # an fsync failed, and has left no mark yet; any thread
        self._reported: set[str] = set()  # the sentences logged so far, by any thread

    def fail(self, error: OSError, *, for_good: bool = False) -> KafkaStorageError:
        """Refuse writes, for now or until the next start; return the error that the caller raises.

        With ``for_good`` writes are refused until the next start, whatever the error is.
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
            self.client_refusal = self.refusal
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
            self._must_mark = True
            self._mark_failed_fsync()
        return self.refuse()

    def _mark_failed_fsync(self) -> None:
        """Leave the mark for the next start; if the disk refuses it, the next check tries again."""
        if self._must_mark and files.note_failed_fsync(self.path):
            self._must_mark = False

    def refuse(self) -> KafkaStorageError:
        """Return the refusal that every write to this directory gets."""
        return KafkaStorageError(
            f"log directory {self.path} {self.trouble or 'takes no writes now'}"
        )

    @property
    def trouble(self) -> str | None:
        """Text to put after the path: why writes are refused and what to do. None if they work."""
        refusal, remedy = self.refusal, self._remedy
        if self.failure is not None:
            return f"is offline for writes ({self.failure}): check the disk and restart the broker"
        if refusal is not None:
            return f"takes no writes now ({refusal}): {remedy}"
        if self.room.level is Level.SHORT:
            return f"takes no produce requests now ({self._shortage()}): {_MAKE_ROOM}"
        return None

    @property
    def warning(self) -> str | None:
        """Text to put after the path about a fault that is near; None without one."""
        if self.trouble is not None or self.room.level is not Level.SCARCE:
            return None
        return f"is nearly full ({self._shortage()}): {_MAKE_ROOM}"

    def report_once(self, sentence: str) -> None:
        """Log a sentence about something unreadable, unless the last thousand contain it."""
        if sentence not in self._reported:
            if len(self._reported) >= _MAX_REPORTED:
                self._reported.clear()
            self._reported.add(sentence)
            _logger.error("%s", sentence)

    def check(self, reserve_bytes: int = 0, now: float = 0.0, written: int = 0) -> None:
        """Check whether the directory is gone, has its reserve, or takes writes again. Blocks.

        ``now`` is a monotonic time, and ``written`` is how many bytes were written until then: the
        forecast needs both. In Kafka a full directory stays offline until the restart.
        """
        if self.failure is not None:
            self._mark_failed_fsync()
            return
        refused = self.refusal is not None
        before = self.room.level
        try:
            self._check_identity()
            self.room.measure(self.path, reserve_bytes, now, written)
            if refused:
                files.try_room(self.path, ROOM_BYTES)
        except OSError as error:
            self.fail(error)
            return
        with self._state:
            if refused and self.failure is None:
                self.refusal = None
            self._refuse_clients_if_short()
            self._calm_checks += 1
            is_calm = self._announced and self.refusal is None and self._calm_checks > CALM_CHECKS
            if is_calm:
                self._announced = False
        if is_calm:
            _logger.info("log directory takes writes again directory=%s", self.path)
        self._tell_level(before)

    def look(self) -> None:
        """Look between two checks whether the reserve is still free; quick, for the loop."""
        if self.failure is not None:
            return
        before = self.room.level
        try:
            self.room.look(self.path)
        except OSError as error:
            self.fail(error)
            return
        with self._state:
            self._refuse_clients_if_short()
        self._tell_level(before)

    def _refuse_clients_if_short(self) -> None:
        """Refuse or allow produce requests, by the room that is left; the caller holds the lock."""
        if self.refusal is None:
            is_short = self.room.level is Level.SHORT
            self.client_refusal = self._shortage() if is_short else None

    def release(self) -> None:
        """Unlock the directory. Idempotent."""
        if self._lock is not None:
            self._lock.release()

    def _shortage(self) -> str:
        room = self.room
        return (
            f"{room.free_bytes} bytes are free, and log.dirs.reserve.bytes is {room.reserve_bytes}"
        )

    def _tell_level(self, before: Level) -> None:
        """Log the level of the room if it differs from the level before."""
        room = self.room
        if room.level is before:
            return
        figures = (self.path, room.free_bytes, room.reserve_bytes)
        if room.level is Level.SHORT:
            _logger.error(
                "log directory has less room than its reserve and takes no produce requests: "
                "%s directory=%s free_bytes=%d reserve_bytes=%d",
                _MAKE_ROOM,
                *figures,
            )
        elif room.level is Level.SCARCE and before is Level.PLENTY:
            _logger.warning(
                "log directory is nearly full, below its reserve produce requests are refused: "
                "%s directory=%s free_bytes=%d reserve_bytes=%d",
                _MAKE_ROOM,
                *figures,
            )
        else:
            _logger.info(
                "log directory %s directory=%s free_bytes=%d reserve_bytes=%d",
                "takes produce requests again" if before is Level.SHORT else "has room again",
                *figures,
            )

    def _check_identity(self) -> None:
        """Check that the path still leads to the directory that was locked."""
        if self._identity is not None and files.find_identity(self.path) != self._identity:
            raise OSError(errno.ESTALE, "it is another folder now", str(self.path))

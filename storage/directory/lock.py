"""The ``.lock`` file that keeps a second broker, ours or Apache Kafka's, out of a log directory.

Java's channel lock is a POSIX record lock on Linux, so this lock is one, too: a ``flock`` would not
exclude a Java process. A record lock does not exclude its own process, so the module `disk` keeps a
set of the files that this process has locked. A record lock ends when the process closes *any*
descriptor of the file, so no other code opens ``.lock``.
"""

import os
import struct
from contextlib import suppress
from fcntl import F_GETLK, F_UNLCK, F_WRLCK, LOCK_EX, LOCK_NB
from pathlib import Path

from siltstone.storage import files
from siltstone.storage.files import disk

_FLOCK = struct.Struct("hhqqi4x")  # l_type, l_whence, l_start, l_len, l_pid on 64-bit Linux


class DirectoryLocked(Exception):  # noqa: N818  # a state of the directory, said in one word
    """Another process, or another broker in this process, uses the log directory."""


class DirectoryLock:
    """The lock of one log directory, held from `acquire` to `release` or the end of the process."""

    def __init__(self, directory: Path) -> None:
        self._path = directory / files.LOCK
        self._identity = (0, 0)
        self._fd = -1

    def acquire(self) -> None:
        """Take the lock, creating the file.

        Raises:
            DirectoryLocked: Another broker has it.
            OSError: The directory is missing or cannot be written.
        """
        with suppress(FileNotFoundError):  # asked of the name: to open the file may end the lock
            if _identity(disk.stat(self._path, follow_symlinks=False)) in disk.locked:
                raise DirectoryLocked(
                    f"log directory {self._path.parent} is in use by this process; name each "
                    "folder once in log.dirs, by links and mounts, too"
                )
        fd = files.open_file(self._path, create=True)
        try:
            disk.lockf(fd, LOCK_EX | LOCK_NB)
            found = disk.fstat(fd)
        except OSError as error:
            holder = _holder(fd)
            files.close(fd)
            if not isinstance(error, BlockingIOError | PermissionError):
                raise
            raise DirectoryLocked(self._refusal(holder)) from error
        self._fd = fd
        self._identity = _identity(found)
        disk.locked.add(self._identity)

    def release(self) -> None:
        """Delete the file and release the lock. Idempotent."""
        if self._fd < 0:
            return
        with suppress(OSError):  # the file may stay: the lock ends with the descriptor
            files.unlink(self._path)
        files.close(self._fd)
        self._fd = -1
        disk.locked.discard(self._identity)

    def _refusal(self, holder: int) -> str:
        holds = f"process {holder}" if holder else "another process"
        return (
            f"log directory {self._path.parent} is locked by {holds}; "
            "stop it or choose another log.dirs"
        )


def _identity(found: os.stat_result) -> tuple[int, int]:
    return found.st_dev, found.st_ino


def is_held(directory: Path) -> bool:
    """Tell whether another process uses a log directory; nothing is locked or created.

    A process that has the lock itself must not call this: it would lose the lock.
    """
    try:
        fd = files.open_file(directory / files.LOCK)
    except FileNotFoundError:
        return False
    try:
        kind, _ = _ask(fd)
    finally:
        files.close(fd)
    return kind != F_UNLCK


def _holder(fd: int) -> int:
    """Return the process that has the lock, 0 if it is not known (another namespace)."""
    try:
        kind, pid = _ask(fd)
    except OSError:
        return 0
    return pid if kind != F_UNLCK else 0


def _ask(fd: int) -> tuple[int, int]:
    """Return the kind of lock that another process has on a file, and the process."""
    question = _FLOCK.pack(F_WRLCK, os.SEEK_SET, 0, 0, 0)
    kind, _, _, _, pid = _FLOCK.unpack(disk.fcntl(fd, F_GETLK, question))
    return kind, pid

"""Folders of brokers under test: in memory if there is room, and removed with their test."""

from __future__ import annotations

import fcntl
import os
import shutil
import tempfile
from contextlib import suppress
from pathlib import Path

from siltstone.testing.errors import StartFailed

MEMORY = Path("/dev/shm")  # noqa: S108  # memory, of which mkdtemp makes a part ours alone
_PREFIX = "siltstone-testing-"
_OWNER = "owner"
ROOM_BYTES = 256 << 20
"""Containers often have 64 MiB in memory, which a test may fill."""


class Folder:
    """A folder of one broker. This process owns the folder until it is removed."""

    def __init__(self) -> None:
        """Create the folder.

        Raises:
            StartFailed: There is no writable place.
        """
        place = _find_place()
        _sweep(place)
        try:
            self.path = Path(tempfile.mkdtemp(prefix=_PREFIX, dir=place))
            self._owner = _own(self.path / _OWNER)
        except OSError as error:
            raise StartFailed(
                f"the broker has no folder: {place} is not writable ({error.strerror}); set TMPDIR "
                "to a folder that is"
            ) from error

    def remove(self) -> None:
        """Remove the folder with its content. Idempotent."""
        shutil.rmtree(self.path, ignore_errors=True)
        with suppress(OSError):
            os.close(self._owner)


def _own(path: Path) -> int:
    """Create a file that is locked before others can find its name, and return its descriptor.

    Another worker of the same run may sweep at the same moment, and removes folders without a lock.
    """
    unnamed = path.with_suffix(".new")
    owner = os.open(unnamed, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    fcntl.flock(owner, fcntl.LOCK_EX)
    unnamed.rename(path)
    return owner


def _find_place() -> Path:
    with suppress(OSError):
        memory = os.statvfs(MEMORY)
        if memory.f_bavail * memory.f_frsize >= ROOM_BYTES and os.access(MEMORY, os.W_OK):
            return MEMORY
    try:
        return Path(tempfile.gettempdir())
    except OSError as error:
        raise StartFailed(
            f"the broker has no folder: {error.strerror or error}; set TMPDIR to a writable one"
        ) from error


def _sweep(place: Path) -> None:
    """Remove the folders whose owners were killed together with their brokers."""
    for owner in place.glob(f"{_PREFIX}*/{_OWNER}"):
        try:
            file = os.open(owner, os.O_RDWR | os.O_CLOEXEC)
        except OSError:
            continue  # the folder is another user's, or is gone
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            continue  # the owner still runs
        else:
            shutil.rmtree(owner.parent, ignore_errors=True)
        finally:
            os.close(file)

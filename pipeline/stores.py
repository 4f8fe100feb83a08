"""File systems: this machine's, or any that pyarrow.fs opens by its URI.

Local files are read with ``pread`` into a buffer and never mapped: if a mapped file is cut while it
is read, the process ends. An open file keeps its content, even if another file gets its name.
"""

import os
from functools import lru_cache
from pathlib import Path
from typing import Any, Self, TypeAlias

from siltstone.pipeline.errors import SourceUnavailable


class LocalFile:
    """A file of this machine."""

    def __init__(self, path: str) -> None:
        self._fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        status = os.fstat(self._fd)
        self.size = status.st_size
        self.inode = status.st_ino

    def fileno(self) -> int:
        """Return the descriptor."""
        return self._fd

    def read_into(self, view: memoryview, position: int) -> int:
        """Fill a view from a position on; return the bytes read."""
        filled = 0
        while filled < len(view):
            count = os.preadv(self._fd, [view[filled:]], position + filled)
            if count == 0:
                break
            filled += count
        return filled

    def read(self, position: int, size: int) -> bytes:
        """Return up to ``size`` bytes."""
        return os.pread(self._fd, size, position)

    def close(self) -> None:
        """Close it. Idempotent."""
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1


class LocalStore:
    """The file system of this machine."""

    is_local = True

    def open(self, path: str) -> LocalFile:
        """Open a file to read it.

        Raises:
            FileNotFoundError: it is missing.
        """
        return LocalFile(path)

    def read(self, path: str) -> bytes | None:
        """Return a small file, None if it is missing."""
        try:
            return Path(path).read_bytes()
        except FileNotFoundError:
            return None

    def list(self, path: str) -> dict[str, int]:
        """Return the names in a folder and the size of each; -1 for a folder.

        Raises:
            FileNotFoundError: the folder is missing.
        """
        found = {}
        with os.scandir(path) as entries:
            for entry in entries:
                try:
                    found[entry.name] = -1 if entry.is_dir() else entry.stat().st_size
                except FileNotFoundError:
                    continue  # gone since the folder was listed
        return found


class ArrowFile:
    """A file of pyarrow's, which has no inode."""

    inode = 0

    def __init__(self, opened: Any) -> None:
        self._opened = opened
        self.size = opened.size()

    def read_into(self, view: memoryview, position: int) -> int:
        """Fill a view from a position on; return the bytes read."""
        found = self._opened.read_at(len(view), position)
        view[: len(found)] = found
        return len(found)

    def read(self, position: int, size: int) -> bytes:
        """Return up to ``size`` bytes."""
        return bytes(self._opened.read_at(size, position))

    def close(self) -> None:
        """Close it. Idempotent."""
        self._opened.close()


class ArrowStore:
    """A file system of pyarrow's: object storage, HDFS, or this machine again."""

    is_local = False

    def __init__(self, file_system: Any) -> None:
        self._files = file_system

    @classmethod
    def of(cls, uri: str) -> tuple[Self, str]:
        """Return the store of a URI, and the path in it.

        Raises:
            SourceUnavailable: pyarrow does not know such a URI, or cannot reach it.
        """
        from pyarrow import fs  # noqa: PLC0415 - only where it is used

        try:
            file_system, path = fs.FileSystem.from_uri(uri)
        except (OSError, ValueError) as error:
            raise SourceUnavailable(f"pyarrow.fs cannot open {uri}: {error}") from error
        return cls(file_system), path

    def open(self, path: str) -> ArrowFile:
        """Open a file to read it."""
        return ArrowFile(self._files.open_input_file(path))

    def read(self, path: str) -> bytes | None:
        """Return a small file, None if it is missing."""
        try:
            with self._files.open_input_file(path) as opened:
                return bytes(opened.read())
        except FileNotFoundError:
            return None

    def list(self, path: str) -> dict[str, int]:
        """Return the names in a folder and the size of each; -1 for a folder."""
        from pyarrow import fs  # noqa: PLC0415 - only where it is used

        found = self._files.get_file_info(fs.FileSelector(path))
        return {
            each.base_name: -1 if each.type == fs.FileType.Directory else each.size
            for each in found
        }


StoredFile: TypeAlias = LocalFile | ArrowFile
Store: TypeAlias = LocalStore | ArrowStore
"""A file system. Paths are texts with ``/`` between their parts."""


@lru_cache(maxsize=16)
def open_store(place: str) -> tuple[Store, str]:
    """Return the store that a path or URI is in, and the path in it."""
    if "://" not in place:
        return LocalStore(), place
    if place.startswith("file://"):
        return LocalStore(), place.removeprefix("file://")
    return ArrowStore.of(place)


def join(folder: str, name: str) -> str:
    """Return the place of a name in a folder."""
    return f"{folder.rstrip('/')}/{name}"

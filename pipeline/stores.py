"""File systems of pyarrow: this machine's, or any that it opens by a URI.

Files are read and never mapped: if a mapped file is cut while it is read, the process ends. An open
file keeps its content, even if another file gets its name.
"""

import os
from functools import lru_cache
from typing import Self

import pyarrow as pa
from pyarrow import fs

from siltstone.pipeline.errors import SourceUnavailable


class StoredFile:
    """An open file. One thread."""

    def __init__(self, opened: pa.NativeFile) -> None:
        self._opened = opened
        self.size: int = opened.size()
        self.inode = os.fstat(opened.fileno()).st_ino if isinstance(opened, pa.OSFile) else 0
        """0 in a store, which has none."""

    def read_into(self, view: memoryview, position: int) -> int:
        """Fill a view from a position on; return the bytes read."""
        self._opened.seek(position)
        count: int = self._opened.readinto(view)
        return count

    def read(self, position: int, size: int) -> bytes:
        """Return up to ``size`` bytes."""
        found: bytes = self._opened.read_at(size, position)
        return found

    def close(self) -> None:
        """Close it. Idempotent."""
        self._opened.close()


class Store:
    """A file system. Paths are texts with ``/`` between their parts."""

    def __init__(self, files: fs.FileSystem, *, is_local: bool) -> None:
        self._files = files
        self.is_local = is_local
        """Whether reading a few bytes is cheap."""

    @classmethod
    def of(cls, uri: str) -> tuple[Self, str]:
        """Return the store of a URI, and the path in it.

        Raises:
            SourceUnavailable: pyarrow does not know such a URI, or cannot reach it.
        """
        try:
            files, path = fs.FileSystem.from_uri(uri)
        except (OSError, ValueError) as error:
            raise SourceUnavailable(f"pyarrow.fs cannot open {uri}: {error}") from error
        return cls(files, is_local=False), path

    def open(self, path: str) -> StoredFile:
        """Open a file to read it.

        Raises:
            FileNotFoundError: it is missing.
        """
        return StoredFile(pa.OSFile(path) if self.is_local else self._files.open_input_file(path))

    def read(self, path: str) -> bytes | None:
        """Return a small file, None if it is missing."""
        try:
            with self._files.open_input_file(path) as opened:
                found: bytes = opened.read()
        except FileNotFoundError:
            return None
        return found

    def list(self, path: str) -> dict[str, int]:
        """Return the names in a folder and the size of each; -1 for a folder.

        Raises:
            FileNotFoundError: the folder is missing.
        """
        return {
            each.base_name: -1 if each.type == fs.FileType.Directory else each.size
            for each in self._files.get_file_info(fs.FileSelector(path))
            if each.type != fs.FileType.NotFound  # gone since the folder was listed
        }


@lru_cache(maxsize=16)
def open_store(place: str) -> tuple[Store, str]:
    """Return the store that a path or URI is in, and the path in it."""
    path = place.removeprefix("file://")
    return Store.of(path) if "://" in path else (Store(fs.LocalFileSystem(), is_local=True), path)


def join(folder: str, name: str) -> str:
    """Return the place of a name in a folder."""
    return f"{folder.rstrip('/')}/{name}"

"""A disk in memory: it answers the calls of the disk's seam, and makes no real file.

It is as small as the storage floor lets it be: it has no links, no rights and no room that ends. A
call that it lacks is refused by name. It does not know what a power failure would leave.
"""

import errno
import fcntl
import itertools
import os
import stat
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import PurePath
from typing import Any

import pytest

from siltstone.storage.files import disk as seam

_FIRST = 1 << 20
"""The lowest descriptor: no real one is as high."""


class _Node:
    """A file, or a folder, which has names."""

    def __init__(self, kind: int, inode: int) -> None:
        self.mode = kind | 0o755
        self.inode = inode
        self.data = bytearray()
        self.names: dict[str, _Node] = {}
        self.modified_ns = 0


class MemoryDisk:
    """Files and folders below one path, of which the real disk has none."""

    def __init__(self, root: str) -> None:
        self._inodes = itertools.count(1)
        self._root = _Node(stat.S_IFDIR, next(self._inodes))
        self._prefix = root
        self._open: dict[int, _Node] = {}
        self._ends = Counter[int]()
        self._descriptors = itertools.count(_FIRST)

    @property
    def open_files(self) -> int:
        """Return how many descriptors are open."""
        return len(self._open)

    def install(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Answer every call of the seam."""
        for name, value in list(vars(seam).items()):
            if callable(value):
                monkeypatch.setattr(seam, name, getattr(self, name, _refuse(name)))
        monkeypatch.setattr(seam.route, "through", seam)
        monkeypatch.setattr(seam, "locked", set())

    def paths(self) -> list[str]:
        """Return the paths of all files, below the root."""
        return sorted(_walk(self._root, ""))

    # Names.

    def open(self, path: Any, flags: int, _mode: int = 0, *, dir_fd: int | None = None) -> int:
        """Open a file or a folder, or create a file."""
        folder, name = self._place(path, dir_fd)
        node = folder.names.get(name) if name else folder
        if node is None and flags & os.O_CREAT:
            node = folder.names[name] = _Node(stat.S_IFREG, next(self._inodes))
        elif node is None:
            raise _error(errno.ENOENT, path)
        elif flags & os.O_EXCL:
            raise _error(errno.EEXIST, path)
        if flags & os.O_TRUNC:
            node.data.clear()
        fd = next(self._descriptors)
        self._open[fd] = node
        return fd

    def close(self, fd: int) -> None:
        """Close a descriptor; a real one is of an earlier test, which Python has just freed."""
        if fd < _FIRST:
            os.close(fd)
        else:
            del self._open[fd]

    def mkdir(self, path: Any, _mode: int = 0) -> None:
        """Make a folder."""
        folder, name = self._place(path)
        if name in folder.names:
            raise _error(errno.EEXIST, path)
        folder.names[name] = _Node(stat.S_IFDIR, next(self._inodes))

    def unlink(self, path: Any, *, dir_fd: int | None = None) -> None:
        """Take the name of a file away."""
        folder, name = self._place(path, dir_fd)
        if stat.S_ISDIR(self._find(path, dir_fd).mode):
            raise _error(errno.EISDIR, path)
        del folder.names[name]

    def rmdir(self, path: Any, *, dir_fd: int | None = None) -> None:
        """Take an empty folder away."""
        folder, name = self._place(path, dir_fd)
        if self._find(path, dir_fd).names:
            raise _error(errno.ENOTEMPTY, path)
        del folder.names[name]

    def rename(self, old: Any, new: Any) -> None:
        """Give a file or folder another name."""
        node = self._find(old)
        folder, name = self._place(new)
        source, old_name = self._place(old)
        del source.names[old_name]
        folder.names[name] = node

    def listdir(self, folder: Any) -> list[str]:
        """Return the names in a folder."""
        return list(self._node(folder).names)

    def scan(self, path: Any) -> dict[str, int]:
        """Return the names in a folder with their kinds."""
        return {name: stat.S_IFMT(node.mode) for name, node in self._find(path).names.items()}

    def realpath(self, path: Any) -> str:
        """Return a path without links."""
        return str(path)

    # Facts.

    def stat(self, path: Any, *, dir_fd: int | None = None, follow_symlinks: bool = True) -> Any:
        """Return the facts of a path; there are no links."""
        del follow_symlinks
        return _status(self._find(path, dir_fd))

    def fstat(self, fd: int) -> Any:
        """Return the facts of an open file."""
        return _status(self._open[fd])

    def utime(self, path: Any, *, ns: tuple[int, int]) -> None:
        """Set the time of a file."""
        self._find(path).modified_ns = ns[1]

    def access(self, path: Any, _mode: int) -> bool:
        """Tell whether a path exists; anyone may do everything with it."""
        return bool(self._find(path))

    def statvfs(self, _path: Any) -> Any:
        """Return that there is much room."""
        return os.statvfs_result((4096, 4096, 1 << 20, 1 << 20, 1 << 20, 9, 9, 9, 0, 255))

    def lockf(self, fd: int, _flags: int) -> None:
        """Lock a file: no other process has this disk."""
        assert fd in self._open

    def fcntl(self, _fd: int, _call: int, question: bytes) -> bytes:
        """Return that nobody has a lock."""
        return fcntl.F_UNLCK.to_bytes(2, "little") + question[2:]

    # Bytes.

    def pread(self, fd: int, size: int, position: int) -> bytes:
        """Read at a position."""
        return bytes(self._open[fd].data[position : position + size])

    def preadv(self, fd: int, buffers: list[Any], position: int, _flags: int = 0) -> int:
        """Read at a position, into one buffer."""
        view = memoryview(buffers[0]).cast("B")
        data = self.pread(fd, len(view), position)
        view[: len(data)] = data
        return len(data)

    def pwrite(self, fd: int, data: Any, position: int) -> int:
        """Write at a position."""
        content = bytes(data)
        held = self._open[fd].data
        held.extend(bytes(max(0, position - len(held))))
        held[position : position + len(content)] = content
        return len(content)

    def read(self, fd: int, size: int) -> bytes:
        """Read on from where the last call ended."""
        data = self.pread(fd, size, self._ends[fd])
        self._ends[fd] += len(data)
        return data

    def ftruncate(self, fd: int, size: int) -> None:
        """Cut a file."""
        del self._open[fd].data[size:]

    def fsync(self, fd: int) -> None:
        """Do nothing: the power stays."""
        assert fd in self._open

    def sync_file_range(self, fd: int, *_: int) -> None:
        """Do nothing, likewise."""
        assert fd in self._open

    def _node(self, place: Any) -> _Node:
        return self._open[place] if isinstance(place, int) else self._find(place)

    def _find(self, path: Any, dir_fd: int | None = None) -> _Node:
        folder, name = self._place(path, dir_fd)
        if not name:
            return folder
        try:
            return folder.names[name]
        except KeyError:
            raise _error(errno.ENOENT, path) from None

    def _place(self, path: Any, dir_fd: int | None = None) -> tuple[_Node, str]:
        """Return the folder of a path, and the name in it; no name is the root itself."""
        node = self._root
        if dir_fd is not None:
            return self._open[dir_fd], os.fspath(path)
        parts = PurePath(path).relative_to(self._prefix).parts
        for part in parts[:-1]:
            try:
                node = node.names[part]
            except KeyError:
                raise _error(errno.ENOENT, path) from None
        return node, parts[-1] if parts else ""


def _walk(folder: _Node, above: str) -> Iterator[str]:
    for name, node in folder.names.items():
        if stat.S_ISDIR(node.mode):
            yield from _walk(node, f"{above}{name}/")
        else:
            yield above + name


def _status(node: _Node) -> os.stat_result:
    ns = node.modified_ns
    times = (ns // 10**9,) * 3 + (ns / 1e9,) * 3 + (ns,) * 3
    return os.stat_result((node.mode, node.inode, 1, 1, 0, 0, len(node.data), *times))


def _error(number: int, path: Any) -> OSError:
    return OSError(number, os.strerror(number), os.fspath(path))


def _refuse(name: str) -> Callable[..., Any]:
    def refuse(*_: Any, **__: Any) -> Any:
        raise AssertionError(f"the disk in memory has no {name}")

    return refuse

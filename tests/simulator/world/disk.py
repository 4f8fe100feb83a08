"""The simulated disk: it answers every call of the disk's seam from memory.

It knows what is durable of bytes and of names. `Disk.kill` gives the disk that the next process
finds, `Disk.cut` one that a power failure may leave. A cure is judged by these promises:

| change | what a kill leaves | what a power failure leaves |
| --- | --- | --- |
| bytes written, then the file fsynced | all | all |
| bytes written since the last fsync | all; of the write in progress a first part | each write whole, torn, lost, or the size without the bytes: of several any subset |
| a file cut since the last fsync | yes | of several cuts the first so many; later writes may be kept without the cut |
| bytes under an fsync that failed | all | as never fsynced, even after an fsync that succeeds; only bytes that are written again are durable then |
| a name created, linked, replaced or removed, then the folder fsynced | yes | yes |
| names changed since the last fsync of the folder, or under one that failed | all | the first so many changes of this folder; other folders apart |
| a rename in a folder | yes | one change: the old name or the new one; with the new one the replaced file is gone |
| a rename between folders | yes | one change, too: an fsync of either folder makes it durable, with all earlier changes of both |
| a file fsynced, its folder not | name and bytes | perhaps no name; with a name all bytes |
| a folder fsynced, a file in it not | name and bytes | the name; bytes as above, perhaps none |
| a folder created, its parent not fsynced | yes | perhaps no folder, then nothing that was in it |
| room reserved, times and modes | yes | yes |
| locks, descriptors, files without a name | gone | gone |

Differs from a real disk: there are no links, no users, one file system; a hole takes room; the
working folder is ``/``. Outside of the prefix stands what `Disk.replace` puts there.
"""  # noqa: E501  # a row is a line

from __future__ import annotations

import errno
import fcntl as real_fcntl
import itertools
import os
import re
import stat as st
from typing import TYPE_CHECKING, Any, Final, TypeVar

from siltstone.storage.files import disk as seam
from tests.simulator.world.inodes import (
    BLOCK,
    File,
    Folder,
    Node,
    Pair,
    apply,
    copied,
    find_named,
    lose_power,
    status_of,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from random import Random

    from _typeshed import ReadableBuffer, StrPath, WriteableBuffer

FIRST: Final = 1 << 20
"""The lowest descriptor: no real one is as high."""
DESCRIPTORS: Final = "/proc/self/fd"
"""The size of this folder is the number of descriptors; it stands in no tree."""
KEEP_SIZE: Final = 1
NAME_BYTES: Final = 255
_CHARACTER_BYTES: Final = 4
_ODD: Final = re.compile(r"/\.{0,2}(/|$)|^\.{1,2}(/|$)")
"""Matches a path that has another, shorter form."""
CALLS: Final = tuple(
    name
    for name, value in vars(seam).items()
    if callable(value) and not name.startswith("_") and not isinstance(value, type)
)
"""The functions of the seam."""


def _close(fd: int) -> None:
    """Close a real descriptor: what outlives a simulated disk may still close one of that."""
    if fd < FIRST:
        os.close(fd)


_REAL: Final = {name: getattr(seam, name) for name in CALLS} | {"close": _close}
_LOCKED: Final = seam.locked
_NUMBERS: Final = itertools.count(FIRST)
"""Descriptors of all disks of this process: what is freed late closes no file of another disk."""
_Kind = TypeVar("_Kind", bound=Node)


class Torn(BaseException):
    """The process is killed in the middle of a write: ``before`` raises it.

    ``size`` bytes are still written; then ``die`` is called, which may never return.
    """

    def __init__(self, size: int, die: Callable[[], object] = lambda: None) -> None:
        super().__init__(size)
        self.size = size
        self.die = die


class Opened:
    """A file or folder that has a descriptor."""

    __slots__ = ("appends", "at", "node", "path", "reads", "writes")

    def __init__(self, node: Node, path: str, flags: int) -> None:
        self.node, self.path, self.at = node, path, 0
        way = flags & os.O_ACCMODE
        self.reads, self.writes = way != os.O_WRONLY, way != os.O_RDONLY
        self.appends = bool(flags & os.O_APPEND)


class Descriptors(dict[int, Opened]):
    """Open files and folders by their descriptors."""

    def __missing__(self, fd: int) -> Opened:
        raise _error(errno.EBADF)


class Disk:
    """See above.

    ``before(kind, path, size)`` is called first by every call that reaches the disk, and returns
    how many bytes shall be written or read. The kind is the name of the function; that of an `open`
    that may create is ``create``. ``before`` may raise OSError: then nothing happens, but a
    descriptor is closed all the same, and bytes under an fsync become doubtful. It may raise `Torn`
    in a write, or any other BaseException. It may let other threads run: what the call finds is
    looked up afterwards.
    """

    def __init__(
        self,
        before: Callable[[str, str, int], int],
        now_ns: Callable[[], int],
        prefix: str,
        *,
        room: int = 1 << 40,
        inodes: int = 1 << 30,
        descriptors: int = 1 << 16,
        numbers: Iterator[int] | None = None,
    ) -> None:
        self.before, self.now_ns, self.prefix = before, now_ns, prefix
        self.room, self.inodes, self.descriptors = room, inodes, descriptors
        self.used = self.used_inodes = 0
        self.order: Callable[[list[str]], list[str]] | None = None
        """Returns names in the order in which a folder has them; None: that of their creation."""
        self.after_fsync: Callable[[], None] = lambda: None
        """Is called by an fsync when all is durable."""
        self.is_cold: Callable[[str], bool] | None = None
        """Tells whether a file's pages are not in memory, by its path."""
        self._numbers = _NUMBERS if numbers is None else numbers
        self._first = next(self._numbers)
        self._last_inode = 1
        self._root = Folder(1, 0o755, 0)
        self._open = Descriptors()
        self._places: dict[str, tuple[Folder, str]] = {}
        self._make_folders(prefix)

    # What the world does with a disk.

    def install(self) -> None:
        """Answer every call of the seam, compiled code's too; no file is locked."""
        for name in CALLS:
            setattr(seam, name, getattr(self, name))
        seam.route.through = seam
        seam.locked = set()

    @staticmethod
    def uninstall() -> None:
        """Let the system answer again."""
        for name, function in _REAL.items():
            setattr(seam, name, function)
        seam.route.through = None
        seam.locked = _LOCKED

    @property
    def open_files(self) -> dict[int, str]:
        """Return the path of every descriptor."""
        return {fd: each.path for fd, each in self._open.items()}

    @property
    def nameless(self) -> list[str]:
        """Return the last path of every open file that has no name any more."""
        return [
            each.path
            for each in self._open.values()
            if isinstance(each.node, File) and not each.node.links
        ]

    def folder(self, path: str) -> dict[str, bytes]:
        """Return all files below a folder, by the rest of their paths."""
        found = self._find(path)
        assert isinstance(found, Folder)
        return {name: bytes(file.data) for name, file in found.files()}

    def sure(self, path: str) -> dict[str, bytes]:
        """Return the files of a folder, and of their bytes, which the power leaves in any case."""
        found = self._find(path)
        assert isinstance(found, Folder)
        files = ((name, node) for name, node in found.durable.items() if isinstance(node, File))
        return {name: file.sure() for name, file in files}

    def unsynced(self, path: str) -> Iterator[str]:
        """Yield the files below a folder with changes that no fsync has met, not even in vain."""
        found = self._find(path)
        assert isinstance(found, Folder)
        for name, file in found.files():
            if file.pending and not file.doubtful and file.durable != file.data:
                yield name

    def rooms(self, path: str) -> Iterator[tuple[str, int, int]]:
        """Yield all files below a folder: path, size, and the room that each takes."""
        found = self._find(path)
        assert isinstance(found, Folder)
        for name, file in found.files():
            yield name, len(file.data), file.held

    def forgive(self, path: str) -> None:
        """Let the next fsync make bytes below a folder durable over which one has failed.

        For a process that cannot know of the failure.
        """
        found = self._find(path)
        assert isinstance(found, Folder)
        for _, file in found.files():
            file.forgiven = True

    def replace(self, path: str, content: bytes, mode: int = 0o644) -> None:
        """Give a file other bytes, as if it had always had them; a missing one is made."""
        self._make_folders(path.rpartition("/")[0])
        folder, name = self._place(path)
        node = folder.names.get(name)
        if not isinstance(node, File):
            node = folder.names[name] = folder.durable[name] = self._new(File, mode)
            node.links = 1
        node.data, node.durable = bytearray(content), bytearray(content)
        node.pending, node.doubtful = [], []
        self._hold(node, max(len(content), node.reserved))

    def kill(self) -> Disk:
        """Return the disk that the next process finds; this one is empty then.

        Nothing becomes durable by a kill: `cut` on the new disk gives what the power leaves.
        """
        heir = self._heir(self._root)
        for each in self._open.values():
            heir._let_go(each.node)
        self._first, self._open, self._places = heir._first, Descriptors(), {}
        self._root = Folder(1, 0o755, 0)
        return heir

    def copy(self) -> Disk:
        """Return a disk with the same files and the same promises, and no descriptors."""
        return self._heir(copied(self._root))._counted()

    def cut(self, rng: Random, late: float = 0.0) -> Disk:
        """Return a disk that a power failure may leave; this one does not change."""
        root = copied(self._root)
        lose_power(root, rng, late)
        return self._heir(root)._counted()

    def _heir(self, root: Folder) -> Disk:
        heir = Disk.__new__(type(self))
        heir.__dict__.update(self.__dict__)
        heir._first = next(self._numbers)
        heir._root, heir._open, heir._places = root, Descriptors(), {}
        return heir

    def _counted(self) -> Disk:
        nodes = find_named(self._root)
        self.used_inodes, self.used = len(nodes) - 1, 0
        for node in nodes:
            if isinstance(node, File):
                node.held = 0
                self._hold(node, max(len(node.data), node.reserved))
        return self

    def _make_folders(self, path: str) -> None:
        folder = self._root
        for part in filter(None, path.split("/")):
            if part not in folder.names:
                folder.names[part] = folder.durable[part] = self._new(Folder, 0o755)
            node = folder.names[part]
            assert isinstance(node, Folder)
            folder = node

    # Names.

    def open(
        self, path: StrPath, flags: int, mode: int = 0o777, *, dir_fd: int | None = None
    ) -> int:
        """Open a file or a folder, or create a file."""
        creates = flags & os.O_CREAT
        text, folder, name, node = self._reach("create" if creates else "open", path, dir_fd)
        self._check_descriptors(path)
        if node is None:
            if not creates:
                raise _error(errno.ENOENT, path)
            node = self._created(File, folder, name, mode, path)
            node.links = 1
        elif creates and flags & os.O_EXCL:
            raise _error(errno.EEXIST, path)
        elif isinstance(node, Folder):
            if creates or flags & os.O_ACCMODE:
                raise _error(errno.EISDIR, path)
        elif flags & os.O_DIRECTORY:
            raise _error(errno.ENOTDIR, path)
        elif flags & os.O_TRUNC:
            self._truncate(node, 0)
        return self._opened(node, text, flags)

    def memfd_create(self, name: str, flags: int = 0) -> int:
        """Create a file without a name."""
        del flags
        self.before("memfd_create", name, 0)
        self._check_descriptors(name)
        return self._opened(self._new(File, 0o777), f"/memfd:{name}", os.O_RDWR)

    def _check_descriptors(self, path: StrPath) -> None:
        if len(self._open) >= self.descriptors:
            raise _error(errno.EMFILE, path)

    def _opened(self, node: Node, path: str, flags: int) -> int:
        fd = next(self._numbers)
        self._open[fd] = Opened(node, path, flags)
        if isinstance(node, File):
            node.opens += 1
        return fd

    def close(self, fd: int) -> None:
        """Close a descriptor; a real one, and one of a process that was killed, are not ours."""
        if fd < self._first:
            _close(fd)
            return
        try:
            self._ask("close", fd)
        except OSError:
            if fd in self._open:
                self._let_go(self._open.pop(fd).node)
            raise
        self._let_go(self._open.pop(fd).node)

    def mkdir(self, path: StrPath, mode: int = 0o777) -> None:
        """Create a folder."""
        _, folder, name, node = self._reach("mkdir", path)
        if node is not None:
            raise _error(errno.EEXIST, path)
        self._created(Folder, folder, name, mode, path)

    def unlink(self, path: StrPath, *, dir_fd: int | None = None) -> None:
        """Take the name of a file away."""
        _, folder, name, node = self._reach("unlink", path, dir_fd)
        if node is None:
            raise _error(errno.ENOENT, path)
        if isinstance(node, Folder):
            raise _error(errno.EISDIR, path)
        self._change(folder, name, None)
        self._unnamed(node)

    def rmdir(self, path: StrPath, *, dir_fd: int | None = None) -> None:
        """Take an empty folder away."""
        _, folder, name, node = self._reach("rmdir", path, dir_fd)
        if node is None:
            raise _error(errno.ENOENT, path)
        if isinstance(node, File):
            raise _error(errno.ENOTDIR, path)
        if node.names:
            raise _error(errno.ENOTEMPTY, path)
        self._change(folder, name, None)
        self._unnamed(node)

    def rename(self, src: StrPath, dst: StrPath) -> None:
        """Give a file or folder another name, and take that from what has it."""
        old, new = self._text(src), self._text(dst)
        self.before("rename", new, 0)
        source, name = self._place(old, None, src, dst)
        target, other = self._place(new, None, src, dst)
        node, there = source.names.get(name), target.names.get(other)
        if node is None:
            raise _error(errno.ENOENT, src, dst)
        if there is node:
            return
        if isinstance(node, Folder) and f"{new}/".startswith(f"{old}/"):
            raise _error(errno.EINVAL, src, dst)
        if isinstance(there, Folder):
            is_above = f"{old}/".startswith(f"{new}/")
            if isinstance(node, File) and not is_above:
                raise _error(errno.EISDIR, src, dst)
            if there.names:
                raise _error(errno.ENOTEMPTY, src, dst)
        elif there is not None and isinstance(node, Folder):
            raise _error(errno.ENOTDIR, src, dst)
        del source.names[name]
        target.names[other] = node
        source.mtime = target.mtime = self.now_ns()
        if source is target:
            source.pending.append((name, other, node, None))
        else:
            pair = Pair(source, target)
            source.pending.append((name, None, None, pair))
            target.pending.append((None, other, node, pair))
        if there is not None:
            self._unnamed(there)
        self._moved(node, old, new)

    def _moved(self, node: Node, old: str, new: str) -> None:
        """Know what is open by its new path."""
        within = old
        if isinstance(node, Folder):
            self._places.clear()
            within = f"{old}/"
        for each in self._open.values():
            if each.path == old or (within != old and each.path.startswith(within)):
                each.path = new + each.path[len(old) :]

    def link(
        self,
        src: StrPath,
        dst: StrPath,
        *,
        src_dir_fd: int | None = None,
        dst_dir_fd: int | None = None,
    ) -> None:
        """Give a file one more name."""
        old, new = self._text(src, src_dir_fd), self._text(dst, dst_dir_fd)
        self.before("link", new, 0)
        source, name = self._place(old, src_dir_fd, src, dst)
        node = source.names.get(name)
        if node is None:
            raise _error(errno.ENOENT, src, dst)
        folder, other = self._place(new, dst_dir_fd, src, dst)
        if not folder.links:
            raise _error(errno.ENOENT, src, dst)
        if other in folder.names:
            raise _error(errno.EEXIST, src, dst)
        if isinstance(node, Folder):
            raise _error(errno.EPERM, src, dst)
        node.links += 1
        self._change(folder, other, node)

    def listdir(self, path: StrPath | int = "/") -> list[str]:
        """Return the names in a folder."""
        return list(self._list("listdir", path))

    def scan(self, path: StrPath) -> dict[str, int]:
        """Return the names in a folder with their kinds."""
        return {name: st.S_IFMT(node.mode) for name, node in self._list("scan", path).items()}

    def _list(self, kind: str, path: StrPath | int) -> dict[str, Node]:
        if isinstance(path, int):
            node = self._ask(kind, path).node
        else:
            node = self._reached(kind, path)
            self._check_descriptors(path)
        if isinstance(node, File):
            raise _error(errno.ENOTDIR, path)
        if self.order is None:
            return node.names
        return {name: node.names[name] for name in self.order(list(node.names))}

    # Facts.

    def stat(
        self, path: StrPath, *, dir_fd: int | None = None, follow_symlinks: bool = True
    ) -> os.stat_result:
        """Return the facts of a path; there are no links."""
        del follow_symlinks
        if path == DESCRIPTORS:
            self.before("stat", DESCRIPTORS, 0)
            return os.stat_result((st.S_IFDIR | 0o500, 1, 2, 2, 0, 0, len(self._open), 0, 0, 0))
        return status_of(self._reached("stat", path, dir_fd))

    def fstat(self, fd: int) -> os.stat_result:
        """Return the facts of what is open."""
        return status_of(self._ask("fstat", fd).node)

    def access(self, path: StrPath, mode: int) -> bool:
        """Tell whether a path exists: everything may be done with it."""
        del mode
        try:
            return bool(self._reached("access", path))
        except OSError:
            return False

    def utime(self, path: StrPath, *, ns: tuple[int, int]) -> None:
        """Set the time of a file."""
        text = self._text(path)
        self.before("utime", text, 0)
        self._find(text).mtime = ns[1]

    def statvfs(self, path: StrPath) -> os.statvfs_result:
        """Return how much room is free, in blocks."""
        self._reached("statvfs", path)
        free = max(0, self.room - self.used) // BLOCK
        left = max(0, self.inodes - self.used_inodes)
        blocks = (self.room // BLOCK, free, free, self.inodes, left, left)
        return os.statvfs_result((BLOCK, BLOCK, *blocks, 0, NAME_BYTES))

    def lockf(self, fd: int, cmd: int, *_: int) -> None:
        """Lock a file: no other process has this disk."""
        del cmd
        self._ask("lockf", fd)

    def fcntl(self, fd: int, cmd: int, arg: bytes) -> bytes:
        """Return that nobody else has a lock."""
        assert cmd == real_fcntl.F_GETLK
        self._ask("fcntl", fd)
        return real_fcntl.F_UNLCK.to_bytes(2, "little") + arg[2:]

    # Bytes.

    def pread(self, fd: int, size: int, position: int) -> bytes:
        """Read at a position."""
        size = self.before("pread", self._readable(fd)[0].path, size)
        return bytes(self._readable(fd)[1].data[position : position + size])

    def preadv(
        self, fd: int, buffers: Sequence[WriteableBuffer], position: int, flags: int = 0
    ) -> int:
        """Read at a position into buffers; only what is in memory, if the flags say so."""
        views = [memoryview(each).cast("B") for each in buffers]
        size = sum(map(len, views))
        left = self.before("preadv", self._readable(fd)[0].path, size)
        file, node = self._readable(fd)
        if flags & os.RWF_NOWAIT and self.is_cold is not None and self.is_cold(file.path):
            raise _error(errno.EAGAIN)
        done = 0
        for view in views:
            start = position + done
            piece = node.data[start : start + min(len(view), left - done)]
            view[: len(piece)] = piece
            done += len(piece)
        return done

    def read(self, fd: int, size: int) -> bytes:
        """Read on from where the last call ended."""
        size = self.before("read", self._readable(fd)[0].path, size)
        file, node = self._readable(fd)
        data = bytes(node.data[file.at : file.at + size])
        file.at += len(data)
        return data

    def pwrite(self, fd: int, data: ReadableBuffer, position: int) -> int:
        """Write at a position."""
        path = self._writable(fd)[0].path
        with memoryview(data) as view, view.cast("B") as octets:
            try:
                size = self.before("pwrite", path, len(octets))
            except Torn as torn:
                self._put(fd, bytes(octets[: torn.size]), position)
                torn.die()
                raise
            return self._put(fd, bytes(octets[:size]), position)

    def write(self, fd: int, data: ReadableBuffer) -> int:
        """Write where the last call ended, or at the end of the file."""
        path = self._writable(fd)[0].path
        piece = bytes(data)
        try:
            size = self.before("write", path, len(piece))
        except Torn as torn:
            self._write(fd, piece[: torn.size])
            torn.die()
            raise
        return self._write(fd, piece[:size])

    def _write(self, fd: int, piece: bytes) -> int:
        file, node = self._writable(fd)
        at = len(node.data) if file.appends else file.at
        written = self._put(fd, piece, at)
        file.at = at + written
        return written

    def copy_file_range(
        self, src: int, dst: int, count: int, offset_src: int, offset_dst: int
    ) -> int:
        """Copy bytes of one file to another."""
        self._readable(src)
        file = self._writable(dst)[0]
        if file.appends:
            raise _error(errno.EBADF)
        path = file.path
        try:
            size = self.before("copy_file_range", path, count)
        except Torn as torn:
            self._copy(src, dst, torn.size, offset_src, offset_dst)
            torn.die()
            raise
        return self._copy(src, dst, size, offset_src, offset_dst)

    def _copy(self, src: int, dst: int, size: int, start: int, position: int) -> int:
        piece = self._readable(src)[1].data[start : start + size]
        return self._put(dst, bytes(piece), position)

    def _put(self, fd: int, piece: bytes, position: int) -> int:
        """Write what there is room for."""
        file, node = self._writable(fd)
        if file.appends:  # as Linux, which ignores the position then
            position = len(node.data)
        end = position + len(piece)
        if end > node.held and piece:
            free = max(0, self.room - self.used)
            if end - node.held > free:
                end = node.held + free
                piece = piece[: max(0, end - position)]
                if not piece:
                    raise _error(errno.ENOSPC)
            self._hold(node, end)
        if piece:
            apply(node.data, position, piece)
            node.pending.append((position, piece))
            node.mtime = self.now_ns()
        return len(piece)

    def ftruncate(self, fd: int, size: int) -> None:
        """Cut a file, or make it longer by zeros."""
        self._ask("ftruncate", fd)
        node = self._writable(fd, errno.EINVAL)[1]
        self._check_room(node, size)
        self._truncate(node, size)

    def fallocate(self, fd: int, mode: int, start: int, size: int) -> None:
        """Reserve room for a file."""
        self._ask("fallocate", fd, size)
        node = self._writable(fd)[1]
        if mode != KEEP_SIZE:
            raise _error(errno.EOPNOTSUPP)
        self._check_room(node, start + size)
        node.reserved = max(node.reserved, start + size)
        self._hold(node, max(node.held, start + size))

    def fsync(self, fd: int) -> None:
        """Make bytes, or names, durable."""
        node = self._open[fd].node
        try:
            self._ask("fsync", fd)
        except OSError:
            if isinstance(node, File):
                node.doubt()
            raise
        if isinstance(node, Folder):
            node.settle(len(node.pending))
        else:
            node.settle()
        self.after_fsync()

    def sync_file_range(self, fd: int, start: int, size: int, flags: int) -> None:
        """Have the kernel begin to write: nothing is durable by that."""
        del start, size, flags
        self._ask("sync_file_range", fd)

    def posix_fadvise(self, fd: int, start: int, size: int, advice: int) -> None:
        """Do nothing: pages come and go as `is_cold` says."""
        del start, size, advice
        self._ask("posix_fadvise", fd)

    # Inside.

    def _reach(
        self, kind: str, path: StrPath, dir_fd: int | None = None
    ) -> tuple[str, Folder, str, Node | None]:
        """Ask, and return a path, the folder in which it stands, its name there and what it is."""
        text = self._text(path, dir_fd)
        self.before(kind, text, 0)
        folder, name = self._place(text, dir_fd, path)
        return text, folder, name, folder.names.get(name) if name else folder

    def _reached(self, kind: str, path: StrPath, dir_fd: int | None = None) -> Node:
        node = self._reach(kind, path, dir_fd)[3]
        if node is None:
            raise _error(errno.ENOENT, path)
        return node

    def _ask(self, kind: str, fd: int, size: int = 0) -> Opened:
        self.before(kind, self._open[fd].path, size)
        return self._open[fd]

    def _readable(self, fd: int) -> tuple[Opened, File]:
        file = self._open[fd]
        if not file.reads:
            raise _error(errno.EBADF)
        if not isinstance(file.node, File):
            raise _error(errno.EISDIR)
        return file, file.node

    def _writable(self, fd: int, refusal: int = errno.EBADF) -> tuple[Opened, File]:
        file = self._open[fd]
        if not file.writes or not isinstance(file.node, File):
            raise _error(refusal)
        return file, file.node

    def _text(self, path: StrPath, dir_fd: int | None = None) -> str:
        text = os.fspath(path)
        if dir_fd is not None and not text.startswith("/"):
            return f"{self._open[dir_fd].path}/{text}"
        return text

    def _place(self, text: str, dir_fd: int | None = None, *told: StrPath) -> tuple[Folder, str]:
        """Return the folder in which a path stands, and its name there; the root has no name."""
        if dir_fd is not None:
            file = self._open[dir_fd]
            if isinstance(file.node, File):
                raise _error(errno.ENOTDIR, *told)
            name = text[len(file.path) + 1 :]
            if "/" not in name:
                return file.node, name
        place = self._places.get(text)
        if place is None:
            place = self._places[text] = self._walk(text, told)
        return place

    def _walk(self, text: str, told: tuple[StrPath, ...]) -> tuple[Folder, str]:
        if "\0" in text:
            raise ValueError("embedded null byte")
        if not text:
            raise _error(errno.ENOENT, *told)
        if _ODD.search(text):
            text = os.path.normpath(text).strip("/")
        above, _, name = text.rpartition("/")
        node: Node | None = self._root
        if above:
            folder, own = self._place(above, None, *told)
            node = folder.names.get(own)
        if not isinstance(node, Folder):
            raise _error(errno.ENOENT if node is None else errno.ENOTDIR, *told)
        if len(name) * _CHARACTER_BYTES > NAME_BYTES < len(os.fsencode(name)):
            raise _error(errno.ENAMETOOLONG, *told)
        return node, name

    def _find(self, text: str) -> Node:
        folder, name = self._place(text)
        node = folder.names.get(name) if name else folder
        if node is None:
            raise _error(errno.ENOENT)
        return node

    def _new(self, kind: type[_Kind], mode: int) -> _Kind:
        self._last_inode += 1
        self.used_inodes += 1
        return kind(self._last_inode, mode & ~0o022, self.now_ns())

    def _created(
        self, kind: type[_Kind], folder: Folder, name: str, mode: int, path: StrPath
    ) -> _Kind:
        if not folder.links:
            raise _error(errno.ENOENT, path)
        if self.used_inodes >= self.inodes:
            raise _error(errno.ENOSPC, path)
        node = self._new(kind, mode)
        self._change(folder, name, node)
        return node

    def _change(self, folder: Folder, name: str, node: Node | None) -> None:
        if node is None:
            del folder.names[name]
            folder.pending.append((name, None, None, None))
        else:
            folder.names[name] = node
            folder.pending.append((None, name, node, None))
        folder.mtime = self.now_ns()

    def _unnamed(self, node: Node) -> None:
        """Count one name less."""
        node.links -= 1
        if isinstance(node, Folder):
            self.used_inodes -= 1
            self._places.clear()
        elif not node.links and not node.opens:
            self._free(node)

    def _let_go(self, node: Node) -> None:
        """Count one descriptor less."""
        if isinstance(node, File):
            node.opens -= 1
            if not node.links and not node.opens:
                self._free(node)

    def _free(self, node: File) -> None:
        self.used_inodes -= 1
        self.used -= node.held

    def _hold(self, node: File, size: int) -> None:
        self.used += size - node.held
        node.held = size

    def _check_room(self, node: File, size: int) -> None:
        if size - node.held > max(0, self.room - self.used):
            raise _error(errno.ENOSPC)

    def _truncate(self, node: File, size: int) -> None:
        node.reserved = 0
        self._hold(node, size)
        if size != len(node.data):
            apply(node.data, size, None)
            node.pending.append((size, None))
        node.mtime = self.now_ns()


def _error(number: int, *paths: Any) -> OSError:
    told = (paths[0], None, paths[1]) if len(paths) > 1 else paths
    return OSError(number, os.strerror(number), *told)

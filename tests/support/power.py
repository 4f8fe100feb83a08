"""A disk that can lose its power.

A power failure keeps fsynced data, and half of the first bytes that were written to each file since
its last fsync; all else is lost.
"""

import os
import shutil
import stat
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from tests.support.faults import Disk

CHANGES = frozenset(
    {"pwrite", "create", "rename", "unlink", "mkdir", "rmdir", "ftruncate", "fsync"}
)


@dataclass(slots=True, eq=False)
class _Change:
    """A change that is not sure yet, of one file's bytes or one folder's names."""

    of: int  # the inode
    undo: Callable[[], None]
    position: int = -1  # where the bytes were written
    data: bytes = b""


@dataclass
class PowerDisk(Disk):
    """See above; ``cellar`` is an empty folder of the same file system, for what has lost its name.

    No fsync is made.
    """

    cellar: Path = Path()
    _changes: list[_Change] = field(default_factory=list)
    _folders: dict[int, Path] = field(default_factory=dict)  # where each folder is now
    _remade: dict[int, int] = field(default_factory=dict)  # folders that came back, by inode
    _stored: set[int] = field(default_factory=set)  # inodes of files in the cellar

    def cut_power(self) -> None:
        """Reduce the disk to what a power failure leaves."""
        first = {change.of: change for change in reversed(self._changes)}
        for change in reversed(self._changes):
            change.undo()
            if change is first[change.of] and change.position >= 0:
                self._write(change.of, change.position, change.data[: len(change.data) // 2])
        self._changes.clear()

    def _make(self, kind: str, real: Callable[..., Any], path: str, *given: Any) -> Any:
        if kind not in CHANGES:
            return real(*given)
        return getattr(self, f"_note_{kind}")(real, *given)

    def _note_pwrite(self, real: Callable[..., int], fd: int, data: Any, position: int) -> int:
        undo = self._keep_bytes(fd, position, len(data))
        written = real(fd, data, position)
        of = os.fstat(fd).st_ino
        self._changes.append(_Change(of, undo, position, bytes(data[:written])))
        return written

    def _note_ftruncate(self, real: Callable[..., None], fd: int, size: int) -> None:
        whole = os.fstat(fd).st_size
        undo = self._keep_bytes(fd, size, max(0, whole - size))
        real(fd, size)
        if size != whole:
            self._changes.append(_Change(os.fstat(fd).st_ino, undo))

    def _note_fsync(self, _: Callable[..., None], fd: int) -> None:
        of = os.fstat(fd).st_ino
        self._changes = [change for change in self._changes if change.of != of]

    def _note_create(self, real: Callable[..., int], path: Any, flags: int, *rest: int) -> int:
        try:
            before = os.stat(path)  # noqa: PTH116
        except FileNotFoundError:
            before = None
        if before is not None and before.st_size and flags & os.O_TRUNC:
            self._store(path, before.st_ino)
            undo = partial(self._write, before.st_ino, 0, Path(path).read_bytes())
            self._changes.append(_Change(before.st_ino, undo))
        fd = real(path, flags, *rest)
        if before is None:
            self._store(path, os.fstat(fd).st_ino)
            of, name = self._name(path)
            self._changes.append(_Change(of, lambda: self._take_away(of, name)))
        return fd

    def _note_unlink(self, real: Callable[..., None], path: Any) -> None:
        status = os.stat(path)  # noqa: PTH116
        inode = status.st_ino
        if not stat.S_ISDIR(status.st_mode):
            self._store(path, inode)
        of, name = self._name(path)
        real(path)
        self._changes.append(_Change(of, lambda: self._restore(inode, of, name)))

    def _note_rename(self, real: Callable[..., None], old: Any, new: Any) -> None:
        old_status = os.stat(old)  # noqa: PTH116
        replaced = None
        if stat.S_ISREG(old_status.st_mode):
            self._store(old, old_status.st_ino)
            if os.path.exists(new):  # noqa: PTH110
                replaced = os.stat(new).st_ino  # noqa: PTH116
                self._store(new, replaced)
        of, old_name = self._name(old)
        _, new_name = self._name(new)
        real(old, new)

        def undo() -> None:
            if not self._is_there(of):
                return
            os.rename(self._at(of, new_name), self._at(of, old_name))  # noqa: PTH104
            if old_status.st_ino in self._folders:
                self._folders[old_status.st_ino] = self._at(of, old_name)
            if replaced is not None:
                self._restore(replaced, of, new_name)

        if old_status.st_ino in self._folders:
            self._folders[old_status.st_ino] = Path(new)
        self._changes.append(_Change(of, undo))

    def _note_mkdir(self, real: Callable[..., None], path: Any, *rest: int) -> None:
        real(path, *rest)
        of, name = self._name(path)
        self._changes.append(_Change(of, lambda: shutil.rmtree(self._at(of, name))))

    def _note_rmdir(self, real: Callable[..., None], path: Any) -> None:
        inode = os.stat(path).st_ino  # noqa: PTH116
        of, name = self._name(path)
        real(path)

        def undo() -> None:
            self._at(of, name).mkdir()
            self._folders[inode] = self._at(of, name)
            self._remade[inode] = os.stat(self._at(of, name)).st_ino  # noqa: PTH116

        self._changes.append(_Change(of, undo))

    def _name(self, path: Any) -> tuple[int, str]:
        """Return the folder of a name, which is where it is now, and the name in it."""
        whole = Path(path)
        of = os.stat(whole.parent).st_ino  # noqa: PTH116
        self._folders[of] = whole.parent
        return of, whole.name

    def _at(self, of: int, name: str) -> Path:
        return self._folders[of] / name

    def _store(self, path: Any, inode: int) -> None:
        """Keep a file that may lose its name."""
        if inode not in self._stored:
            os.link(path, self.cellar / str(inode))
            self._stored.add(inode)

    def _restore(self, inode: int, of: int, name: str) -> None:
        """Give a file its name back, unless its folder is gone."""
        if self._is_there(of):
            self._at(of, name).unlink(missing_ok=True)
            os.link(self.cellar / str(inode), self._at(of, name))

    def _take_away(self, of: int, name: str) -> None:
        if self._is_there(of):
            self._at(of, name).unlink(missing_ok=True)

    def _is_there(self, of: int) -> bool:
        """Tell whether a folder still exists, and no other in its place."""
        try:
            return os.stat(self._folders[of]).st_ino in {of, self._remade.get(of)}  # noqa: PTH116
        except FileNotFoundError:
            return False

    def _keep_bytes(self, fd: int, position: int, count: int) -> Callable[[], None]:
        """Return what undoes a change of some bytes of a file."""
        status = os.fstat(fd)
        before = os.pread(fd, count, position) if position < status.st_size else b""
        self._store(f"/proc/self/fd/{fd}", status.st_ino)

        def undo() -> None:
            self._write(status.st_ino, position, before)
            os.truncate(self.cellar / str(status.st_ino), status.st_size)

        return undo

    def _write(self, inode: int, position: int, data: bytes) -> None:
        fd = os.open(self.cellar / str(inode), os.O_WRONLY)
        try:
            os.pwrite(fd, data, position)
        finally:
            os.close(fd)

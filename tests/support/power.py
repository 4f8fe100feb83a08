"""A disk that knows what a power failure leaves of it, and that a process may die on.

What was fsynced is sure. Of what was written to a file since its last fsync a power failure keeps
the first so many changes, the next perhaps in part; of the names in a folder the same. A failed
fsync writes nothing, and the next one takes its bytes for written: only bytes that are written
again can still become sure.
"""

import os
import shutil
import stat
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from random import Random
from typing import Any

from tests.support.faults import Disk, Killed, path_of

CHANGES = frozenset(
    {"pwrite", "create", "rename", "unlink", "mkdir", "rmdir", "ftruncate", "fsync"}
    | {"copy_file_range"}
)
"""Calls before which, or in the middle of which, the process may die."""


class Torn(Random):
    """A power failure that leaves nothing of what is not sure but half of a file's first bytes."""

    def choice(self, seq: Any) -> Any:
        """Return the first."""
        return seq[0]

    def random(self) -> float:
        """Return the least."""
        return 0.0

    def randint(self, a: int, b: int) -> int:
        """Return the middle."""
        return (a + b) // 2


@dataclass(slots=True, eq=False)
class _Change:
    """A change that is not sure yet, of one file's bytes or one folder's names."""

    of: int  # the inode
    undo: Callable[[], None]
    position: int = -1  # of bytes that were written
    data: bytes = b""
    path: str = ""  # of the file when they were
    is_lost: bool = False  # an fsync failed since

    @property
    def end(self) -> int:
        """Return where the bytes end."""
        return self.position + len(self.data)


@dataclass
class PowerDisk(Disk):
    """See above; ``cellar`` is an empty folder of the same file system, for what has lost its name.

    No fsync is made.
    """

    cellar: Path = Path()
    is_dead: bool = False
    dies_in: int = -1  # so many changes from now on; negative: never
    _changes: list[_Change] = field(default_factory=list)
    _folders: dict[int, Path] = field(default_factory=dict)  # where each folder is now
    _remade: dict[int, int] = field(default_factory=dict)  # folders that came back, by inode
    _stored: set[int] = field(default_factory=set)  # inodes of what is in the cellar

    def kill_after(self, changes: int) -> None:
        """Have the process die at the next change but so many."""
        self.dies_in = changes

    def revive(self) -> None:
        """Have the next process begin."""
        self.is_dead = False
        self.dies_in = -1

    def forgive(self, directory: Path) -> None:
        """Take the failed fsyncs below a directory back: the next start cannot know of them."""
        for change in self._changes:
            if change.path.startswith(f"{directory}/"):
                change.is_lost = False

    def cut_power(self, chance: Random) -> None:
        """Leave what a power failure may leave."""
        count = Counter(change.of for change in self._changes)
        kept = {of: chance.choice([0, many, chance.randint(0, many)]) for of, many in count.items()}
        tears = {of for of in count if chance.random() < 0.5}
        place: Counter[int] = Counter()
        undone = []
        for change in self._changes:
            place[change.of] += 1
            if place[change.of] > kept[change.of]:
                undone.append((change, place[change.of] == kept[change.of] + 1))
        for change, is_first in reversed(undone):
            change.undo()
            if is_first and change.position >= 0 and change.of in tears:
                part = change.data[: chance.randint(0, len(change.data))]
                self._write(change.of, change.position, part)
        self._changes.clear()

    def _strike(self, kind: str, path: str) -> Any:
        if self.is_dead:
            raise Killed
        return super()._strike(kind, path)

    def _make(self, kind: str, real: Callable[..., Any], path: str, *given: Any) -> Any:
        if kind not in CHANGES:
            return real(*given)
        if self.dies_in == 0:
            self.is_dead = True
            if kind == "pwrite":
                half = memoryview(given[1])[: len(given[1]) // 2]
                self._note_pwrite(real, given[0], half, given[2])
            raise Killed
        self.dies_in -= self.dies_in > 0
        noted = getattr(self, f"_note_{kind}")
        return noted(real, *given)

    def _refuse(self, kind: str, target: Any) -> None:
        if kind == "fsync":
            of = os.fstat(target).st_ino
            for change in self._changes:
                if change.of == of and change.position >= 0:
                    change.is_lost = True

    def _note_pwrite(self, real: Callable[..., int], fd: int, data: Any, position: int) -> int:
        undo = self._keep_bytes(fd, position, len(data))
        written = real(fd, data, position)
        of = os.fstat(fd).st_ino
        for change in self._changes:
            is_covered = position <= change.position and change.end <= position + written
            if change.is_lost and change.of == of and is_covered:
                change.is_lost = False
        self._changes.append(_Change(of, undo, position, bytes(data[:written]), path_of(fd)))
        return written

    def _note_copy_file_range(
        self, real: Callable[..., int], source: int, target: int, count: int, *at: int
    ) -> int:
        position = at[1]
        undo = self._keep_bytes(target, position, count)
        copied = real(source, target, count, *at)
        data = os.pread(target, copied, position)
        of = os.fstat(target).st_ino
        self._changes.append(_Change(of, undo, position, data, path_of(target)))
        return copied

    def _note_ftruncate(self, real: Callable[..., None], fd: int, size: int) -> None:
        whole = os.fstat(fd).st_size
        undo = self._keep_bytes(fd, size, max(0, whole - size))
        real(fd, size)
        if size != whole:
            self._changes.append(_Change(os.fstat(fd).st_ino, undo))

    def _note_fsync(self, _: Callable[..., None], fd: int) -> None:
        status = os.fstat(fd)
        of = status.st_ino
        is_file = stat.S_ISREG(status.st_mode)
        self._changes = [
            change for change in self._changes if change.of != of or (is_file and change.is_lost)
        ]

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
        """Keep a file of which somebody may take the name away."""
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

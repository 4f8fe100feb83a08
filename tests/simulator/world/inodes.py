"""The inodes of the simulated disk: files, folders, and what the power leaves of them."""

from __future__ import annotations

import os
import stat as st
from typing import TYPE_CHECKING, TypeVar, cast

if TYPE_CHECKING:
    from collections.abc import Iterator
    from random import Random

BLOCK = 4096


class File:
    """An inode with bytes: those that a reader sees, durable ones, and the changes in between.

    A change is a position and bytes, or a size and None where the file is cut.
    """

    __slots__ = (
        *("ino", "mode", "links", "opens", "mtime", "data", "durable", "pending", "doubtful"),
        *("forgiven", "held", "reserved"),
    )

    def __init__(self, ino: int, mode: int, mtime: int) -> None:
        self.ino, self.mode, self.mtime = ino, st.S_IFREG | mode, mtime
        self.links = self.opens = 0
        self.data, self.durable = bytearray(), bytearray()
        self.pending: list[tuple[int, bytes | None]] = []
        self.doubtful: list[tuple[int, bytes | None, bool]] = []
        """All changes from those under an fsync that failed to the last fsync; True: durable."""
        self.forgiven = False
        """Whether the next fsync makes those durable, too."""
        self.held = self.reserved = 0
        """The room that the file takes, and the size up to which it was reserved."""

    def settle(self) -> None:
        """Make all bytes durable, but those under an fsync that failed."""
        if not self.doubtful:
            for position, piece in self.pending:
                apply(self.durable, position, piece)
            self.pending.clear()
            return
        self.doubtful += [(*change, True) for change in self.pending]
        self.pending.clear()
        if self.forgiven or all(is_durable for _, _, is_durable in self.doubtful):
            for position, piece, _ in self.doubtful:
                apply(self.durable, position, piece)
            self.doubtful.clear()

    def doubt(self) -> None:
        """Note that an fsync failed: the kernel takes the bytes for written."""
        self.doubtful += [(*change, False) for change in self.pending]
        self.pending.clear()
        self.forgiven = False

    def sure(self) -> bytes:
        """Return the bytes that a power failure leaves in any case."""
        data = bytearray(self.durable)
        for position, piece, is_durable in self.doubtful:
            if is_durable:
                apply(data, position, piece)
        return bytes(data)

    def lose_power(self, rng: Random) -> None:
        """Leave what a power failure may leave."""
        changes = [*self.doubtful, *((*change, False) for change in self.pending)]
        self.pending, self.doubtful = [], []
        data = self.data = self.durable
        if changes:
            cuts = rng.randint(0, sum(piece is None for _, piece, _ in changes))
            luck = rng.choice((0.0, 1.0, rng.random()))
            for position, piece, is_durable in changes:
                if is_durable or (piece is not None and rng.random() < luck):
                    apply(data, position, piece)
                elif piece is not None:
                    _leave_part(data, position, piece, rng)
                elif cuts:
                    apply(data, position, None)
                    cuts -= 1
        self.durable = bytearray(data)


class Pair:
    """A rename between two folders."""

    __slots__ = ("source", "target")

    def __init__(self, source: Folder, target: Folder) -> None:
        self.source, self.target = source, target


class Folder:
    """An inode with names, and the changes that are not durable: gone, came, what, its pair."""

    __slots__ = ("durable", "ino", "links", "mode", "mtime", "names", "pending")

    def __init__(self, ino: int, mode: int, mtime: int) -> None:
        self.ino, self.mode, self.mtime, self.links = ino, st.S_IFDIR | mode, mtime, 1
        self.names: dict[str, Node] = {}
        self.durable: dict[str, Node] = {}
        self.pending: list[tuple[str | None, str | None, Node | None, Pair | None]] = []

    def settle(self, count: int) -> None:
        """Make the first so many changes durable, with what hangs together with them."""
        changes = self.pending[:count]
        del self.pending[:count]
        for gone, came, node, pair in changes:
            if gone is not None:
                self.durable.pop(gone, None)
            if came is not None and node is not None:
                self.durable[came] = node
            if pair is not None:
                other = pair.target if self is pair.source else pair.source
                found = (at for at, change in enumerate(other.pending, 1) if change[3] is pair)
                other.settle(next(found, 0))

    def files(self, above: str = "") -> Iterator[tuple[str, File]]:
        """Yield all files, with their paths."""
        for name, node in self.names.items():
            if isinstance(node, Folder):
                yield from node.files(f"{above}{name}/")
            else:
                yield above + name, node


Node = File | Folder
_Kind = TypeVar("_Kind", bound=Node)


def apply(data: bytearray, position: int, piece: bytes | None) -> None:
    """Make a change of bytes."""
    size = len(data)
    if piece is None:
        del data[position:]
    if position > size:
        data.extend(bytes(position - size))
    if piece is not None:
        data[position : position + len(piece)] = piece


def _leave_part(data: bytearray, position: int, piece: bytes, rng: Random) -> None:
    """Leave of a write a first part, or the size without the bytes, or nothing."""
    way = rng.random()
    if way < 0.3 and (part := piece[: rng.randint(0, len(piece))]):
        apply(data, position, part)
    elif 0.3 <= way < 0.5 and position + len(piece) > len(data):
        apply(data, position + len(piece), b"")


def lose_power(root: Folder, rng: Random, late: float = 0.0) -> None:
    """Leave below a folder what a power failure may leave.

    ``late`` says how often a folder lacks the last of its changes alone.
    """
    folders: dict[int, Folder] = {}
    _find_folders(root, folders)
    for folder in folders.values():
        many = len(folder.pending)
        is_late = late and many and rng.random() < late
        folder.settle(many - 1 if is_late else rng.choice((0, many, rng.randint(0, many))))
    for folder in folders.values():
        folder.names, folder.pending = dict(folder.durable), []
    for node in find_named(root):
        if isinstance(node, File):
            node.lose_power(rng)


def _find_folders(folder: Folder, found: dict[int, Folder]) -> None:
    """Find every folder that a power failure may leave."""
    if folder.ino not in found:
        found[folder.ino] = folder
        for node in (*folder.durable.values(), *(change[2] for change in folder.pending)):
            if isinstance(node, Folder):
                _find_folders(node, found)


def find_named(root: Folder) -> list[Node]:
    """Return every inode that has a name, in order, and count the names of each."""
    found: dict[int, Node] = {}
    left: list[Node] = [root]
    while left:
        node = left.pop()
        if node.ino in found:
            node.links += 1
            continue
        found[node.ino] = node
        node.links = 1
        if isinstance(node, Folder):
            left += reversed(node.names.values())
    return list(found.values())


def copied(root: Folder) -> Folder:
    """Return a copy of a folder and of all that hangs on it."""
    return _copied(root, {}, {})


def _copied(node: _Kind, copies: dict[int, Node], pairs: dict[Pair, Pair]) -> _Kind:
    if node.ino not in copies and isinstance(node, File):
        file = copies[node.ino] = File(node.ino, node.mode, node.mtime)
        file.data, file.durable = bytearray(node.data), bytearray(node.durable)
        file.pending, file.doubtful = list(node.pending), list(node.doubtful)
        file.forgiven, file.reserved = node.forgiven, node.reserved
    elif node.ino not in copies and isinstance(node, Folder):
        folder = copies[node.ino] = Folder(node.ino, node.mode, node.mtime)
        for names, into in ((node.names, folder.names), (node.durable, folder.durable)):
            for name, each in names.items():
                into[name] = _copied(each, copies, pairs)
        for gone, came, what, pair in node.pending:
            if pair is not None and pair not in pairs:
                new = pairs[pair] = Pair(pair.source, pair.target)
                new.source = _copied(pair.source, copies, pairs)
                new.target = _copied(pair.target, copies, pairs)
            of = pair and pairs[pair]
            folder.pending.append((gone, came, what and _copied(what, copies, pairs), of))
    return cast("_Kind", copies[node.ino])


def status_of(node: Node) -> os.stat_result:
    """Return the facts of an inode, as `os.stat` does."""
    if isinstance(node, File):
        size, links, blocks = len(node.data), node.links, (node.held + 511) // 512
    else:
        size, links, blocks = BLOCK, 2, 8
    ns = node.mtime
    seconds, fraction = ns // 10**9, ns / 1e9
    facts = (node.mode, node.ino, 1, links, 0, 0, size, seconds, seconds, seconds)
    return os.stat_result((*facts, fraction, fraction, fraction, ns, ns, ns, BLOCK, blocks, 0))

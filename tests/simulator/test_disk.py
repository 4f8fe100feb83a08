"""The simulated disk: it does as a real one, and a power failure leaves what its table says."""

import errno
import itertools
import os
import stat
from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random
from typing import Any

import pytest

from siltstone.storage.files import disk as seam
from tests.simulator.world.disk import CALLS, Disk, Torn

ROOT = "/sim"
FILE = f"{ROOT}/a"
IMAGES = 200
NEW = os.O_RDWR | os.O_CREAT


def new_disk(prefix: str = ROOT, **limits: Any) -> Disk:
    """Return a disk without faults, on which time goes on by a second a look."""
    seconds = itertools.count(1)
    return Disk(lambda _, __, size: size, lambda: next(seconds) * 10**9, prefix, **limits)


def written(disk: Disk, path: str, data: bytes, *, durably: bool = False) -> int:
    """Create a file with some bytes, and return its descriptor."""
    fd = disk.open(path, NEW)
    disk.pwrite(fd, data, 0)
    if durably:
        disk.fsync(fd)
        sync(disk, path.rpartition("/")[0])
    return fd


def sync(disk: Disk, folder: str) -> None:
    """Make the names in a folder durable."""
    fd = disk.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    disk.fsync(fd)
    disk.close(fd)


def images(disk: Disk, count: int = IMAGES) -> Iterator[dict[str, bytes]]:
    """Yield the files that power failures leave, all of one moment."""
    before = disk.folder(ROOT)
    for seed in range(count):
        yield disk.cut(Random(seed)).folder(ROOT)
    assert disk.folder(ROOT) == before


# In step with a real folder.

PLACES = ("a", "b", "d", "d/a", "d/e", "d/e/a", "a/b", "")
FLAGS = (
    *(os.O_RDONLY, os.O_RDWR, os.O_WRONLY, NEW, NEW, NEW, NEW | os.O_EXCL, NEW | os.O_TRUNC),
    *(os.O_RDONLY | os.O_DIRECTORY, os.O_WRONLY | os.O_CREAT | os.O_APPEND),
)


class Twins:
    """A real folder and a simulated one of the same path, in which the same is done."""

    def __init__(self, root: Path, seed: int) -> None:
        self.chance = Random(seed)
        self.root = str(root)
        self.disk = new_disk(self.root)
        self.opened: list[tuple[int, int]] = []

    def path(self) -> str:
        """Return a place that may be anything."""
        return os.path.join(self.root, self.chance.choice(PLACES)).rstrip("/")  # noqa: PTH118

    def step(self) -> None:
        """Do one thing in both."""
        kind = self.chance.choice([name for name in dir(self) if name.startswith("do_")])
        getattr(self, kind)()

    def both(self, kind: str, *given: Any, **named: Any) -> Any:
        """Call a function of both with the same, and return its result in both."""
        found = []
        for side in (0, 1):
            function = getattr((seam, self.disk)[side], kind)
            here = [each[side] if isinstance(each, tuple) else each for each in given]
            there = {
                name: each[side] if isinstance(each, tuple) and name != "ns" else each
                for name, each in named.items()
            }
            found.append(attempt(function, *here, **there))
        return found[0] if same(kind, *found) else pytest.fail(f"{kind} {given} {named}: {found}")

    def any_open(self) -> tuple[int, int]:
        """Return a descriptor of both."""
        while not self.opened:
            self.do_open()
        return self.chance.choice(self.opened)

    def do_open(self) -> None:
        """Open, or create."""
        path, flags = self.path(), self.chance.choice(FLAGS) | os.O_NOFOLLOW
        pair = tuple(attempt(each.open, path, flags) for each in (seam, self.disk))
        assert isinstance(pair[0], int) == isinstance(pair[1], int), (path, flags, pair)
        if isinstance(pair[0], int):
            self.opened.append((pair[0], pair[1]))
        else:
            assert pair[0] == pair[1]
        while len(self.opened) > 6:
            self.both("close", self.opened.pop(0))

    def do_names(self) -> None:
        """Change a name."""
        self.both(self.chance.choice(("mkdir", "mkdir", "unlink", "rmdir")), self.path())

    def do_two_names(self) -> None:
        """Change two names."""
        self.both(self.chance.choice(("rename", "rename", "link")), self.path(), self.path())

    def do_look(self) -> None:
        """Look at a path."""
        self.both(self.chance.choice(("stat", "listdir", "scan")), self.path())
        self.both("access", self.path(), os.F_OK)

    def do_look_at_open(self) -> None:
        """Look at what is open."""
        self.both("fstat", self.any_open())
        self.both("fsync", self.any_open())

    def do_in_folder(self) -> None:
        """Do something in an open folder."""
        name = self.chance.choice(("a", "e"))
        self.both("stat", name, dir_fd=self.any_open())
        self.both(self.chance.choice(("unlink", "rmdir")), name, dir_fd=self.any_open())
        ends = {"src_dir_fd": self.any_open(), "dst_dir_fd": self.any_open()}
        self.both("link", name, self.chance.choice(("a", "e")), **ends)

    def do_write(self) -> None:
        """Write to a file."""
        data = bytes([self.chance.randrange(256)]) * self.chance.randrange(40)
        self.both("pwrite", self.any_open(), data, self.chance.randrange(100))
        self.both("write", self.any_open(), memoryview(data))

    def do_copy(self) -> None:
        """Copy from a file to another."""
        source, target = self.any_open(), self.any_open()
        size, start, position = (self.chance.randrange(1, 60) for _ in range(3))
        facts = [attempt(seam.fstat, each[0]) for each in (source, target)]
        if facts[0].st_ino != facts[1].st_ino and all(stat.S_ISREG(e.st_mode) for e in facts):
            self.both("copy_file_range", source, target, size, start, position)

    def do_cut(self) -> None:
        """Cut a file, or reserve room for it."""
        self.both("ftruncate", self.any_open(), self.chance.randrange(80))
        fd = self.any_open()
        if stat.S_ISREG(seam.fstat(fd[0]).st_mode):
            self.both("fallocate", fd, 1, 0, self.chance.randrange(1, 80))

    def do_read(self) -> None:
        """Read from a file."""
        at, size = self.chance.randrange(100), self.chance.randrange(60)
        self.both("pread", self.any_open(), size, at)
        self.both("read", self.any_open(), size)
        fd = self.any_open()
        into = tuple([bytearray(size), bytearray(9)] for _ in range(2))
        self.both("preadv", fd, into, at)
        assert into[0] == into[1]

    def do_date(self) -> None:
        """Set a time."""
        self.both("utime", self.path(), ns=(5, self.chance.randrange(10**12)))


def attempt(function: Callable[..., Any], *given: Any, **named: Any) -> Any:
    """Return a result, or an error."""
    try:
        return function(*given, **named)
    except OSError as error:
        return type(error).__name__, error.errno, error.filename, error.filename2


def same(kind: str, real: Any, simulated: Any) -> bool:
    """Tell whether two results mean the same.

    An error of ``utime`` names the file from Python 3.13 on.
    """
    if kind == "utime" and real is not None and simulated is not None:
        return bool(real[:2] == simulated[:2])
    if isinstance(real, os.stat_result):
        real, simulated = facts_of(real), facts_of(simulated)
    if kind == "listdir" and isinstance(real, list):
        real, simulated = sorted(real), sorted(simulated)
    return bool(real == simulated)


def facts_of(status: os.stat_result) -> tuple[int, ...]:
    """Return the facts that are the same on every file system."""
    if not stat.S_ISREG(status.st_mode):
        return (stat.S_IFMT(status.st_mode),)
    return stat.S_IFMT(status.st_mode), status.st_size, status.st_nlink


@pytest.mark.parametrize("seed", range(4))
def test_it_does_as_a_real_folder(tmp_path: Path, seed: int) -> None:
    """A thousand random calls have the same results, errors and contents."""
    twins = Twins(tmp_path, seed)
    for _ in range(1_000):
        twins.step()
    for pair in twins.opened:
        twins.both("close", pair)

    files = [path for path in tmp_path.rglob("*") if path.is_file()]
    real = {str(path.relative_to(tmp_path)): path.read_bytes() for path in files}
    assert twins.disk.folder(twins.root) == real
    for path in real:
        twins.disk.unlink(f"{twins.root}/{path}")
    assert twins.disk.used == 0


# What the power leaves.


def test_what_was_fsynced_is_in_every_image() -> None:
    """Bytes and names stay, whatever is written, cut off and renamed beside them afterwards."""
    disk = new_disk()
    fd = written(disk, FILE, b"durable", durably=True)
    disk.pwrite(fd, b" and more", 7)
    disk.pwrite(fd, b" and more", 16)
    written(disk, f"{ROOT}/b", b"other")

    assert all(image["a"].startswith(b"durable") for image in images(disk))


def test_a_file_comes_back_whole_whose_end_was_not_durable() -> None:
    """It was deleted, or replaced by another one, and its room given away."""
    disk = new_disk()
    for name in "abc":
        disk.close(written(disk, f"{ROOT}/{name}", name.encode() * 3, durably=True))
    disk.unlink(FILE)
    disk.rename(f"{ROOT}/b", f"{ROOT}/c")
    assert disk.used == 3

    found = [tuple(image.items()) for image in images(disk)]
    whole = {name: name.encode() * 3 for name in "abc"}
    rest = {name: whole[name] for name in "bc"}
    assert set(found) == {tuple(each.items()) for each in (whole, rest, {"c": whole["b"]})}
    assert {disk.cut(Random(seed)).used for seed in range(IMAGES)} == {9, 6, 3}


def test_bytes_come_whole_torn_as_zeros_or_not_at_all() -> None:
    """Of two writes the second may be kept without the first."""
    disk = new_disk()
    fd = written(disk, FILE, b"", durably=True)
    disk.pwrite(fd, b"1111", 0)
    disk.pwrite(fd, b"2222", 4)

    found = {image["a"] for image in images(disk)}

    assert {b"", b"1111", b"11112222", b"\0\0\0\x002222", b"\0\0\0\0", b"1111\0\0\0\0"} <= found
    assert found & {b"1", b"11", b"111"}
    first = {b"1111"[:size].ljust(4, b"\0") for size in range(5)}
    second = {b"2222"[:size].ljust(4, b"\0") for size in range(5)}
    assert {image.ljust(8, b"\0") for image in found} <= {a + b for a in first for b in second}


def test_nothing_appears_that_was_never_written() -> None:
    """Every byte was written at its place, or is a zero where nothing was durable."""
    chance = Random(5)
    disk = new_disk()
    fd = written(disk, FILE, b"D" * 50, durably=True)
    ever = {at: {b"D"} if at < 50 else {b"\0"} for at in range(200)}
    for _ in range(60):
        piece, at = (
            bytes([chance.randrange(1, 256)]) * chance.randrange(1, 30),
            chance.randrange(150),
        )
        disk.pwrite(fd, piece, at)
        for each in range(at, at + len(piece)):
            ever[each].add(piece[:1])

    for image in images(disk):
        assert all(image["a"][at : at + 1] in ever[at] for at in range(len(image["a"])))


def test_a_cut_may_be_lost_and_what_was_written_later_kept() -> None:
    """Of two cuts the second is not kept without the first."""
    disk = new_disk()
    fd = written(disk, FILE, b"123456", durably=True)
    disk.ftruncate(fd, 4)
    disk.ftruncate(fd, 2)
    disk.pwrite(fd, b"x", 2)

    found = {image["a"] for image in images(disk)}

    assert found == {b"123456", b"1234", b"12", b"12x456", b"12x4", b"12x", b"12\0"}


@pytest.mark.parametrize("is_forgiven", [False, True])
def test_bytes_under_an_fsync_that_failed_are_not_durable_by_the_next(is_forgiven: bool) -> None:
    """They have to be written again, or forgiven, since a later process cannot know of them."""
    disk = new_disk()
    fd = written(disk, FILE, b"", durably=True)
    disk.pwrite(fd, b"lost", 0)
    disk.before = refuse
    with pytest.raises(OSError, match="planned"):
        disk.fsync(fd)
    disk.before = lambda _, __, size: size
    disk.pwrite(fd, b"kept", 4)
    assert disk.sure(ROOT) == {"a": b""}
    disk.fsync(fd)

    assert disk.sure(ROOT) == {"a": b"\0\0\0\0kept"}
    assert {b"lostkept", b"\0\0\0\0kept"} <= {image["a"] for image in images(disk)}
    if is_forgiven:
        disk.forgive(ROOT)
    else:
        disk.pwrite(fd, b"lost", 0)
    disk.fsync(fd)
    assert {image["a"] for image in images(disk)} == {disk.sure(ROOT)["a"]} == {b"lostkept"}


def refuse(kind: str, path: str, size: int) -> int:
    """Fail."""
    del kind, path, size
    raise OSError(errno.EIO, "planned")


def test_a_folder_keeps_the_first_of_its_changes() -> None:
    """Its names are those of one moment since its last fsync, with a rename as one change."""
    disk = new_disk()
    moments = []
    for name in "abc":
        written(disk, f"{ROOT}/{name}", b"")
        moments.append(set(disk.listdir(ROOT)))
    disk.rename(f"{ROOT}/a", f"{ROOT}/d")
    moments.append(set(disk.listdir(ROOT)))
    disk.rename(f"{ROOT}/d", f"{ROOT}/c")
    moments.append(set(disk.listdir(ROOT)))
    disk.unlink(f"{ROOT}/b")
    moments += [set(disk.listdir(ROOT)), set()]

    found = [set(image) for image in images(disk)]
    assert all(each in moments for each in found)
    assert all(each in found for each in moments)


@pytest.mark.parametrize("synced", [None, "from", "to"])
def test_a_rename_between_folders_is_one_change(synced: str | None) -> None:
    """The file has one of its names, and an fsync of either folder makes the new one durable."""
    disk = new_disk()
    disk.mkdir(f"{ROOT}/from")
    disk.mkdir(f"{ROOT}/to")
    sync(disk, ROOT)
    written(disk, f"{ROOT}/from/a", b"x", durably=True)
    disk.rename(f"{ROOT}/from/a", f"{ROOT}/to/a")
    if synced:
        sync(disk, f"{ROOT}/{synced}")

    found = {tuple(image) for image in images(disk)}
    assert found == ({("to/a",)} if synced else {("from/a",), ("to/a",)})


def test_names_and_bytes_are_made_durable_apart() -> None:
    """A file may come without a name, and a name without bytes; a folder takes all in it along."""
    disk = new_disk()
    disk.mkdir(f"{ROOT}/d")
    fd = written(disk, f"{ROOT}/d/bytes", b"x")
    disk.fsync(fd)
    written(disk, f"{ROOT}/d/name", b"y")
    assert {} in images(disk)

    sync(disk, f"{ROOT}/d")
    sync(disk, ROOT)
    found = list(images(disk))
    assert {image["d/bytes"] for image in found} == {b"x"}
    assert {image["d/name"] for image in found} == {b"", b"y", b"\0"}


def test_a_file_with_two_names_stays_one() -> None:
    """Bytes that are written through one name is read through the other, after a failure too."""
    disk = new_disk()
    fd = written(disk, FILE, b"x", durably=True)
    disk.link(FILE, f"{ROOT}/b")
    sync(disk, ROOT)
    disk.close(fd)

    for left in (disk.cut(Random(1)), disk.copy(), disk.kill()):
        assert left.used == 1
        assert left.stat(f"{ROOT}/b").st_nlink == 2
        disk = left
        left.pwrite(left.open(FILE, os.O_RDWR), b"y", 0)
        assert left.folder(ROOT) == {"a": b"y", "b": b"y"}


def test_images_of_one_seed_are_equal() -> None:
    """An image depends on the disk and the seed alone."""
    disk = new_disk()
    for name in "abcdef":
        written(disk, f"{ROOT}/{name}", name.encode() * 50)

    assert list(images(disk)) == list(images(disk.copy()))


# A kill.


def test_a_kill_leaves_what_was_written() -> None:
    """Descriptors are gone and closed without a word; files without a name give their room back."""
    disk = new_disk()
    old = written(disk, FILE, b"123")
    written(disk, f"{ROOT}/b", b"45")
    disk.unlink(FILE)
    assert disk.used == 5

    heir = disk.kill()

    assert heir.folder(ROOT) == {"b": b"45"}
    assert heir.used == 2
    assert not heir.open_files
    heir.close(old)
    with pytest.raises(OSError, match="Bad file"):
        heir.fstat(old)
    assert {image.get("b") for image in images(heir)} > {b"45", None}  # no fsync was made


@pytest.mark.parametrize("kind", ["pwrite", "write", "copy_file_range"])
def test_a_kill_in_a_write_leaves_a_part(kind: str) -> None:
    """So many bytes are written as the kill says, and the call does not return."""
    disk = new_disk()
    source = written(disk, f"{ROOT}/b", b"123456")
    target = disk.open(FILE, NEW)

    def tear(asked: str, path: str, size: int) -> int:
        assert (asked, path, size) == (kind, FILE, 6)
        raise Torn(2)

    disk.before = tear
    given = {
        "pwrite": (target, b"123456", 0),
        "write": (target, b"123456"),
        "copy_file_range": (source, target, 6, 0, 0),
    }
    with pytest.raises(Torn):
        getattr(disk, kind)(*given[kind])
    disk.before = lambda _, __, size: size
    assert disk.kill().folder(ROOT)["a"] == b"12"


# Limits, and what is asked before.


def test_room_ends_and_comes_back() -> None:
    """A write is short first; a file gives its room back with its last name and descriptor."""
    disk = new_disk(room=10)
    first = written(disk, FILE, b"1234567")
    second = disk.open(f"{ROOT}/b", NEW)
    assert disk.pwrite(second, b"12345", 0) == 3
    for call in (lambda: disk.pwrite(second, b"x", 3), lambda: disk.fallocate(second, 1, 0, 4)):
        with pytest.raises(OSError, match="No space"):
            call()
    assert disk.pwrite(second, b"over", 0) == 3
    disk.unlink(FILE)
    with pytest.raises(OSError, match="No space"):
        disk.pwrite(second, b"x", 3)

    disk.close(first)

    assert disk.pwrite(second, b"x", 3) == 1
    disk.fallocate(second, 1, 0, 9)
    assert (disk.used, disk.fstat(second).st_size) == (9, 4)
    disk.ftruncate(second, 4)
    assert disk.used == 4
    assert disk.statvfs(ROOT).f_bavail == 0


def test_inodes_and_descriptors_end_and_come_back() -> None:
    """Files and folders count, and what is open."""
    disk = new_disk(inodes=3, descriptors=2)
    disk.mkdir(f"{ROOT}/d")
    fd = disk.open(FILE, NEW)
    for call in (lambda: disk.open(f"{ROOT}/b", NEW), lambda: disk.mkdir(f"{ROOT}/b")):
        with pytest.raises(OSError, match="No space"):
            call()
    disk.rmdir(f"{ROOT}/d")
    disk.open(f"{ROOT}/b", NEW)
    with pytest.raises(OSError, match="Too many open"):
        disk.open(FILE, os.O_RDONLY)
    with pytest.raises(OSError, match="Too many open"):
        disk.scan(ROOT)
    disk.close(fd)
    disk.open(FILE, os.O_RDONLY)


def test_others_may_change_the_disk_in_between() -> None:
    """A call finds what stands when it is no longer asked about."""
    disk = new_disk()
    fd = written(disk, FILE, b"x")

    def run_another(kind: str, path: str, size: int) -> int:
        del kind, path
        disk.before = lambda _, __, size: size
        disk.close(fd)
        disk.unlink(FILE)
        return size

    disk.before = run_another
    with pytest.raises(OSError, match="Bad file"):
        disk.pread(fd, 1, 0)
    with pytest.raises(FileNotFoundError):
        disk.stat(FILE)


def test_reads_and_writes_are_as_short_as_asked() -> None:
    """And a read that may not wait finds no cold page."""
    disk = new_disk()
    fd = written(disk, FILE, b"123456")
    disk.before = lambda _, __, size: size // 2
    assert disk.pread(fd, 6, 0) == b"123"
    assert disk.preadv(fd, [bytearray(2), bytearray(4)], 0, os.RWF_NOWAIT) == 3
    assert disk.pwrite(fd, b"abcdef", 0) == 3

    disk.is_cold = {FILE}.__contains__
    with pytest.raises(BlockingIOError):
        disk.preadv(fd, [bytearray(6)], 0, os.RWF_NOWAIT)
    assert disk.preadv(fd, [bytearray(2)], 0) == 1


def test_files_are_put_there_and_names_are_in_any_order() -> None:
    """Bytes that a judge changes are durable; a real folder has no order either."""
    disk = new_disk()
    for name in "abc":
        written(disk, f"{ROOT}/{name}", b"1")
        disk.replace(f"{ROOT}/{name}", b"22")
    disk.replace("/proc/self/statm", b"1 2")
    disk.order = lambda names: names[::-1]

    assert disk.listdir(ROOT) == ["c", "b", "a"]
    assert list(disk.scan(ROOT).items()) == [(name, stat.S_IFREG) for name in "cba"]
    assert disk.folder("/proc") == {"self/statm": b"1 2"}
    assert all(set(image.values()) <= {b"22"} for image in images(disk))


def test_every_call_of_the_seam_is_answered_and_given_back() -> None:
    """No function of it is left to the system."""
    Disk.uninstall()
    real = {name: getattr(seam, name) for name in CALLS}
    disk = new_disk()
    disk.install()
    try:
        assert [name for name in CALLS if getattr(seam, name) != getattr(disk, name)] == []
        assert seam.route.through is seam
        fd = seam.open(FILE, NEW)
        assert seam.stat("/proc/self/fd").st_size == 1
    finally:
        disk.uninstall()
    assert {name: getattr(seam, name) for name in CALLS} == real
    assert seam.route.through is None
    seam.close(fd)  # by an object that is freed late

"""Pipes, devices and huge holes in the place of files: a start does not wait for them.

A user that may write the folder can do worse, but a restored backup or a slip of ``ln`` is enough.
"""

import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import product
from pathlib import Path
from typing import Final
from uuid import UUID

import pytest

from siltstone.config.server import ServerConfig
from siltstone.config.topic import TopicConfig
from siltstone.storage import files
from siltstone.storage.directory.catalog import FILE_NAME, Catalog, CatalogState
from siltstone.storage.directory.checkpoint import read_entries
from siltstone.storage.directory.lock import DirectoryLock
from siltstone.storage.directory.log_directory import LogDirError
from siltstone.storage.manager import LogManager
from siltstone.storage.topic_partition import TopicPartition
from tests.support.appending import append_unchecked
from tests.support.clock import FakeClock

TOPIC_ID: Final = UUID(int=7)
SPOILT, SERVED = TopicPartition("orders", 0), TopicPartition("orders", 1)


def _huge(path: Path) -> None:
    path.write_bytes(b"")
    os.truncate(path, 20 << 30)


KINDS: Final[dict[str, Callable[[Path], object]]] = {
    "pipe": os.mkfifo,
    "endless": lambda path: path.symlink_to("/dev/zero"),
    "empty": lambda path: path.symlink_to("/dev/null"),
    "huge": _huge,
}


@contextmanager
def _running(folder: Path) -> Iterator[LogManager]:
    manager = LogManager([folder], ServerConfig(), lambda _: TopicConfig(), FakeClock())
    manager.load()
    try:
        yield manager
    finally:
        manager.close()


@pytest.mark.parametrize("kind", KINDS)
def test_a_small_file_is_a_file(tmp_path: Path, kind: str) -> None:
    """All are read by one function, which refuses what is not a file of its kind."""
    KINDS[kind](tmp_path / "x")

    with pytest.raises(OSError, match=r"not a regular file|no such file|it is a link"):
        files.read_whole(tmp_path / "x")


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    "read",
    [lambda folder: Catalog([folder]).load(), lambda folder: read_entries(folder / FILE_NAME, 3)],
)
def test_files_of_a_directory(tmp_path: Path, kind: str, read: Callable[[Path], object]) -> None:
    """The start ends with the name of the file."""
    KINDS[kind](tmp_path / FILE_NAME)

    with pytest.raises((LogDirError, OSError), match=FILE_NAME):
        read(tmp_path)


def test_a_catalogue_that_is_nested_too_deeply(tmp_path: Path) -> None:
    """It is refused as any other that cannot be read."""
    (tmp_path / FILE_NAME).write_text("[" * 200_000)

    with pytest.raises(LogDirError, match="nested too deep"):
        Catalog([tmp_path]).load()


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        *product(
            ("00000000000000000001.snapshot", files.PARTITION_METADATA, files.LEADER_EPOCHS), KINDS
        ),
        *(("00000000000000000000.log", kind) for kind in KINDS if kind != "huge"),  # it may be
    ],
)
def test_files_of_a_partition(tmp_path: Path, name: str, kind: str) -> None:
    """The partition is set aside and all others are served."""
    with _running(tmp_path) as manager:
        for partition in (SPOILT, SERVED):
            append_unchecked(manager.create(partition, TOPIC_ID, TopicConfig()))
    spoilt = tmp_path / "orders-0" / name
    spoilt.unlink()
    KINDS[kind](spoilt)

    with _running(tmp_path) as manager:
        assert list(manager.logs) == [SERVED]
        assert list(manager.set_aside) == [SPOILT]


def test_a_lock_that_leads_to_itself(tmp_path: Path) -> None:
    """It is an error of the disk as any other."""
    (tmp_path / files.LOCK).symlink_to(files.LOCK)

    with pytest.raises(OSError, match="it is a link"):
        DirectoryLock(tmp_path).acquire()


def _start(folder: Path) -> None:
    """Do what a start reads of the files of a directory."""
    Catalog([folder]).load()
    with _running(folder):
        pass


def _content(folder: Path) -> dict[str, bytes | str]:
    """Return what lies in a folder, by name: bytes, or where a link leads."""
    return {
        str(each.relative_to(folder)): str(each.readlink())
        if each.is_symlink()
        else each.read_bytes()
        for each in folder.rglob("*")
        if each.is_symlink() or each.is_file()
    }


@pytest.fixture
def killed(tmp_path: Path) -> Path:
    """A log directory with two partitions of several segments, of which no start knows the end."""
    folder = tmp_path / "data"
    with _running(folder) as manager:
        for partition in (SPOILT, SERVED):
            log = manager.create(partition, TOPIC_ID, TopicConfig())
            for sequence in range(3):
                append_unchecked(log, 1, producer_id=1, producer_epoch=0, base_sequence=sequence)
                log.roll()
    (folder / files.CLEAN_SHUTDOWN).unlink()
    (folder / files.RECOVERY_POINTS).unlink()
    return folder


@pytest.mark.parametrize(
    "name",
    [
        "00000000000000000000.log",
        "00000000000000000002.log",
        "00000000000000000001.index",
        "00000000000000000001.timeindex",
        "00000000000000000001.txnindex",
        "00000000000000000001.snapshot",
        files.PARTITION_METADATA,
        files.LEADER_EPOCHS,
    ],
)
def test_a_link_in_a_partition_folder(tmp_path: Path, killed: Path, name: str) -> None:
    """The partition is set aside; neither what it points at changes nor anything in the folder."""
    outside = tmp_path / "outside"
    outside.write_text("a text of another owner\n" * 40)
    spoilt = killed / "orders-0" / name
    spoilt.unlink(missing_ok=True)
    spoilt.symlink_to(outside)
    before = _content(killed / "orders-0")
    with _running(killed) as manager:
        assert list(manager.logs) == [SERVED]
        assert list(manager.set_aside) == [SPOILT]

    assert _content(killed / "orders-0") == before
    assert outside.read_text() == "a text of another owner\n" * 40


@pytest.mark.parametrize("is_dangling", [False, True])
def test_a_partition_folder_that_is_a_link(tmp_path: Path, killed: Path, is_dangling: bool) -> None:
    """It is set aside and nothing is made elsewhere; its deletion takes the link away."""
    elsewhere = tmp_path / "elsewhere"
    spoilt = killed / "orders-0"
    if is_dangling:
        shutil.rmtree(spoilt)
    else:
        spoilt.rename(elsewhere)
        (elsewhere / "00000000000000000001.index").unlink()
    spoilt.symlink_to(elsewhere)
    before = _content(tmp_path / "elsewhere") if not is_dangling else {}
    with _running(killed) as manager:
        assert list(manager.set_aside) == [SPOILT]
        manager.delete(SPOILT)
        manager.create(SPOILT, TOPIC_ID, TopicConfig())
    with _running(killed) as manager:
        assert set(manager.logs) == {SPOILT, SERVED}
        assert (_content(elsewhere) if elsewhere.exists() else {}) == before


@pytest.mark.parametrize("suffix", ["delete", "future"])
def test_a_folder_on_its_way_that_is_a_link(tmp_path: Path, killed: Path, suffix: str) -> None:
    """It is left alone, and so is what it leads to."""
    elsewhere = tmp_path / "elsewhere"
    (killed / "orders-0").rename(elsewhere)
    before = _content(elsewhere)
    link = killed / f"orders-0.{'0' * 32}-{suffix}"
    link.symlink_to(elsewhere)
    with _running(killed) as manager:
        assert manager.deletions.pending == 0
        assert manager.futures.found == ()

    assert link.is_symlink()
    assert _content(elsewhere) == before


@pytest.mark.parametrize(
    "name",
    [
        FILE_NAME + files.TEMPORARY,
        files.META_PROPERTIES + files.TEMPORARY,
        files.RECOVERY_POINTS + files.TEMPORARY,
        files.CLEAN_SHUTDOWN,
        files.CLEAN_SHUTDOWN + files.TEMPORARY,
        files.PINS,
    ],
)
def test_a_link_beside_the_partitions(tmp_path: Path, killed: Path, name: str) -> None:
    """A write replaces it, and never the file that it points at."""
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "kept").write_text("of another owner")
    target = outside if name == files.PINS else outside / "kept"
    (killed / name).symlink_to(target)
    (killed / files.META_PROPERTIES).unlink()
    with _running(killed) as manager:
        Catalog([killed]).write(CatalogState())
        assert len(manager.logs) == 2

    assert _content(outside) == {"kept": b"of another owner"}


@pytest.mark.parametrize(
    "name", [FILE_NAME, files.META_PROPERTIES, files.RECOVERY_POINTS, files.LOCK]
)
def test_a_link_in_the_place_of_a_file_of_the_directory(
    tmp_path: Path, killed: Path, name: str
) -> None:
    """The start ends and names it, as for a pipe."""
    outside = tmp_path / "outside"
    outside.write_text("of another owner")
    (killed / name).unlink(missing_ok=True)
    (killed / name).symlink_to(outside)
    with pytest.raises(LogDirError, match=f"{name}.*it is a link|it is a link.*{name}"):
        _start(killed)

    assert outside.read_text() == "of another owner"


def test_a_log_directory_may_be_a_link(tmp_path: Path, killed: Path) -> None:
    """So disks are mounted somewhere else."""
    (tmp_path / "data-link").symlink_to(killed)
    with _running(tmp_path / "data-link") as manager:
        assert set(manager.logs) == {SPOILT, SERVED}

"""Pipes, devices and huge holes in the place of files: a start does not wait for them.

Who may write the folder can do worse, but a restored backup or a slip of ``ln`` is enough.
"""

from __future__ import annotations

import os
from contextlib import contextmanager
from itertools import product
from typing import TYPE_CHECKING, Final
from uuid import UUID

import pytest

from siltstone.config.server import ServerConfig
from siltstone.config.topic import TopicConfig
from siltstone.storage import files
from siltstone.storage.directory.catalog import FILE_NAME, Catalog
from siltstone.storage.directory.checkpoint import read_entries
from siltstone.storage.directory.lock import DirectoryLock
from siltstone.storage.directory.log_directory import LogDirError
from siltstone.storage.manager import LogManager
from siltstone.storage.topic_partition import TopicPartition
from tests.support.appending import append_unchecked
from tests.support.clock import FakeClock

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

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
    """All are read by one function, which refuses what is none."""
    KINDS[kind](tmp_path / "x")

    with pytest.raises(OSError, match=r"not a regular file|no such file"):
        files.read_whole(tmp_path / "x")


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    "read",
    [
        lambda folder: Catalog([folder]).load(),
        lambda folder: read_entries(folder / FILE_NAME, 3),
    ],
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

    with pytest.raises(OSError, match="symbolic links"):
        DirectoryLock(tmp_path).acquire()

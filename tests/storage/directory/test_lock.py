"""The lock of a log directory."""

import os
from pathlib import Path

import pytest

from siltstone.storage.directory.lock import DirectoryLock, DirectoryLocked
from tests.support.holding import held_by_another


def test_another_process_is_refused_by_name(tmp_path: Path) -> None:
    """A POSIX record lock of any program excludes us, and the message says whose it is."""
    with (
        held_by_another(tmp_path) as holder,
        pytest.raises(DirectoryLocked, match=f"locked by process {holder};"),
    ):
        DirectoryLock(tmp_path).acquire()


def test_second_broker_in_the_process_is_refused(tmp_path: Path) -> None:
    """A record lock does not exclude its own process; we do."""
    first = DirectoryLock(tmp_path)
    first.acquire()

    with pytest.raises(DirectoryLocked, match=r"name each folder once in log\.dirs"):
        DirectoryLock(tmp_path).acquire()

    first.release()


def test_one_folder_that_is_mounted_twice_is_refused(tmp_path: Path) -> None:
    """Its path says nothing of it; the lock goes by device and inode, as Java's does."""
    one, other = tmp_path / "one", tmp_path / "other"
    one.mkdir()
    other.mkdir()
    first = DirectoryLock(one)
    first.acquire()
    os.link(one / ".lock", other / ".lock")  # as a bind mount shows it

    with pytest.raises(DirectoryLocked, match=f"log directory {other} is in use by this process"):
        DirectoryLock(other).acquire()

    first.release()


def test_release_deletes_the_file_and_can_be_repeated(tmp_path: Path) -> None:
    """A clean exit leaves no .lock, and the directory can be locked again."""
    lock = DirectoryLock(tmp_path)
    lock.acquire()

    lock.release()
    lock.release()

    assert not (tmp_path / ".lock").exists()
    lock.acquire()
    lock.release()


def test_missing_directory_is_an_error_of_the_disk(tmp_path: Path) -> None:
    """There is nothing to lock where there is no directory."""
    with pytest.raises(FileNotFoundError):
        DirectoryLock(tmp_path / "missing").acquire()

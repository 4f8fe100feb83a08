"""Names of files, and the order in which changes reach the disk."""

import errno
import os
from pathlib import Path

import pytest

from siltstone.storage import files
from siltstone.storage.files import disk as seam
from tests.support.faults import Disk


def test_file_is_replaced_in_the_order_that_survives_a_crash(tmp_path: Path, disk: Disk) -> None:
    """Temporary file, fsync, rename, fsync of the folder: old or new, never half (KAFKA-16541)."""
    path = tmp_path / "x"
    path.write_bytes(b"old")

    files.replace_file(path, b"new")

    assert path.read_bytes() == b"new"
    names = disk.names("fsync", "rename")
    assert names == ["fsync x.tmp", "rename x.tmp", f"fsync {tmp_path.name}"]
    assert [each.name for each in tmp_path.iterdir()] == ["x"]


@pytest.mark.parametrize("call", ["create", "pwrite", "fsync", "rename"])
def test_file_that_cannot_be_replaced_stays(tmp_path: Path, disk: Disk, call: str) -> None:
    """The old content is kept, and nothing else takes room."""
    path = tmp_path / "x"
    path.write_bytes(b"old")
    disk.fail(call, errno.ENOSPC)

    with pytest.raises(OSError, match="No space left"):
        files.replace_file(path, b"new")

    assert path.read_bytes() == b"old"
    assert [each.name for each in tmp_path.iterdir()] == ["x"]


def test_new_folder_is_made_durable(tmp_path: Path, disk: Disk) -> None:
    """The name of a new folder is fsynced in its parent (KAFKA-3968)."""
    files.create_folder(tmp_path / "orders-0")

    assert disk.names("fsync") == [f"fsync {tmp_path.name}"]


@pytest.mark.parametrize(
    ("name", "parsed"),
    [
        ("00000000000000000042.log", (42, ".log", "")),
        ("00000000000000000000.timeindex.swap", (0, ".timeindex", ".swap")),
        ("00000000000000000007.snapshot.deleted", (7, ".snapshot", ".deleted")),
        ("00000000000000000007.txnindex.cleaned", (7, ".txnindex", ".cleaned")),
        ("5.index", (5, ".index", "")),
        ("00000000000000000042.checkpoint", None),
        ("00000000000000000042.log.other", None),
        ("x.log", None),
        ("leader-epoch-checkpoint", None),
        (".lock", None),
    ],
)
def test_names_tell_offset_kind_and_suffix(name: str, parsed: tuple[int, str, str] | None) -> None:
    """The offset is the digits before the first dot; what is not ours has no meaning."""
    assert files.parse_name(name) == parsed


def test_segment_name_is_padded_to_twenty_digits() -> None:
    """Names sort as their offsets do."""
    assert files.segment_file_name(1500, files.INDEX, files.SWAP) == (
        "00000000000000001500.index.swap"
    )


def test_short_writes_are_completed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The kernel may take a part of the bytes: the rest follows at its place."""
    really = os.pwrite
    monkeypatch.setattr(seam, "pwrite", lambda fd, data, at: really(fd, bytes(data)[:3], at))
    fd = files.create_file(tmp_path / "x")

    files.write_all(fd, b"0123456789", 5)

    assert os.pread(fd, 100, 0) == bytes(5) + b"0123456789"
    os.close(fd)


def test_short_reads_are_completed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The kernel may return a part of the bytes: the rest follows, up to the end of the file."""
    really, really_into = os.pread, os.preadv
    monkeypatch.setattr(seam, "pread", lambda fd, size, at: really(fd, min(size, 3), at))
    monkeypatch.setattr(seam, "preadv", lambda fd, parts, at: really_into(fd, [parts[0][:3]], at))
    (tmp_path / "x").write_bytes(b"0123456789")
    room = bytearray(7)

    with files.opened(tmp_path / "x") as fd:
        assert files.read_at(fd, 7, 1) == b"1234567"
        assert files.read_at(fd, 7, 5) == b"56789"
        assert files.read_into(fd, memoryview(room), 1) == 7
        assert room == b"1234567"
        assert files.read_into(fd, memoryview(room), 5) == 5
        assert room == b"5678967"


def test_what_is_gone_is_deleted_already(tmp_path: Path) -> None:
    """Deleting races with itself: a missing file or folder is no fault (KAFKA-6624)."""
    files.unlink(tmp_path / "x")
    files.remove_folder(tmp_path / "y")
    assert files.mark_deleted(tmp_path / "z.log") == tmp_path / "z.log.deleted"
    files.fsync_directory(tmp_path / "gone")


def test_folder_is_removed_with_all_in_it(tmp_path: Path) -> None:
    """A partition folder goes with its files."""
    folder = tmp_path / "orders-0"
    folder.mkdir()
    (folder / "x.log").touch()

    files.remove_folder(folder)

    assert not folder.exists()


def test_what_cannot_be_told_is_not_missing(tmp_path: Path) -> None:
    """A path that may exist is an error on every Python, one without its folder is missing."""
    (tmp_path / "file").touch()
    (tmp_path / "link").symlink_to("nowhere")

    assert files.exists(tmp_path / "file")
    assert not files.exists(tmp_path / "file" / "below")
    assert not files.exists(tmp_path / "link")
    assert files.exists(tmp_path / "link", follow=False)
    with pytest.raises(OSError, match="File name too long"):
        files.exists(tmp_path / ("a" * 256))

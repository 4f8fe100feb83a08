"""A log when its disk is full, read-only, broken or gone."""

import errno
import logging
import os
import shutil
import threading
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pytest

from siltstone.config.topic import TopicConfig
from siltstone.protocol.errors import KafkaError, KafkaStorageError
from siltstone.storage import files
from siltstone.storage.directory.log_directory import CALM_CHECKS
from siltstone.storage.directory.opening import open_directories
from siltstone.storage.log import timestamp_lookup
from siltstone.storage.log.log import Log
from siltstone.storage.log.timestamp_lookup import TimestampedOffset
from siltstone.storage.producers import transaction_index
from siltstone.storage.producers.transaction_index import AbortedTransaction
from tests.support.faults import Disk
from tests.support.invariants import check_log
from tests.support.logs import LogFolder, abort, bytes_of, offsets_in

PASSING = [errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EMFILE]
SMALL = TopicConfig(segment_bytes=300, index_interval_bytes=0)


def _name(number: int) -> str:
    return errno.errorcode[number]


class TestAppends:
    """Writing a batch."""

    @pytest.mark.parametrize("error", PASSING, ids=_name)
    def test_refused_until_there_is_room(self, tmp_path: Path, disk: Disk, error: int) -> None:
        """Refused without trying again; what was written is read; a check takes writes again."""
        folder = LogFolder(tmp_path)
        folder.append()
        disk.fill(error)
        with pytest.raises(KafkaStorageError, match=os.strerror(error)):
            folder.append(producer_id=7, producer_epoch=0, base_sequence=0)
        calls = len(disk.calls)
        with pytest.raises(KafkaStorageError, match="takes no writes now"):
            folder.append()

        assert len(disk.calls) == calls
        assert not folder.log.producers.producers
        assert offsets_in(bytes_of(folder.log, 0)) == [0]
        folder.directory.check()
        assert folder.directory.refusal is not None
        disk.mend()
        folder.directory.check()
        assert folder.append().base_offset == 1
        assert offsets_in(bytes_of(folder.reopen(), 0)) == [0, 1]

    def test_half_a_batch_is_cut_off(self, tmp_path: Path, disk: Disk) -> None:
        """A disk that takes half a batch and no more keeps nothing of it."""
        folder = LogFolder(tmp_path)
        folder.append()
        size = folder.log.size
        disk.fail("pwrite", path=".log", short=True, times=1)
        disk.fail("pwrite", errno.ENOSPC, ".log")
        with pytest.raises(KafkaStorageError):
            folder.append(3)

        assert folder.log.segments[-1].log_path.stat().st_size == size
        disk.mend()
        folder.directory.check()
        folder.append(2)
        assert offsets_in(bytes_of(folder.reopen(), 0)) == [0, 1]

    def test_half_a_batch_that_cannot_be_cut_off(self, tmp_path: Path, disk: Disk) -> None:
        """It is overwritten by the next batch, and recovery finds no trace of it."""
        folder = LogFolder(tmp_path)
        folder.append()
        disk.fail("pwrite", path=".log", short=True, times=1)
        disk.fail("pwrite", errno.ENOSPC, ".log")
        disk.fail("ftruncate", errno.EIO)
        with pytest.raises(KafkaStorageError):
            folder.append(1, size=200)
        disk.mend()
        folder.directory.check()
        folder.append(1)

        assert offsets_in(bytes_of(folder.log, 0)) == [0, 1]
        assert offsets_in(bytes_of(folder.reopen(), 0)) == [0, 1]

    @pytest.mark.parametrize("follows", [False, True], ids=["alone", "overwritten"])
    @pytest.mark.parametrize("restart", ["clean", "crash", "crash later"])
    def test_half_a_batch_at_the_end_of_a_segment(
        self, tmp_path: Path, disk: Disk, restart: str, follows: bool
    ) -> None:
        """A roll cuts off what of it is left: it is not served, and no start ends the log there."""
        folder = LogFolder(tmp_path)
        folder.append()
        disk.fail("pwrite", path=".log", short=True, times=1)
        disk.fail("pwrite", errno.ENOSPC, ".log", times=1)
        disk.fail("ftruncate", errno.EIO, times=1)
        with pytest.raises(KafkaStorageError):
            folder.append(1, size=400)
        folder.directory.check()
        if follows:
            folder.append()
        folder.log.roll()
        folder.append()
        if restart == "clean":
            folder.close()
        elif restart == "crash later":
            folder.settle()
            folder.checkpoint()
        folder.reopen(is_clean=restart == "clean")

        check_log(folder.log)
        assert offsets_in(bytes_of(folder.log, 0)) == list(range(2 + follows))

    def test_refused_for_good(self, tmp_path: Path, disk: Disk) -> None:
        """After an I/O error nothing is written until the next start; reads go on."""
        folder = LogFolder(tmp_path)
        folder.append()
        disk.fail("pwrite", errno.EIO, times=1)
        with pytest.raises(KafkaStorageError, match="Input/output error"):
            folder.append()
        folder.directory.check()

        with pytest.raises(KafkaStorageError, match="is offline"):
            folder.append()
        assert offsets_in(bytes_of(folder.log, 0)) == [0]
        with pytest.raises(KafkaStorageError):
            folder.log.close()

    @pytest.mark.parametrize("kind", [files.LOG, files.INDEX, files.TIME_INDEX])
    @pytest.mark.parametrize("crash", [False, True], ids=["goes on", "crash"])
    def test_roll_without_room(self, tmp_path: Path, disk: Disk, kind: str, crash: bool) -> None:
        """The batch that needs a new segment is refused; the files that were made do no harm."""
        folder = LogFolder(tmp_path, SMALL)
        for _ in range(3):
            folder.append(size=50)
        disk.fail("create", errno.ENOSPC, kind)
        with pytest.raises(KafkaStorageError):
            folder.append(size=200)
        disk.mend()
        if crash:
            folder.reopen()
        else:
            folder.directory.check()

        assert folder.append(size=200).base_offset == 3
        assert offsets_in(bytes_of(folder.log, 0)) == [0, 1, 2, 3]

    def test_a_first_batch_that_cannot_be_read(self, tmp_path: Path, disk: Disk) -> None:
        """An append looks at its time, once since the start: it is refused, and the next is not."""
        folder = LogFolder(tmp_path, TopicConfig(segment_ms=1000, index_interval_bytes=0))
        for _ in range(3):
            folder.append()
        folder.close()
        folder.reopen(is_clean=True)
        for call in ("pread", "preadv"):
            disk.fail(call, errno.EIO, files.LOG, times=1)
        with pytest.raises(KafkaStorageError, match="cannot be read"):
            folder.append()
        disk.mend()

        assert folder.append().base_offset == 3

    def test_an_abort_without_its_index_entry(self, tmp_path: Path, disk: Disk) -> None:
        """Its marker is in the log: until a start completes the index no record of it is stable."""
        folder = LogFolder(tmp_path)
        disk.fail("create", errno.EIO, files.TRANSACTION_INDEX)
        with pytest.raises(KafkaStorageError, match="Input/output error"):
            abort(folder, 7)
        disk.mend()

        assert (folder.log.last_stable_offset, folder.log.log_end_offset) == (0, 3)
        log = folder.reopen()
        assert (log.last_stable_offset, log.log_end_offset) == (3, 3)
        assert log.aborted_transactions(0, 3) == [(7, 0)]


class TestFsync:
    """A failed fsync is never taken back."""

    @pytest.mark.parametrize("error", [errno.EIO, errno.ENOSPC, errno.EROFS], ids=_name)
    @pytest.mark.parametrize("name", [files.LOG, files.INDEX, "/orders-0"])
    def test_refused_for_good(self, tmp_path: Path, disk: Disk, name: str, error: int) -> None:
        """Neither the next fsync, which succeeds, nor room makes it undone; reads go on."""
        folder = LogFolder(tmp_path, SMALL)
        for _ in range(4):
            folder.append(size=50)
        disk.fail("fsync", error, name, times=1)
        with pytest.raises(KafkaStorageError, match="fsync failed"):
            folder.log.flush()
        before = len(disk.names("fsync"))
        folder.directory.check()

        with pytest.raises(KafkaStorageError, match="is offline"):
            folder.log.flush()
        with pytest.raises(KafkaStorageError, match="is offline"):
            folder.append()
        assert len(disk.names("fsync")) == before
        assert folder.log.recovery_point == 0
        assert offsets_in(bytes_of(folder.log, 0)) == [0, 1, 2, 3]

    def test_nobody_behind_it_is_told_otherwise(self, tmp_path: Path, disk: Disk) -> None:
        """A flush that waited for the one that failed fails too, though its fsync would succeed."""
        folder = LogFolder(tmp_path)
        folder.append()
        disk.fail("fsync", times=1, path=files.LOG, seconds=0.05)
        refused: list[KafkaError] = []

        def flush() -> None:
            try:
                folder.log.flush()
            except KafkaError as error:
                refused.append(error)

        threads = [threading.Thread(target=flush) for _ in range(3)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

        assert len(refused) == 3
        assert folder.log.recovery_point == 0

    def test_next_start_writes_everything_again(self, tmp_path: Path, disk: Disk) -> None:
        """Bytes above the recovery point are written and fsynced again, whatever the cache says."""
        folder = LogFolder(tmp_path, SMALL)
        for _ in range(4):
            folder.append(size=50)
        disk.fail("fsync", path=files.LOG, times=1)
        with pytest.raises(KafkaStorageError):
            folder.log.flush()

        assert (tmp_path / files.FSYNC_FAILED).exists()
        disk.calls.clear()
        folder.reopen()
        logs = [path.name for path in sorted(folder.path.glob("*.log"))]
        for kind in ("pwrite", "fsync"):
            written = [name.removeprefix(f"{kind} ") for name in disk.names(kind)]
            assert [name for name in written if name.endswith(".log")] == logs
        assert offsets_in(bytes_of(folder.log, 0)) == [0, 1, 2, 3]

    def test_behind_another_error_leaves_its_mark(self, tmp_path: Path, disk: Disk) -> None:
        """A write of another log may fail while the fsync is under way."""
        folder = LogFolder(tmp_path)
        folder.append()
        folder.directory.fail(OSError(errno.EIO, "a write"))
        assert not (tmp_path / files.FSYNC_FAILED).exists()

        folder.directory.fail(files.FsyncFailed(errno.EIO, "an fsync"))

        assert (tmp_path / files.FSYNC_FAILED).exists()
        disk.calls.clear()
        folder.reopen()
        assert [name for name in disk.names("pwrite") if name.endswith(files.LOG)]

    def test_mark_is_made_once_the_disk_takes_it(self, tmp_path: Path, disk: Disk) -> None:
        """While the whole directory fails there is no mark; a check leaves it, once."""
        folder = LogFolder(tmp_path)
        folder.append()
        disk.fail("fsync", path=files.LOG, times=1)
        disk.fail("create", path=files.FSYNC_FAILED)
        with pytest.raises(KafkaStorageError):
            folder.log.flush()
        folder.directory.check()
        assert not (tmp_path / files.FSYNC_FAILED).exists()

        disk.mend()
        folder.directory.check()

        assert (tmp_path / files.FSYNC_FAILED).exists()
        disk.calls.clear()
        folder.directory.check()
        assert not disk.calls


class TestIndexes:
    """Files that are written beside the batches."""

    def test_flush_without_room(self, tmp_path: Path, disk: Disk) -> None:
        """Index entries that found no room are written by the next flush; none is torn."""
        folder = LogFolder(tmp_path, TopicConfig(index_interval_bytes=0))
        for _ in range(5):
            folder.append()
        disk.fail("pwrite", path=files.INDEX, short=True, times=1)
        disk.fail("pwrite", errno.ENOSPC, files.INDEX)
        with pytest.raises(KafkaStorageError):
            folder.log.flush()
        assert folder.log.recovery_point == 0
        disk.mend()
        folder.directory.check()
        folder.log.flush()

        assert folder.log.recovery_point == 5
        assert folder.log.segments[-1].files.path(files.INDEX).stat().st_size == 4 * 8
        folder.close()
        assert folder.reopen(is_clean=True).segments[-1].find_damage() is None

    def test_rolled_segment_is_flushed_later(self, tmp_path: Path, disk: Disk) -> None:
        """The flush that a full disk stopped is made up for by the next one."""
        folder = LogFolder(tmp_path, SMALL)
        for _ in range(4):
            folder.append(size=50)
        disk.fail("pwrite", errno.ENOSPC, files.INDEX)
        folder.services.background.close()
        assert folder.log.recovery_point == 0
        disk.mend()
        folder.directory.check()
        folder.log.flush()

        assert folder.log.recovery_point == 4
        assert all(segment.find_damage() is None for segment in folder.log.segments)


class TestReads:
    """A disk that does not give back what it has."""

    def test_one_unreadable_segment(
        self, tmp_path: Path, disk: Disk, caplog: pytest.LogCaptureFixture
    ) -> None:
        """Only fetches from it are refused, with one line in all; writes go on."""
        folder = LogFolder(tmp_path, SMALL)
        for _ in range(6):
            folder.append(size=50)
        folder.settle()
        bad, good = folder.log.segments[0], folder.log.segments[-1]
        disk.fail("preadv", path=bad.log_path.name)
        disk.fail("pread", path=bad.log_path.name)
        for _ in range(3):
            with pytest.raises(KafkaStorageError, match="cannot be read"):
                folder.log.read(1, 10, 6)

        assert folder.log.read(good.base_offset, 1000, 6) is not None
        assert folder.append().base_offset == 6
        assert len(caplog.records) == 1

    def test_no_descriptors_left(self, tmp_path: Path, disk: Disk) -> None:
        """Running out of them takes nothing offline."""
        folder = LogFolder(tmp_path, SMALL)
        for _ in range(6):
            folder.append(size=50)
        folder.settle()
        for segment in folder.log.segments[:-1]:
            for kind in files.SEGMENT_KINDS:
                segment.files.forget(kind)
        disk.fail("open", errno.EMFILE)
        with pytest.raises(KafkaStorageError, match="Too many open files"):
            folder.log.read(0, 10, 6)
        disk.mend()

        assert offsets_in(bytes_of(folder.log, 0)) == [0, 1, 2, 3, 4, 5]


def test_a_flush_beside_a_marker_waits_for_its_entry(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise the recovery point passes it, and no later flush fsyncs the transaction index."""
    folder = LogFolder(tmp_path)
    add = transaction_index.append
    flush = threading.Thread(target=folder.log.flush)

    def add_late(path: Path, entries: Iterable[AbortedTransaction]) -> None:
        flush.start()
        flush.join(0.2)
        add(path, entries)

    monkeypatch.setattr(transaction_index, "append", add_late)
    synced: list[str] = []
    fsync = files.fsync

    def note(fd: int) -> None:
        fsync(fd)
        synced.append(str(Path(f"/proc/self/fd/{fd}").readlink()))

    monkeypatch.setattr(files, "fsync", note)
    abort(folder, 7)
    flush.join()

    assert folder.log.recovery_point == 3
    assert any(each.endswith(files.TRANSACTION_INDEX) for each in synced)


class TestRetention:
    """Making room on a disk that has none."""

    def test_full_disk_is_made_room_on(self, tmp_path: Path, disk: Disk) -> None:
        """Old segments go although nothing can be written; the active one stays."""
        folder = LogFolder(tmp_path, TopicConfig(segment_bytes=300, retention_ms=0))
        for _ in range(6):
            folder.append(size=50)
        folder.settle()
        count = len(folder.log.segments)
        disk.fill()
        folder.clock.set_now_ms(2_000_000_000_000)

        assert folder.log.apply_retention(folder.clock.now_ms()) == count - 1
        assert folder.log.apply_retention(folder.clock.now_ms()) == 0
        folder.pass_time_despite_failures()
        assert len(list(folder.path.glob("*.log*"))) == 1

    @pytest.mark.parametrize(
        ("name", "look"),
        [
            ("find_at_or_after", lambda log: log.find_offset_by_timestamp(0, 6)),
            ("find_max", lambda log: log.find_max_timestamp(6)),
        ],
    )
    def test_a_lookup_meets_segments_that_go(
        self,
        tmp_path: Path,
        monkeypatch: pytest.MonkeyPatch,
        name: str,
        look: Callable[[Log], TimestampedOffset | None],
    ) -> None:
        """It looks at the segments that are left; a file that is missing otherwise is an error."""
        folder = LogFolder(tmp_path, TopicConfig(segment_bytes=300, retention_ms=0))
        for _ in range(6):
            folder.append(size=50)
        folder.settle()
        find = getattr(timestamp_lookup, name)
        monkeypatch.setattr(timestamp_lookup, name, _missing)
        with pytest.raises(KafkaStorageError):
            look(folder.log)

        before = folder.log.segments

        def delete(*given: Any) -> Any:
            if folder.log.segments is not before:
                return find(*given)
            folder.clock.set_now_ms(2_000_000_000_000)
            assert folder.log.apply_retention(folder.clock.now_ms())
            return _missing()

        monkeypatch.setattr(timestamp_lookup, name, delete)
        assert look(folder.log) is None

    def test_longer_names_do_not_fit(self, tmp_path: Path, disk: Disk) -> None:
        """Files whose renaming found no room in their folder are unlinked all the same."""
        folder = LogFolder(tmp_path, TopicConfig(segment_bytes=300, retention_ms=0))
        for _ in range(6):
            folder.append(size=50)
        folder.settle()
        folder.clock.set_now_ms(2_000_000_000_000)
        disk.fail("rename", errno.ENOSPC, path=files.INDEX)
        folder.log.apply_retention(folder.clock.now_ms())
        folder.pass_time_despite_failures()

        assert {path.name for path in folder.path.iterdir() if path.suffix == ".log"} == {
            folder.log.segments[-1].log_path.name
        }
        assert not list(folder.path.glob("*.deleted"))

    @pytest.mark.parametrize("error", [errno.EROFS, errno.EIO])
    def test_disk_is_asked_again(self, tmp_path: Path, disk: Disk, error: int) -> None:
        """A file that could not be unlinked goes when the disk lets it; nobody else notices."""
        folder = LogFolder(tmp_path, TopicConfig(segment_bytes=300, retention_ms=0))
        for _ in range(6):
            folder.append(size=50)
        folder.settle()
        folder.clock.set_now_ms(2_000_000_000_000)
        folder.log.apply_retention(folder.clock.now_ms())
        folder.services.background.close()
        disk.fail("unlink", error)
        for _ in range(3):
            folder.pass_time_despite_failures()
        assert list(folder.path.glob("*.deleted"))
        assert folder.directory.refusal is None
        disk.mend()
        folder.pass_time_despite_failures()

        assert not list(folder.path.glob("*.deleted"))


class TestGone:
    """Folders that somebody takes away."""

    def test_log_directory_is_gone(self, tmp_path: Path) -> None:
        """A check notices; writes stop for good and the open segment is still read."""
        root = tmp_path / "data"
        root.mkdir()
        (directory,), _ = open_directories([root], 1, 0)
        folder = LogFolder(root, directory=directory)
        folder.append()
        folder.directory.check()
        assert folder.directory.refusal is None
        shutil.move(root, tmp_path / "elsewhere")
        root.mkdir()
        folder.directory.check()

        with pytest.raises(KafkaStorageError, match="it is another folder now"):
            folder.append()
        assert offsets_in(bytes_of(folder.log, 0)) == [0]
        folder.directory.release()

    @pytest.mark.parametrize("notice", [lambda log: log.roll(), lambda log: log.flush()])
    def test_partition_folder_is_gone(self, tmp_path: Path, notice: Callable[..., None]) -> None:
        """The next roll or flush notices, instead of writing on into files without a name."""
        folder = LogFolder(tmp_path)
        folder.append()
        folder.settle()
        shutil.rmtree(folder.path)

        with pytest.raises((KafkaStorageError, FileNotFoundError)):
            notice(folder.log)
        assert folder.log.recovery_point == 0


class TestLines:
    """The lines of the log."""

    def test_a_refusal_is_told_once(
        self, tmp_path: Path, disk: Disk, caplog: pytest.LogCaptureFixture
    ) -> None:
        """One line when it begins and one when it is over for a while, however often it flaps."""
        caplog.set_level(logging.INFO)
        folder = LogFolder(tmp_path)
        for _ in range(5):
            disk.fill()
            for _ in range(3):
                with pytest.raises(KafkaStorageError):
                    folder.append()
            disk.mend()
            folder.directory.check()
            folder.append()
        for _ in range(CALM_CHECKS + 3):
            folder.directory.check()

        said = [record.getMessage() for record in caplog.records]
        assert len(said) == 2
        assert "takes no writes for now, reads go on: make room on the disk" in said[0]
        assert f"directory={tmp_path} error=" in said[0]
        assert "takes writes again" in said[1]

    def test_a_failure_is_told_once(
        self, tmp_path: Path, disk: Disk, caplog: pytest.LogCaptureFixture
    ) -> None:
        """One line, with what to do."""
        folder = LogFolder(tmp_path)
        disk.fail("pwrite", errno.EIO)
        for _ in range(3):
            with pytest.raises(KafkaStorageError):
                folder.append()
            folder.directory.check()

        assert len(caplog.records) == 1
        assert "offline for writes, reads go on" in caplog.records[0].getMessage()


def _missing(*_: object) -> TimestampedOffset | None:
    raise FileNotFoundError(errno.ENOENT, "it went")

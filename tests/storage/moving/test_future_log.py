"""The copy of a log in another directory, and the moment at which it takes over."""

from pathlib import Path

import pytest

from siltstone.protocol.errors import KafkaStorageError
from siltstone.storage import files
from siltstone.storage.directory.log_directory import LogDirectory
from siltstone.storage.log.log import Log
from siltstone.storage.moving.future_log import FutureLog, MoveCancelled, has_room_for_name
from siltstone.storage.producers import transaction_index
from siltstone.storage.producers.transaction_index import AbortedTransaction
from siltstone.storage.segment.index import OFFSET_ENTRY, TIME_ENTRY
from siltstone.storage.topic_partition import TopicPartition
from tests.support.batches import TIMESTAMP
from tests.support.faults import install
from tests.support.invariants import check_folder, check_log
from tests.support.logs import ORDERS, LogFolder, abort, bytes_of, offsets_in

NAME = "orders-0.0123456789abcdef0123456789abcdef-future"


def _folders(tmp_path: Path) -> tuple[LogFolder, FutureLog]:
    for name in ("first", "other"):
        (tmp_path / name).mkdir()
    folder = LogFolder(tmp_path / "first")
    other = LogDirectory(tmp_path / "other")
    return folder, FutureLog(folder.log, other, other.path / NAME)


def _settle(future: FutureLog) -> None:
    future.create()
    future.copy()
    future.settle()


def _reopen(folder: LogFolder, future: FutureLog) -> Log:
    """Open the moved log as after a kill."""
    folder.directory, folder.path = future.directory, future.final_path
    folder.checkpoint()
    return folder.reopen()


def test_what_came_meanwhile_is_taken_along(tmp_path: Path) -> None:
    """Batches, rolls, aborted and open transactions after the copy was settled are in the log."""
    folder, future = _folders(tmp_path)
    abort(folder, 7)
    folder.log.roll()
    _settle(future)
    abort(folder, 8)
    folder.log.roll()
    abort(folder, 9)
    folder.append(1, producer_id=5, producer_epoch=0, base_sequence=0, flags=0x10)
    before = bytes_of(folder.log, 0)
    aborted = folder.log.aborted_transactions(0, 10)

    assert future.take_over(1 << 20)
    log = folder.log
    check_log(log)
    assert bytes_of(log, 0) == before
    assert log.aborted_transactions(0, 10) == aborted == [(7, 0), (8, 3), (9, 6)]
    assert (log.last_stable_offset, log.log_end_offset, log.recovery_point) == (9, 10, 3)
    folder.append(3)
    folder.settle()
    log.flush()
    assert log.recovery_point == 13
    log = _reopen(folder, future)
    check_log(log)
    assert bytes_of(log, 0)[: len(before)] == before
    assert log.aborted_transactions(0, 10) == aborted
    assert (log.last_stable_offset, log.log_end_offset) == (9, 13)


def test_an_abort_behind_the_last_fsyncs(tmp_path: Path) -> None:
    """It is in the same segment, whose transaction index was copied before."""
    folder, future = _folders(tmp_path)
    abort(folder, 7)
    _settle(future)
    abort(folder, 8)

    assert future.take_over(1 << 20)
    assert folder.log.aborted_transactions(0, 6) == [(7, 0), (8, 3)]


@pytest.mark.parametrize("is_settled", [False, True])
def test_what_is_deleted_meanwhile_stays_deleted(tmp_path: Path, *, is_settled: bool) -> None:
    """Segments that retention takes after they were copied are not in the new folder either."""
    folder, future = _folders(tmp_path)
    folder.append(2)
    folder.log.roll()
    folder.append(2)
    future.create()
    future.copy()
    if is_settled:
        future.settle()
    folder.log.delete_records(2)
    folder.log.apply_retention(TIMESTAMP)
    if is_settled:
        assert not future.take_over(1 << 20)
    future.settle()
    assert future.size == folder.log.size
    assert future.take_over(0)
    folder.directory, folder.path = future.directory, future.final_path
    folder.recovery_point = folder.log.recovery_point
    log = folder.reopen()

    assert log.log_start_offset == log.segments[0].base_offset == 2
    check_folder(log)


def test_too_much_is_copied_once_more(tmp_path: Path) -> None:
    """The event loop copies no more than it is told; the log goes on where it is."""
    folder, future = _folders(tmp_path)
    folder.append(3)
    _settle(future)
    folder.append(3)
    missing = folder.log.segments[0].size - future.size

    assert not future.take_over(missing - 1)
    assert folder.log.path == folder.path
    assert future.lag == 3
    assert future.take_over(missing)
    assert offsets_in(bytes_of(folder.log, 0)) == [0, 3]


def test_the_indexes_of_an_unfinished_copy_are_not_ahead(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Batches appended between the copy of the log and that of its indexes are in neither."""
    folder, future = _folders(tmp_path)
    folder.append(3, size=5000)
    abort(folder, 7)
    fsync = files.fsync

    def append_beside(fd: int) -> None:
        fsync(fd)
        folder.append(3, size=5000, timestamp=TIMESTAMP + folder.log.log_end_offset)
        abort(folder, folder.log.log_end_offset)

    folder.append(3, size=5000)
    future.create()
    with monkeypatch.context() as patch:
        patch.setattr(files, "fsync", append_beside)
        future.copy()
    offsets, times, aborted = (
        future.path / files.segment_file_name(0, kind)
        for kind in (files.INDEX, files.TIME_INDEX, files.TRANSACTION_INDEX)
    )

    assert future.end_offset < folder.log.log_end_offset
    assert [relative for relative, _ in OFFSET_ENTRY.iter_unpack(offsets.read_bytes())] == [4]
    assert [relative for _, relative in TIME_ENTRY.iter_unpack(times.read_bytes())] == [2]
    assert transaction_index.read(aborted) == [(7, 3, 5, 6)]


def test_a_log_at_rest(tmp_path: Path) -> None:
    """One that nobody has written to since the start moves with the indexes that it has."""
    folder, future = _folders(tmp_path)
    for _ in range(20):
        folder.append(1, size=1000)
    folder.close()
    log = folder.reopen(is_clean=True)
    future = FutureLog(log, future.directory, future.path)
    entries = len(log.segments[0].offset_index())
    _settle(future)

    assert future.take_over(0)
    assert len(log.segments[0].offset_index()) == entries > 2
    folder.append(1)
    check_log(log)


def test_files_that_an_earlier_try_has_left(tmp_path: Path) -> None:
    """The cleaner has taken what they were of: the copy has the files of the log and no others."""
    folder, future = _folders(tmp_path)
    folder.append(3)
    folder.log.roll()
    folder.append(1)
    future.create()
    for base_offset in (0, 3):
        path = future.path / f"{base_offset:020d}.txnindex"
        transaction_index.append(path, [AbortedTransaction(7, 0, 2, 3)])
    future.copy()
    future.settle()

    assert future.take_over(0)
    assert not list(future.final_path.glob("*.txnindex"))
    assert _reopen(folder, future).aborted_transactions(0, 4) == []


def test_an_empty_log(tmp_path: Path) -> None:
    """There is nothing to copy, and appends go to the new place."""
    folder, future = _folders(tmp_path)
    _settle(future)

    assert future.take_over(0)
    folder.append(2)
    assert (future.final_path / f"{0:020d}.log").stat().st_size == folder.log.size
    check_log(folder.log)


def test_a_segment_that_ended_after_it_was_copied_is_flushed_in_its_new_place(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing was appended since, but its indexes got their last entries: they are not sure yet."""
    folder, future = _folders(tmp_path)
    folder.append(2)
    _settle(future)
    folder.log.roll()
    assert future.take_over(1 << 20)
    disk = install(monkeypatch)
    folder.log.flush()

    assert folder.log.recovery_point == 2
    fsynced = [path for kind, path in disk.calls if kind == "fsync"]
    for kind in (files.INDEX, files.TIME_INDEX):
        assert str(future.final_path / files.segment_file_name(0, kind)) in fsynced


def test_a_roll_after_the_move(tmp_path: Path) -> None:
    """Segments and snapshots are made in the new folder, those too that were queued before."""
    folder, future = _folders(tmp_path)
    folder.append(2, producer_id=4, producer_epoch=0, base_sequence=0)
    _settle(future)
    folder.log.roll()
    assert future.take_over(1 << 20)
    folder.append(2, producer_id=4, producer_epoch=0, base_sequence=2)
    folder.log.roll()
    folder.settle()

    assert sorted(each.name for each in future.final_path.glob("*.snapshot")) == [
        f"{offset:020d}.snapshot" for offset in (2, 4)
    ]
    assert folder.log.recovery_point == 4
    assert not list(folder.path.glob("*.snapshot"))


def test_who_is_not_wanted_any_more(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A cancelled copy ends at its next slice, and so does one whose disks fail or refuse."""
    folder, future = _folders(tmp_path)
    folder.append(3)
    future.create()
    future.directory.fail(OSError(28, "No space left on device"))
    with pytest.raises(KafkaStorageError, match="takes no writes"):
        future.copy()
    future.directory.check()
    monkeypatch.setattr(files, "find_room", lambda _: (10, 1000))
    future.directory.check(100)
    with pytest.raises(KafkaStorageError, match="takes no produce requests"):
        future.copy()
    future.directory.check()
    folder.directory.fail(OSError(5, "Input/output error"))
    with pytest.raises(KafkaStorageError, match="offline"):
        future.copy()
    future.cancel()
    with pytest.raises(MoveCancelled):
        future.copy()

    assert future.size == 0
    assert (future.path / files.MOVED).exists()


def test_names_that_leave_no_room() -> None:
    """The name of a copy's folder is not cut (KAFKA-4893): 255 characters are the most."""
    assert has_room_for_name(ORDERS)
    assert has_room_for_name(TopicPartition("x" * 213, 0))
    assert not has_room_for_name(TopicPartition("x" * 214, 0))

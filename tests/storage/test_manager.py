"""Log directories as a whole: start, stop, locks, identities, creation and deletion."""

import errno
import logging
import shutil
import sys
import threading
import uuid
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

import pytest

from siltstone.config.server import ServerConfig
from siltstone.config.topic import TopicConfig
from siltstone.protocol.core.constants import CONTROL
from siltstone.protocol.errors import KafkaStorageError, UnknownTopicOrPartition
from siltstone.protocol.records.build import frame_batch
from siltstone.storage import files
from siltstone.storage.directory.checkpoint import OffsetCheckpoint
from siltstone.storage.directory.log_directory import LogDirError
from siltstone.storage.directory.meta_properties import MetaProperties
from siltstone.storage.directory.opening import open_directories
from siltstone.storage.log.dropped_segments import RETRY_MS
from siltstone.storage.log.frozen import NameGate
from siltstone.storage.log.log import Log
from siltstone.storage.manager import LogManager
from siltstone.storage.producers.checks import Origin
from siltstone.storage.segment.segment import LogSegment
from siltstone.storage.topic_partition import TopicPartition
from tests.support.appending import append_unchecked
from tests.support.batches import TIMESTAMP, make_batch
from tests.support.clock import FakeClock
from tests.support.faults import Disk, install
from tests.support.invariants import check_log
from tests.support.logs import ORDERS, TOPIC_ID, append_waiting, validated
from tests.support.power import PowerDisk
from tests.support.programs import run_to_end
from tests.support.segments import open_files
from tests.support.waiting import wait_until


def _manager(*paths: Path, clock: FakeClock | None = None, node_id: int = 1) -> LogManager:
    return LogManager(
        paths, ServerConfig(node_id=node_id), lambda _: TopicConfig(), clock or FakeClock()
    )


def _loaded(*paths: Path, clock: FakeClock | None = None) -> LogManager:
    manager = _manager(*paths, clock=clock)
    manager.load()
    return manager


@contextmanager
def _running(*paths: Path, clock: FakeClock | None = None) -> Iterator[LogManager]:
    """A loaded manager that is closed cleanly."""
    manager = _loaded(*paths, clock=clock)
    try:
        yield manager
    finally:
        manager.close()


def _crash(manager: LogManager) -> None:
    """End a manager as a kill would, but for the locks of this process."""
    manager.background.drain()
    manager.close(clean=False)


def _run_deletions(manager: LogManager, clock: FakeClock) -> None:
    """Let the delayed work of the next seconds be done."""
    clock.advance(RETRY_MS)
    manager.deletions.run_due()
    manager.background.drain()


def _refuse_deletion(manager: LogManager, disk: Disk, error: int, times: int = 1) -> None:
    """Have the disk refuse to rename the folder of a partition that is deleted."""
    manager.background.drain()  # its first leader epoch is renamed, too
    disk.fail("rename", error, str(manager.logs[ORDERS].path), times=times)
    with pytest.raises(KafkaStorageError):
        manager.delete(ORDERS)


def _deleted(directory: Path) -> list[Path]:
    return list(directory.glob("*-delete"))


@contextmanager
def _busy(manager: LogManager) -> Iterator[None]:
    """Have the background thread do nothing of what it is given."""
    released = threading.Event()
    manager.background.submit("a long fsync", released.wait)
    try:
        yield
    finally:
        released.set()


def _partition(number: int) -> TopicPartition:
    return TopicPartition("orders", number)


def test_a_new_directory_gets_an_identity(tmp_path: Path) -> None:
    """meta.properties names the cluster, the node and the directory, and stays."""
    path = tmp_path / "data"
    with _running(path) as manager:
        first = MetaProperties.read(path)
        cluster_id = manager.cluster_id
    with _running(path) as manager:
        assert manager.cluster_id == cluster_id
        assert manager.directories[0].directory_id

    assert first is not None
    assert first == MetaProperties.read(path)
    assert (first.cluster_id, first.node_id) == (cluster_id, 1)


def test_a_new_directory_is_there_after_a_power_failure(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its name is fsynced before anything in it is."""
    disk = install(monkeypatch)
    with _running(tmp_path / "data"):
        fsyncs = [path for kind, path in disk.calls if kind == "fsync"]

    assert fsyncs[0] == str(tmp_path)


def test_a_directory_that_a_start_has_made_and_not_fsynced_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The start was killed in between, or its fsync failed."""
    path = tmp_path / "data"
    path.mkdir()
    disk = install(monkeypatch)
    with _running(path):
        first = [path for kind, path in disk.calls if kind == "fsync"]
    disk.calls.clear()
    with _running(path):
        later = [path for kind, path in disk.calls if kind == "fsync"]

    assert first[0] == str(tmp_path)
    assert str(tmp_path) not in later


def test_the_parent_of_a_mounted_directory_is_not_fsynced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No start has made a mount point, and a read-only image around it may refuse the fsync."""
    path = tmp_path / "data"
    path.mkdir()
    find_identity = files.find_identity

    def find(each: Path | str, folder: int | None = None) -> tuple[int, int]:
        device, inode = find_identity(each, folder)
        return device + (each == path), inode

    monkeypatch.setattr(files, "find_identity", find)
    disk = install(monkeypatch)
    with _running(path):
        fsyncs = [each for kind, each in disk.calls if kind == "fsync"]

    assert str(tmp_path) not in fsyncs


def test_the_clean_mark_is_taken_at_start_and_left_at_stop(tmp_path: Path) -> None:
    """It exists only between a clean stop and the next start, before any log is opened."""
    mark = tmp_path / files.CLEAN_SHUTDOWN
    with _running(tmp_path) as manager:
        assert not manager.directories[0].was_clean
        assert not mark.exists()
    assert mark.exists()
    with _running(tmp_path) as manager:
        assert manager.directories[0].was_clean
        assert not mark.exists()
    assert not (tmp_path / files.LOCK).exists()


@pytest.mark.parametrize("fault", ["a checkpoint is a link", "a partition is present twice"])
def test_a_start_that_opens_no_log_leaves_the_clean_mark(tmp_path: Path, fault: str) -> None:
    """It is refused with what to do, and once that is done the next one scans nothing."""
    paths = [tmp_path / name for name in ("one", "two")]
    with _running(*paths) as manager:
        manager.create(ORDERS, TOPIC_ID, TopicConfig())
    here, other = sorted(paths, key=lambda each: not (each / str(ORDERS)).exists())
    if fault == "a checkpoint is a link":
        wrong = other / files.RECOVERY_POINTS
        wrong.unlink(missing_ok=True)
        wrong.symlink_to(here / files.RECOVERY_POINTS)
    else:
        wrong = other / str(ORDERS)
        shutil.copytree(here / str(ORDERS), wrong)
    manager = _manager(*paths)
    with pytest.raises(LogDirError):
        manager.load()
    manager.close(clean=False)
    files.remove_folder(wrong)

    with _running(*paths) as manager:
        assert all(each.was_clean for each in manager.directories)
        assert list(manager.logs) == [ORDERS]


def test_logs_survive_a_clean_stop(tmp_path: Path) -> None:
    """Offsets, ids and the recovery point are known again; nothing is scanned."""
    with _running(tmp_path) as manager:
        log = manager.create(ORDERS, TOPIC_ID, TopicConfig())
        append_unchecked(log, 3)
    with _running(tmp_path) as manager:
        log = manager.logs[ORDERS]

        assert (log.log_end_offset, log.recovery_point, log.topic_id) == (3, 3, TOPIC_ID)
        assert manager.topic_ids() == {"orders": {TOPIC_ID}}
        check_log(log)


def test_logs_survive_a_kill(tmp_path: Path) -> None:
    """Without the mark everything above the recovery point is scanned and kept."""
    manager = _loaded(tmp_path)
    log = manager.create(ORDERS, TOPIC_ID, TopicConfig())
    append_unchecked(log, 3)
    manager.checkpoint(files.RECOVERY_POINTS)
    _crash(manager)
    with _running(tmp_path) as manager:
        assert manager.logs[ORDERS].log_end_offset == 3
        assert manager.logs[ORDERS].recovery_point == 0


def test_checkpoints_are_kafka_s(tmp_path: Path) -> None:
    """They are written as Kafka's; a recovery point stays below the end of an active segment."""
    with _running(tmp_path) as manager:
        log = manager.create(ORDERS, TOPIC_ID, TopicConfig())
        manager.create(_partition(1), TOPIC_ID, TopicConfig())
        append_unchecked(log, 3)
        log.delete_records(2)
        log.flush()
        manager.checkpoint(files.RECOVERY_POINTS)
        manager.checkpoint(files.LOG_START_OFFSETS)
        manager.checkpoint(files.HIGH_WATERMARKS)
        manager.background.drain()

        assert (tmp_path / files.RECOVERY_POINTS).read_text() == "0\n2\norders 0 2\norders 1 0\n"
        assert (tmp_path / files.LOG_START_OFFSETS).read_text() == "0\n1\norders 0 2\n"
        assert (tmp_path / files.HIGH_WATERMARKS).read_text() == "0\n2\norders 0 3\norders 1 0\n"


def test_checkpoints_are_written_only_when_they_change(tmp_path: Path) -> None:
    """An idle broker does not fsync the same file again and again."""
    with _running(tmp_path) as manager:
        manager.create(ORDERS, TOPIC_ID, TopicConfig())
        path = tmp_path / files.HIGH_WATERMARKS
        manager.checkpoint(files.HIGH_WATERMARKS)
        manager.background.drain()
        path.unlink()
        manager.checkpoint(files.HIGH_WATERMARKS)
        manager.background.drain()

        assert not path.exists()


def test_the_log_start_offset_survives_a_kill(tmp_path: Path) -> None:
    """A checkpointed DeleteRecords is not undone."""
    manager = _loaded(tmp_path)
    log = manager.create(ORDERS, TOPIC_ID, TopicConfig())
    append_unchecked(log, 3)
    log.delete_records(2)
    manager.checkpoint(files.LOG_START_OFFSETS)
    _crash(manager)
    with _running(tmp_path) as manager:
        assert manager.logs[ORDERS].log_start_offset == 2


@pytest.mark.parametrize("clean", [True, False])
def test_deleted_records_stay_deleted_where_a_name_was_kept(
    tmp_path: Path, disk: Disk, clean: bool
) -> None:
    """A segment that a full disk did not let be renamed is found again, and not readable."""
    manager = _loaded(tmp_path)
    log = manager.create(ORDERS, TOPIC_ID, TopicConfig(retention_ms=-1))
    append_unchecked(log, 3)
    log.roll()
    append_unchecked(log, 2)
    log.delete_records(3)
    disk.fail("rename", errno.ENOSPC, path=files.LOG)
    log.apply_retention(TIMESTAMP)
    manager.background.drain()
    disk.mend()
    manager.checkpoint(files.RECOVERY_POINTS, files.LOG_START_OFFSETS)
    if clean:
        manager.close()
    else:
        _crash(manager)

    with _running(tmp_path) as manager:
        log = manager.logs[ORDERS]
        assert [each.base_offset for each in log.segments] == [0, 3]
        assert log.log_start_offset == 3
        log.apply_retention(TIMESTAMP)
        manager.background.drain()
        assert not log.has_old_names
    with _running(tmp_path) as manager:
        assert manager.logs[ORDERS].log_start_offset == 3
    assert (tmp_path / files.LOG_START_OFFSETS).read_text() == "0\n0\n"


def test_partitions_go_to_the_directory_with_the_fewest(tmp_path: Path) -> None:
    """New partitions are spread, and are found again wherever they are."""
    paths = tmp_path / "a", tmp_path / "b"
    with _running(*paths) as manager:
        for number in range(4):
            manager.create(_partition(number), TOPIC_ID, TopicConfig())
        counts = [sum(path.is_dir() for path in root.iterdir()) for root in paths]
    with _running(*paths) as manager:
        assert counts == [2, 2]
        assert len(manager.logs) == 4


def test_deletion_renames_now_and_removes_later(tmp_path: Path) -> None:
    """The folder is out of the way at once; the delay is for clients that still read in it."""
    clock = FakeClock()
    with _running(tmp_path, clock=clock) as manager:
        log = manager.create(ORDERS, TOPIC_ID, TopicConfig())
        append_unchecked(log)
        manager.delete(ORDERS)
        manager.background.drain()
        renamed = [path.name for path in tmp_path.iterdir() if path.is_dir()]
        with pytest.raises(UnknownTopicOrPartition):
            append_unchecked(log)
        again = manager.create(ORDERS, uuid.UUID(int=5), TopicConfig())
        clock.advance(60_000)
        manager.deletions.run_due()
        manager.background.drain()
        left = [path.name for path in tmp_path.iterdir() if path.is_dir()]

        assert len(renamed) == 1
        assert renamed[0].startswith("orders-0.")
        assert renamed[0].endswith("-delete")
        assert left == ["orders-0"]
        assert again.log_end_offset == 0


@pytest.mark.parametrize("dropped", ["none", "waiting", "renamed"])
def test_the_room_of_a_deleted_partition_is_given_back(tmp_path: Path, dropped: str) -> None:
    """No file of it stays open, though those of ended segments are kept open to be read."""
    clock = FakeClock()
    with _running(tmp_path, clock=clock) as manager:
        log = manager.create(ORDERS, TOPIC_ID, TopicConfig(segment_bytes=len(make_batch())))
        for _ in range(3):
            append_unchecked(log)
        manager.background.drain()
        held = open_files(log.path)
        with _busy(manager):
            if dropped != "none":
                log.delete_records(2)
                assert log.apply_retention(clock.now_ms()) == 2
            if dropped == "waiting":
                manager.delete(ORDERS)
        if dropped != "waiting":
            manager.background.drain()
            manager.delete(ORDERS)
        path = log.path
        del log
        clock.advance(60_000)
        _run_deletions(manager, clock)

        assert len(held) == 3
        assert not open_files(path)


def test_many_partitions_go_as_fast_as_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The directory is fsynced and each checkpoint written once, whatever the background does."""
    with _running(tmp_path) as manager:
        for number in range(20):
            manager.create(_partition(number), TOPIC_ID, TopicConfig())
        manager.background.drain()
        disk = install(monkeypatch)
        with _busy(manager):
            manager.delete(*map(_partition, range(19)))
        monkeypatch.undo()

        assert disk.calls.count(("fsync", str(tmp_path))) <= 3  # with that of each checkpoint
        assert list(manager.logs) == [_partition(19)]
        checkpoint = (tmp_path / "recovery-point-offset-checkpoint").read_text()
        assert checkpoint == "0\n1\norders 19 0\n"
        assert len(list(tmp_path.glob("orders-*-delete"))) == 19


@pytest.mark.parametrize("is_queued", [True, False], ids=["many flushes", "one of many segments"])
def test_a_deletion_waits_for_one_file_and_not_for_the_housekeeping(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_queued: bool
) -> None:
    """Behind 800 rolls a client would wait for all their fsyncs, some six seconds."""
    begun, flushed = threading.Event(), list[int]()
    flush, abandon = LogSegment.flush, Log.abandon

    def wait_and_flush(segment: LogSegment) -> None:
        flushed.append(segment.base_offset)
        assert begun.wait(30)
        flush(segment)

    def begin(log: Log, path: Path) -> None:
        begun.set()
        abandon(log, path)

    with _running(tmp_path) as manager:
        config = TopicConfig(segment_bytes=len(make_batch()))
        logs = [manager.create(_partition(number), TOPIC_ID, config) for number in range(2)]
        with _busy(manager):
            if not is_queued:
                manager.background.submit("flush", logs[0].flush)
            for log in logs:
                for _ in range(20):
                    append_unchecked(log)
            monkeypatch.setattr(LogSegment, "flush", wait_and_flush)
            monkeypatch.setattr(Log, "abandon", begin)
        wait_until(lambda: flushed, "no flush")
        manager.delete(*manager.logs)
        manager.background.drain()

        assert flushed == [0]
        assert not manager.background.failures


def test_folder_that_stays_does_not_keep_the_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where one cannot be renamed, the rest of its topic goes all the same."""
    with _running(tmp_path) as manager:
        for number in range(3):
            manager.create(_partition(number), TOPIC_ID, TopicConfig())
        install(monkeypatch).fail("rename", path="orders-1")
        with pytest.raises(KafkaStorageError):
            manager.delete(*map(_partition, range(3)))
        monkeypatch.undo()

        assert not manager.logs
        assert len(list(tmp_path.glob("orders-*-delete"))) == 2
        assert (tmp_path / "orders-1").exists()


def test_a_deletion_that_was_begun_is_finished_after_a_restart(tmp_path: Path) -> None:
    """-delete folders are queued again and are no partitions."""
    clock = FakeClock()
    with _running(tmp_path, clock=clock) as manager:
        manager.create(ORDERS, TOPIC_ID, TopicConfig())
        manager.delete(ORDERS)
    with _running(tmp_path, clock=clock) as manager:
        assert not manager.logs
        clock.advance(60_000)
        manager.deletions.run_due()
        manager.background.drain()

        assert not [path for path in tmp_path.iterdir() if path.is_dir()]


def test_work_for_a_deleted_log_never_meets_its_successor(tmp_path: Path) -> None:
    """Files of a new partition of the same name are not renamed by the old one's retention."""
    with _running(tmp_path) as manager:
        log = manager.create(ORDERS, TOPIC_ID, TopicConfig(retention_ms=0))
        append_unchecked(log)
        log.apply_retention(1 << 60)
        manager.delete(ORDERS)
        again = manager.create(ORDERS, TOPIC_ID, TopicConfig())
        append_unchecked(again)
        manager.background.drain()

        assert again.segments[0].log_path.exists()
        assert not list(again.path.glob("*.deleted"))


def test_a_topic_made_again_has_none_of_the_old_offsets(tmp_path: Path) -> None:
    """Neither start offset nor recovery point, though the background has not come to write them."""
    manager = _loaded(tmp_path)
    append_unchecked(manager.create(ORDERS, TOPIC_ID, TopicConfig()), 600)
    manager.logs[ORDERS].flush()
    manager.logs[ORDERS].delete_records(500)
    manager.checkpoint(files.RECOVERY_POINTS, files.LOG_START_OFFSETS)
    manager.background.drain()
    with _busy(manager):
        manager.checkpoint(files.RECOVERY_POINTS, files.LOG_START_OFFSETS)
        manager.delete(ORDERS)
        append_unchecked(manager.create(ORDERS, TOPIC_ID, TopicConfig()), 10)
        offsets = _checkpoints(tmp_path)
    _crash(manager)

    assert offsets == {}
    assert set(_checkpoints(tmp_path).values()) <= {0}
    with _running(tmp_path) as manager:
        log = manager.logs[ORDERS]
        assert (log.log_start_offset, log.log_end_offset) == (0, 10)


def test_a_kill_between_deletion_and_checkpoint_leaves_no_offset(tmp_path: Path) -> None:
    """The next partition of the name begins at 0, also if that start is killed as well."""
    manager = _loaded(tmp_path)
    append_unchecked(manager.create(ORDERS, TOPIC_ID, TopicConfig()), 600)
    manager.logs[ORDERS].delete_records(500)
    manager.checkpoint(files.LOG_START_OFFSETS)
    _crash(manager)
    (tmp_path / "orders-0").rename(tmp_path / f"orders-0.{'0' * 32}-delete")

    manager = _loaded(tmp_path)
    append_unchecked(manager.create(ORDERS, TOPIC_ID, TopicConfig()), 10)
    _crash(manager)
    with _running(tmp_path) as manager:
        log = manager.logs[ORDERS]
        assert (log.log_start_offset, log.log_end_offset) == (0, 10)


def _checkpoints(path: Path) -> dict[TopicPartition, int]:
    """Return what the checkpoints of recovery points and of start offsets say."""
    found: dict[TopicPartition, int] = {}
    for name in (files.RECOVERY_POINTS, files.LOG_START_OFFSETS):
        found |= OffsetCheckpoint(path, name).read()
    return found


def test_strange_folders_are_left_alone(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Folders that are no partitions of ours stay untouched, with a line each."""
    names = ["notes", "orders-0.0123abc-stray", "lost+found"]
    for name in (*names, "__cluster_metadata-0"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "00000000000000000000.log.deleted").touch()

    with _running(tmp_path) as manager:
        assert not manager.logs

    assert all((tmp_path / name / "00000000000000000000.log.deleted").exists() for name in names)
    warned = [record for record in caplog.records if record.levelno == logging.WARNING]
    assert len(warned) == 2


def test_interrupted_copies_are_found(tmp_path: Path) -> None:
    """They are no partitions, and stay until somebody knows what becomes of them."""
    folder = tmp_path / "orders-1.0123abc-future"
    folder.mkdir()
    with _running(tmp_path) as manager:
        assert not manager.logs
        assert [each.path for each in manager.futures.found] == [folder]
    assert folder.exists()


def test_a_folder_from_elsewhere_is_adopted_and_scanned(tmp_path: Path) -> None:
    """A partition that was copied in while the broker was down is opened as after a crash."""
    source, target = tmp_path / "source", tmp_path / "target"
    with _running(target):
        pass
    with _running(source) as manager:
        append_unchecked(manager.create(ORDERS, TOPIC_ID, TopicConfig()), 3)
    (source / "orders-0").rename(target / "orders-0")
    for index in (target / "orders-0").glob("*.index"):
        index.write_bytes(b"\0" * 80)  # as a broker that preallocates leaves it when killed

    with _running(target) as manager:
        log = manager.logs[ORDERS]

        assert (log.topic_id, log.log_end_offset) == (TOPIC_ID, 3)
        check_log(log)


def test_creating_over_a_folder_is_refused(tmp_path: Path) -> None:
    """The files in it may be somebody's data."""
    with _running(tmp_path) as manager:
        (tmp_path / "orders-0").mkdir()

        with pytest.raises(KafkaStorageError, match="exists"):
            manager.create(ORDERS, TOPIC_ID, TopicConfig())


def test_creating_beside_a_folder_that_a_deletion_left_is_refused(
    tmp_path: Path, disk: Disk
) -> None:
    """With two folders of its name in two directories the next start would be refused."""
    paths = (tmp_path / "one", tmp_path / "two")
    with _running(*paths) as manager:
        left = manager.create(ORDERS, TOPIC_ID, TopicConfig()).path
        _refuse_deletion(manager, disk, errno.EIO)
        with pytest.raises(KafkaStorageError, match=f"{left} exists"):
            manager.create(ORDERS, TOPIC_ID, TopicConfig())

    with _running(*paths) as manager:
        assert manager.logs[ORDERS].path == left


@pytest.mark.parametrize("refusals", [1, 3])
def test_a_folder_that_a_full_disk_kept_is_renamed_later(
    tmp_path: Path, disk: Disk, refusals: int
) -> None:
    """The name is refused until the directory takes writes, and free from then on."""
    clock = FakeClock()
    with _running(tmp_path, clock=clock) as manager:
        left = manager.create(ORDERS, TOPIC_ID, TopicConfig()).path
        _refuse_deletion(manager, disk, errno.ENOSPC, refusals)
        for _ in range(refusals):
            manager.directories[0].check()
            with pytest.raises(KafkaStorageError, match=f"{left} exists"):
                manager.create(ORDERS, TOPIC_ID, TopicConfig())
            _run_deletions(manager, clock)
        manager.directories[0].check()

        assert manager.create(ORDERS, uuid.uuid4(), TopicConfig()).path == left
        assert _deleted(tmp_path)
        clock.advance(60_000)
        _run_deletions(manager, clock)
        assert not _deleted(tmp_path)
        assert left.is_dir()


def test_a_folder_that_is_renamed_later_keeps_nobody_waiting(
    tmp_path: Path, disk: Disk, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A pin may be linking its files then; other partitions are created meanwhile."""
    clock = FakeClock()
    is_at_the_gate, change = threading.Event(), NameGate.changing

    def note_and_change(gate: NameGate) -> AbstractContextManager[None]:
        is_at_the_gate.set()
        return change(gate)

    with _running(tmp_path, clock=clock) as manager:
        log = manager.create(ORDERS, TOPIC_ID, TopicConfig())
        left = tmp_path / "orders-0"
        _refuse_deletion(manager, disk, errno.ENOSPC)
        manager.directories[0].check()
        log.names.hold()
        monkeypatch.setattr(NameGate, "changing", note_and_change)
        clock.advance(RETRY_MS)
        manager.deletions.run_due()
        assert is_at_the_gate.wait(60)
        with pytest.raises(KafkaStorageError, match="exists"):
            manager.create(ORDERS, TOPIC_ID, TopicConfig())
        other = manager.create(_partition(1), TOPIC_ID, TopicConfig())
        log.names.release()
        manager.background.drain()

        assert other.path.is_dir()
        assert manager.create(ORDERS, uuid.uuid4(), TopicConfig()).path == left


def test_half_a_partition_that_a_disk_kept_goes_later(tmp_path: Path, disk: Disk) -> None:
    """Its name is refused until the directory takes writes, and free from then on."""
    clock = FakeClock()
    with _running(tmp_path, clock=clock) as manager:
        left = tmp_path / "orders-0"
        disk.fail("open", errno.EMFILE, str(left))
        with pytest.raises(KafkaStorageError):
            manager.create(ORDERS, TOPIC_ID, TopicConfig())
        disk.mend()
        manager.directories[0].check()
        with pytest.raises(KafkaStorageError, match=f"{left} exists"):
            manager.create(ORDERS, TOPIC_ID, TopicConfig())
        _run_deletions(manager, clock)

        assert manager.create(ORDERS, uuid.uuid4(), TopicConfig()).path == left
        clock.advance(60_000)
        _run_deletions(manager, clock)
        assert not _deleted(tmp_path)
        assert left.is_dir()


def test_a_folder_that_was_moved_away_is_not_renamed_later(tmp_path: Path, disk: Disk) -> None:
    """The next partition of its name has its folder's name, and keeps it."""
    clock = FakeClock()
    with _running(tmp_path, clock=clock) as manager:
        left = manager.create(ORDERS, TOPIC_ID, TopicConfig()).path
        _refuse_deletion(manager, disk, errno.ENOSPC)
        manager.directories[0].check()
        shutil.move(left, tmp_path.with_name("moved"))
        log = manager.create(ORDERS, uuid.uuid4(), TopicConfig())
        _run_deletions(manager, clock)

        assert log.path == left
        assert left.is_dir()
        assert not _deleted(tmp_path)


@pytest.mark.parametrize("error", [errno.EMFILE, errno.EIO])
def test_a_deleted_folder_that_may_come_back_is_not_made_elsewhere(
    tmp_path: Path, power_disk: PowerDisk, error: int
) -> None:
    """The deletion is made sure first, and where the directory is offline, by the next start."""
    paths = (tmp_path / "one", tmp_path / "two")
    manager = _loaded(*paths)
    old = manager.create(ORDERS, TOPIC_ID, TopicConfig()).directory
    manager.background.drain()
    power_disk.fail("open", error, str(old.path), times=1)
    with pytest.raises(KafkaStorageError):
        manager.delete(ORDERS)
    if error == errno.EIO:
        with pytest.raises(KafkaStorageError, match="may bring its old folder"):
            manager.create(ORDERS, TOPIC_ID, TopicConfig())
        _crash(manager)
        manager = _loaded(*paths)
        manager.prefer(ORDERS, next(each for each in manager.directories if each.path != old.path))
    path = manager.create(ORDERS, TOPIC_ID, TopicConfig()).path
    _crash(manager)
    power_disk.cut_power()

    assert path.parent != old.path
    with _running(*paths) as manager:
        assert manager.logs[ORDERS].path == path


def test_a_folder_that_cannot_be_looked_at_is_not_made_elsewhere(
    tmp_path: Path, disk: Disk
) -> None:
    """A start would find two; partitions of other names are created."""
    with _running(tmp_path / "one", tmp_path / "two") as manager:
        old = manager.create(ORDERS, TOPIC_ID, TopicConfig()).directory
        _refuse_deletion(manager, disk, errno.EIO)
        disk.fail("stat", errno.EIO, str(old.path))

        with pytest.raises(KafkaStorageError, match="Input/output error"):
            manager.create(ORDERS, uuid.uuid4(), TopicConfig())

        assert manager.create(_partition(1), TOPIC_ID, TopicConfig()).directory is not old


def test_a_folder_that_is_renamed_later_may_come_back_too(
    tmp_path: Path, disk: Disk, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A partition of the name is made elsewhere only when the rename is sure."""
    clock = FakeClock()
    with _running(tmp_path / "one", tmp_path / "two", clock=clock) as manager:
        old = manager.create(ORDERS, TOPIC_ID, TopicConfig())
        other = next(each for each in manager.directories if each is not old.directory)
        left = old.path
        _refuse_deletion(manager, disk, errno.ENOSPC)
        old.directory.check()
        manager.prefer(ORDERS, other)
        refused: list[KafkaStorageError] = []

        def create() -> None:
            try:
                manager.create(ORDERS, uuid.uuid4(), TopicConfig())
            except KafkaStorageError as error:
                refused.append(error)

        rename, creating = files.rename, threading.Thread(target=create)

        def rename_and_lose_the_disk(path: Path, new: Path) -> None:
            rename(path, new)
            if path == left:
                disk.fail("open", errno.EIO, str(left.parent))
                creating.start()
                creating.join(0.2)

        monkeypatch.setattr(files, "rename", rename_and_lose_the_disk)
        _run_deletions(manager, clock)
        creating.join()

        assert refused
        assert "may bring its old folder" in refused[0].message


def test_a_failed_directory_does_not_take_the_others_down(tmp_path: Path) -> None:
    """Its logs refuse, new partitions go elsewhere, and it gets no clean mark (KAFKA-17356)."""
    paths = tmp_path / "a", tmp_path / "b"
    with _running(*paths) as manager:
        bad = manager.create(_partition(0), TOPIC_ID, TopicConfig())
        good = manager.create(_partition(1), TOPIC_ID, TopicConfig())
        bad.directory.fail(OSError("I/O error"))

        with pytest.raises(KafkaStorageError, match=r"offline for writes \(I/O error\)"):
            append_unchecked(bad)
        append_unchecked(good)
        third = manager.create(_partition(2), TOPIC_ID, TopicConfig())
        assert third.directory is good.directory
        manager.checkpoint(files.RECOVERY_POINTS)

    assert not (bad.directory.path / files.CLEAN_SHUTDOWN).exists()
    assert (good.directory.path / files.CLEAN_SHUTDOWN).exists()


def test_a_name_that_no_folder_can_have(tmp_path: Path) -> None:
    """It is refused as what the disk does not take; the directory goes on, and counts nothing."""
    with _running(tmp_path / "a", tmp_path / "b") as manager:
        for _ in range(3):
            with pytest.raises(KafkaStorageError, match="File name too long"):
                manager.create(TopicPartition("a" * 254, 10), TOPIC_ID, TopicConfig())
        made = [manager.create(_partition(each), TOPIC_ID, TopicConfig()) for each in range(2)]

        assert {log.directory for log in made} == set(manager.directories)


def test_a_dangling_link_where_a_folder_would_be(tmp_path: Path) -> None:
    """The partition is refused, since the link is in its way; the directory goes on."""
    with _running(tmp_path) as manager:
        (tmp_path / "orders-0").symlink_to(tmp_path / "nowhere")

        with pytest.raises(KafkaStorageError, match="orders-0 exists; move it away"):
            manager.create(_partition(0), TOPIC_ID, TopicConfig())

        assert manager.create(_partition(1), TOPIC_ID, TopicConfig()).topic_partition.partition == 1


def test_no_directory_left(tmp_path: Path) -> None:
    """When every disk failed a partition cannot be created."""
    with _running(tmp_path) as manager:
        manager.directories[0].fail(OSError("I/O error"))

        with pytest.raises(KafkaStorageError, match="is offline"):
            manager.create(ORDERS, TOPIC_ID, TopicConfig())


def _refusal(*paths: Path, node_id: int = 1) -> str:
    manager = _manager(*paths, node_id=node_id)
    with pytest.raises(LogDirError) as refused:
        manager.load()
    manager.close(clean=False)
    return str(refused.value)


def test_a_second_broker_is_refused(tmp_path: Path) -> None:
    """The sentence names the folder and the process, and the clean mark is not lost."""
    with _running(tmp_path):
        script = (
            "import sys; from pathlib import Path;"
            "from siltstone.storage.directory.opening import open_directories\n"
            "from siltstone.storage.directory.log_directory import LogDirError\n"
            "try: open_directories([Path(sys.argv[1])], 1, 0)\n"
            "except LogDirError as error: print(error)"
        )
        root = Path(__file__).parents[2]
        answer = run_to_end(
            [sys.executable, "-c", script, str(tmp_path)], check=True, cwd=root
        ).stdout
        inside = _refusal(tmp_path)

    assert f"log directory {tmp_path} is locked by process " in answer
    assert "choose another log.dirs" in answer
    assert f"log directory {tmp_path} is in use by this process" in inside
    assert (tmp_path / files.CLEAN_SHUTDOWN).exists()


def test_a_missing_parent_is_refused(tmp_path: Path) -> None:
    """Only the folder itself is created: a whole path is a typing error or a missing disk."""
    path = tmp_path / "disk" / "data"

    assert _refusal(path).startswith(f"log directory {path} does not exist")
    assert not path.parent.exists()


def test_a_file_is_refused(tmp_path: Path) -> None:
    """A log directory that is a file cannot be used."""
    path = tmp_path / "data"
    path.touch()

    assert "is not a folder" in _refusal(path)


def test_an_unwritable_directory_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The sentence says so, also to root, whom access rights do not stop."""
    monkeypatch.setattr("siltstone.storage.files.disk.access", lambda *_: False)

    assert "cannot be written" in _refusal(tmp_path)


def test_all_faults_are_named_at_once_and_nothing_stays_locked(tmp_path: Path) -> None:
    """Each faulty directory has its line; the good one can be used by the next start."""
    faults = _refusal(tmp_path / "good", tmp_path / "x" / "1", tmp_path / "x" / "2")

    assert len(faults.splitlines()) == 2
    with _running(tmp_path / "good"):
        pass


def test_another_node_s_directory_is_refused(tmp_path: Path) -> None:
    """node.id must be that of meta.properties."""
    with _running(tmp_path):
        pass

    assert "belongs to node.id=1, not to 2" in _refusal(tmp_path, node_id=2)
    assert (tmp_path / files.CLEAN_SHUTDOWN).exists()


def test_directories_of_two_clusters_are_refused(tmp_path: Path) -> None:
    """All directories must name the same cluster."""
    paths = tmp_path / "a", tmp_path / "b"
    for path in paths:
        with _running(path):
            pass

    assert "belong to different clusters" in _refusal(*paths)


def test_a_new_directory_joins_the_cluster(tmp_path: Path) -> None:
    """A directory without meta.properties takes the cluster id of the others."""
    with _running(tmp_path / "a") as manager:
        cluster_id = manager.cluster_id
    with _running(tmp_path / "b", tmp_path / "a") as manager:
        ids = {directory.directory_id for directory in manager.directories}

        assert manager.cluster_id == cluster_id
        assert len(ids) == 2


def test_a_broken_meta_properties_is_refused(tmp_path: Path) -> None:
    """The sentence names the file."""
    (tmp_path / files.META_PROPERTIES).write_text("version=1\n")

    assert "meta.properties: cluster.id is missing" in _refusal(tmp_path)


def test_a_partition_in_two_directories_is_refused(tmp_path: Path) -> None:
    """Which of the two is right is for a person to say."""
    paths = tmp_path / "a", tmp_path / "b"
    for path in paths:
        (path / "orders-0").mkdir(parents=True)

    assert "partition orders-0 is in two log directories" in _refusal(*paths)


def test_a_partition_that_can_not_be_opened_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One sentence with the folder, no traceback."""

    def fail(*_: object) -> None:
        raise OSError("Input/output error")

    (tmp_path / "orders-0").mkdir()
    monkeypatch.setattr("siltstone.storage.log.recovery.load_partition", fail)

    assert f"partition folder {tmp_path / 'orders-0'} cannot be opened" in _refusal(tmp_path)


def test_a_log_that_fails_to_close_leaves_no_mark(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A directory is clean only if every log in it is."""

    def fail(_: int) -> None:
        raise OSError("Input/output error")

    with _running(tmp_path) as manager:
        append_unchecked(manager.create(ORDERS, TOPIC_ID, TopicConfig()))
        manager.background.drain()
        monkeypatch.setattr("siltstone.storage.files.fsync", fail)

    assert not (tmp_path / files.CLEAN_SHUTDOWN).exists()
    assert not (tmp_path / files.LOCK).exists()


@pytest.mark.parametrize("fails", [False, True])
def test_closing_tells_whether_every_directory_got_its_mark(tmp_path: Path, fails: bool) -> None:
    """A stop that calls itself clean is one after which the next start recovers nothing."""
    manager = _loaded(tmp_path)
    append_unchecked(manager.create(_partition(0), TOPIC_ID, TopicConfig()))
    if fails:
        manager.directories[0].fail(OSError("I/O error"))

    assert manager.close() is not fails
    assert (tmp_path / files.CLEAN_SHUTDOWN).exists() is not fails


def test_a_failed_fsync_of_a_start_leaves_its_mark(tmp_path: Path, disk: Disk) -> None:
    """Bytes that were not flushed may be lost: the next start writes them again."""
    manager = _loaded(tmp_path)
    log = manager.create(ORDERS, TOPIC_ID, TopicConfig())
    append_unchecked(log)
    path = log.segments[0].log_path
    size = path.stat().st_size
    append_unchecked(log)
    _crash(manager)
    path.write_bytes(path.read_bytes()[:-1])
    disk.fail("fsync", path=files.LOG, times=1)
    manager = _manager(tmp_path)
    with pytest.raises(LogDirError, match="fsync failed"):
        manager.load()
    manager.close(clean=False)
    assert path.stat().st_size == size

    disk.calls.clear()
    manager = _loaded(tmp_path)
    calls = [call for call, name in disk.calls if name == str(path) and call in {"pwrite", "fsync"}]
    manager.close()

    assert calls[-2:] == ["pwrite", "fsync"]


def _spoil_marker(folder: Path) -> None:
    """Append a control batch whose checksum holds and whose record does not parse."""
    batch = frame_batch(b"\x20junk", 1, base_offset=1, flags=CONTROL, producer_id=1)
    log = folder / "00000000000000000000.log"
    log.write_bytes(log.read_bytes() + batch)


@pytest.mark.parametrize(
    "spoil",
    [
        _spoil_marker,
        lambda folder: (
            (folder / "00000000000000000000.timeindex").unlink()
            or (folder / "00000000000000000000.timeindex").mkdir()
        ),
        lambda folder: (folder / "7.log").write_bytes(b""),
    ],
)
def test_a_damaged_partition_is_set_aside(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, spoil: Callable[[Path], object]
) -> None:
    """The others are served, one line says why, and a later start finds all as it was."""
    manager = _loaded(tmp_path)
    for number in (0, 1):
        append_unchecked(manager.create(_partition(number), TOPIC_ID, TopicConfig()))
    manager.logs[_partition(0)].delete_records(1)
    manager.checkpoint(files.LOG_START_OFFSETS)
    _crash(manager)
    kept = shutil.copytree(tmp_path / "orders-0", tmp_path / ".kept")
    spoil(tmp_path / "orders-0")
    for _ in range(2):
        caplog.clear()
        with _running(tmp_path) as manager:
            assert list(manager.logs) == [_partition(1)]
            assert list(manager.set_aside) == [_partition(0)]
            assert manager.folder_ids() == {_partition(0): TOPIC_ID, _partition(1): TOPIC_ID}
            assert manager.logs[_partition(1)].log_end_offset == 1
            manager.checkpoint(files.LOG_START_OFFSETS)
        (line,) = [each for each in caplog.records if each.levelno >= logging.ERROR]
        assert "set aside" in line.message
        assert not line.exc_info
    shutil.rmtree(tmp_path / "orders-0")
    kept.rename(tmp_path / "orders-0")
    with _running(tmp_path) as manager:
        log = manager.logs[_partition(0)]
        assert not manager.set_aside
        assert (log.log_start_offset, log.log_end_offset) == (1, 1)


def test_a_partition_that_is_set_aside_can_be_deleted(tmp_path: Path) -> None:
    """Its folder goes as any other, and its name is free."""
    with _running(tmp_path) as manager:
        append_unchecked(manager.create(_partition(0), TOPIC_ID, TopicConfig()))
    (tmp_path / "orders-0" / "7.log").write_bytes(b"")
    with _running(tmp_path) as manager:
        manager.delete(_partition(0))

        assert not manager.set_aside
        assert manager.create(_partition(0), TOPIC_ID, TopicConfig()).log_end_offset == 0


@pytest.mark.parametrize("number", ["99999999999999999999", "-1", str(1 << 63)])
def test_a_checkpoint_of_no_offset_counts_as_empty(tmp_path: Path, number: str) -> None:
    """Such a number is no log start offset, below which all would go."""
    with _running(tmp_path) as manager:
        append_unchecked(manager.create(_partition(0), TOPIC_ID, TopicConfig()))
    for name in (files.LOG_START_OFFSETS, files.RECOVERY_POINTS):
        (tmp_path / name).write_text(f"0\n1\norders 0 {number}\n")
    with _running(tmp_path) as manager:
        log = manager.logs[_partition(0)]

        assert (log.log_start_offset, log.log_end_offset) == (0, 1)


def test_a_start_says_how_the_last_run_ended(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """A folder that nobody had before was not left unclean by anybody."""
    told = []
    for ends in ("clean", "crash", "clean"):
        caplog.clear()
        with caplog.at_level("INFO"):
            manager = _loaded(tmp_path)
        told.append(caplog.text.partition("last_stop=")[2].split()[0])
        if ends == "crash":
            _crash(manager)
        else:
            manager.close()

    assert told == ["none", "clean", "unclean"]


def test_a_start_that_ends_before_it_loads_is_no_unclean_stop(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """It has changed no log: a port may have been in use, once or twice."""
    with _running(tmp_path):
        pass
    for ends in ("closed", "killed"):
        manager = _manager(tmp_path)
        manager.open()
        if ends == "killed":
            _crash(manager)
        else:
            manager.close(clean=False)

    with caplog.at_level("INFO"), _running(tmp_path):
        assert "last_stop=clean" in caplog.text


def test_a_new_folder_stays_new_until_its_logs_are_loaded(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Starts that ended before left it nothing that a later one would take for a lost run."""
    for _ in range(2):
        manager = _manager(tmp_path)
        manager.open()
        manager.close(clean=False)

    with caplog.at_level("INFO"), _running(tmp_path):
        assert "last_stop=none" in caplog.text


def test_a_new_folder_gets_the_cluster_id_that_is_set(tmp_path: Path) -> None:
    """And one that belongs to another cluster is not opened, nor left locked."""
    ours, theirs = "MkU3OEVBNTcwNTJENDM2Qk", "4L6g3nShT-eMCtK--X86sw"

    directories, found = open_directories([tmp_path], 1, 0, cluster_id=ours)
    for directory in directories:
        directory.release()
    with pytest.raises(LogDirError, match=f"belongs to cluster {ours}, not to {theirs}"):
        open_directories([tmp_path], 1, 0, cluster_id=theirs)
    again, kept = open_directories([tmp_path], 1, 0)
    for directory in again:
        directory.release()

    assert (found, kept) == (ours, ours)


def _disk_of(monkeypatch: pytest.MonkeyPatch, folder: Path, room: int) -> None:
    """Have the disk be as full as the logs in a folder make it."""

    def find_room(_: object) -> tuple[int, int]:
        return room - sum(path.stat().st_size for path in folder.glob("*/*.log")), 2 * room

    monkeypatch.setattr(files, "find_room", find_room)


@pytest.mark.parametrize("waits", [False, True])
def test_the_reserve_holds_between_two_looks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, waits: bool
) -> None:
    """Writes of clients count: the disk is looked at as soon as there may be no more room."""
    reserve, room = 5_000, 8_000
    _disk_of(monkeypatch, tmp_path, room)
    server = ServerConfig(node_id=1, log_dirs_reserve_bytes=reserve)
    manager = LogManager((tmp_path,), server, lambda _: TopicConfig(), FakeClock())
    manager.load()
    log = manager.create(_partition(0), TOPIC_ID, TopicConfig())
    batch = make_batch([(b"key", bytes(500))])

    for number in range(room // len(batch)):
        if number % 2 == 0:
            manager.services.appends.write()
        if log.directory.client_refusal is None:
            append_waiting(log, bytearray(batch), may_wait=waits)
    manager.services.appends.write()
    left = room - log.size

    assert reserve - len(batch) <= left < reserve
    assert log.directory.client_refusal is not None
    log.append(validated(make_batch()), Origin.COORDINATOR)
    _disk_of(monkeypatch, tmp_path, 2 * room)
    manager._check_directories(reserve)
    append_unchecked(log)
    manager.close()

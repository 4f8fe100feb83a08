"""Deleting from a log: retention, DeleteRecords, files and their delay."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from siltstone.config.topic import TopicConfig
from siltstone.protocol.errors import OffsetOutOfRange, PolicyViolation
from siltstone.storage import files
from siltstone.storage.checkpointed import collect
from siltstone.storage.log.log import HIGH_WATERMARK, Log
from siltstone.storage.log.retention import Doomed, find_doomed
from tests.support.batches import TIMESTAMP, make_batch
from tests.support.faults import Disk
from tests.support.invariants import check_folder, check_log
from tests.support.logs import ORDERS, LogFolder, bytes_of, offsets_in
from tests.support.power import PowerDisk

BATCH_BYTES = len(make_batch([(b"k", b"v" * 10)]))


@pytest.fixture
def folder(tmp_path: Path) -> LogFolder:
    """Five segments of one batch each, a second apart; retention.ms is ten seconds."""
    folder = LogFolder(tmp_path, TopicConfig(segment_bytes=BATCH_BYTES, retention_ms=10_000))
    for index in range(5):
        folder.append(timestamp=TIMESTAMP + 1_000 * index)
    folder.settle()
    return folder


def _names(folder: LogFolder) -> set[str]:
    return {path.name for path in folder.path.iterdir() if path.name[0].isdigit()}


def test_old_segments_go(folder: LogFolder) -> None:
    """Old segments are renamed at once, and unlinked when file.delete.delay.ms have passed."""
    count = folder.log.apply_retention(TIMESTAMP + 11_500)
    folder.settle()
    renamed = {name for name in _names(folder) if name.endswith(".deleted")}
    folder.pass_time(59_999)
    waiting = len(_names(folder))
    folder.pass_time(1)

    assert count == 2
    assert folder.log.log_start_offset == 2
    assert renamed == {
        "00000000000000000000.log.deleted",
        "00000000000000000000.index.deleted",
        "00000000000000000000.timeindex.deleted",
        "00000000000000000001.log.deleted",
        "00000000000000000001.index.deleted",
        "00000000000000000001.timeindex.deleted",
        "00000000000000000001.snapshot.deleted",
    }
    assert len(_names(folder)) == waiting - len(renamed)
    assert not [name for name in _names(folder) if name < "00000000000000000002"]
    assert offsets_in(bytes_of(folder.log, 2)) == [2, 3, 4]
    with pytest.raises(OffsetOutOfRange):
        folder.log.read(1, 100, 5)
    check_log(folder.log)


def test_a_batch_that_comes_meanwhile_stays(
    folder: LogFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A cleaner thread may be about to delete the active segment when a new batch reaches it."""
    looks = []

    def look(*arguments: Any, **named: Any) -> list[Doomed]:
        found = find_doomed(*arguments, **named)
        looks.append(sum(each.segments for each in found))
        if len(looks) == 1:
            folder.log.reconfigure(TopicConfig(retention_ms=10_000))  # does not roll
            folder.append(timestamp=TIMESTAMP + 60_000)
        return found

    monkeypatch.setattr("siltstone.storage.log.log.find_doomed", look)

    assert folder.log.apply_retention(TIMESTAMP + 60_000) == 4
    assert looks == [5, 4]
    assert offsets_in(bytes_of(folder.log, 4)) == [4, 5]


def test_deleted_records_are_flushed_as_long_as_they_are_there(tmp_path: Path, disk: Disk) -> None:
    """DeleteRecords fsyncs nothing, so the recovery point stays and the next flush has all."""
    folder = LogFolder(tmp_path, TopicConfig(segment_bytes=BATCH_BYTES))
    for _ in range(5):
        folder.append()
    folder.log.delete_records(3)

    assert folder.log.recovery_point == 0
    folder.log.flush()
    assert folder.log.recovery_point == 5
    synced = [name for name in disk.names("fsync") if name.endswith(".log")]
    assert synced == [f"fsync {segment.log_path.name}" for segment in folder.log.segments]


def test_a_quiet_topic_becomes_empty(folder: LogFolder) -> None:
    """When all segments are too old the log rolls first, and goes on at its end offset."""
    assert folder.log.apply_retention(TIMESTAMP + 60_000) == 5

    assert folder.log.log_start_offset == folder.log.log_end_offset == 5
    assert [segment.base_offset for segment in folder.log.segments] == [5]
    assert folder.log.size == 0
    assert folder.log.apply_retention(TIMESTAMP + 90_000) == 0
    assert folder.append().base_offset == 5
    folder.pass_time(60_000)
    check_log(folder.log)


def test_an_emptied_log_keeps_its_offsets(folder: LogFolder) -> None:
    """After clean stop or crash the empty log still ends where it ended."""
    folder.log.apply_retention(TIMESTAMP + 60_000)
    folder.close()

    for is_clean in (True, False):
        log = folder.reopen(is_clean=is_clean)

        assert (log.log_start_offset, log.log_end_offset) == (5, 5)
        check_folder(log)


def test_deleted_files_go_at_the_next_start(folder: LogFolder) -> None:
    """A stop before the delay has passed leaves nothing behind."""
    folder.log.apply_retention(TIMESTAMP + 11_500)
    folder.settle()

    log = folder.reopen()

    check_folder(log)
    assert log.log_start_offset == 2


def test_a_crash_before_the_renames_deletes_again(folder: LogFolder) -> None:
    """Segments that were only forgotten in memory come back and go with the next check."""
    folder.log.apply_retention(TIMESTAMP + 11_500)

    log = folder.reopen()

    assert log.log_start_offset == 0
    assert log.apply_retention(TIMESTAMP + 11_500) == 2


def test_retention_by_size(folder: LogFolder) -> None:
    """The log shrinks to the limit and not below it."""
    folder.log.reconfigure(
        TopicConfig(segment_bytes=BATCH_BYTES, retention_ms=-1, retention_bytes=2 * BATCH_BYTES + 1)
    )

    assert folder.log.apply_retention(TIMESTAMP) == 2
    assert folder.log.size == 3 * BATCH_BYTES


def test_delete_records_inside_a_batch(tmp_path: Path) -> None:
    """The log start offset may lie inside a batch; the batch stays and is returned whole."""
    folder = LogFolder(tmp_path)
    folder.append(5)
    folder.append(5)

    low_watermark = folder.log.delete_records(3)

    assert low_watermark == folder.log.log_start_offset == 3
    assert offsets_in(bytes_of(folder.log, 3)) == [0, 5]
    assert folder.log.apply_retention(TIMESTAMP) == 0


def test_retention_does_not_put_the_start_back(tmp_path: Path) -> None:
    """Segments below the start go; the first one that stays begins before it."""
    folder = LogFolder(tmp_path)
    for _ in range(3):
        folder.append(2)
        folder.log.roll()
    folder.log.delete_records(3)

    assert folder.log.apply_retention(0) == 1
    assert folder.log.log_start_offset == 3


def test_delete_records_everything(folder: LogFolder) -> None:
    """-1 is the high watermark; the active segment stays until it rolls."""
    assert folder.log.delete_records(HIGH_WATERMARK) == 5

    assert folder.log.apply_retention(TIMESTAMP) == 4
    assert bytes_of(folder.log, 5) == b""
    assert folder.append().base_offset == 5


def test_delete_records_needs_the_policy(folder: LogFolder) -> None:
    """A topic that is only compacted refuses."""
    folder.log.reconfigure(TopicConfig(cleanup_policy=("compact",)))

    with pytest.raises(PolicyViolation, match=r"cleanup\.policy"):
        folder.log.delete_records(1)


@pytest.mark.parametrize("policy", [(), ("compact", "delete")])
def test_delete_records_of_what_is_not_only_compacted(
    folder: LogFolder, policy: tuple[str, ...]
) -> None:
    """Also where nothing else ever goes: without it such a topic could never be made smaller."""
    folder.log.reconfigure(TopicConfig(cleanup_policy=policy))

    assert folder.log.delete_records(1) == 1


@pytest.mark.parametrize("is_clean", [True, False])
def test_delete_records_survives_with_its_checkpoint(folder: LogFolder, is_clean: bool) -> None:
    """The log start offset that was checkpointed holds after any stop."""
    folder.log.delete_records(3)
    folder.checkpoint()
    if is_clean:
        folder.close()

    log = folder.reopen(is_clean=is_clean)

    assert log.log_start_offset == 3
    assert log.epochs.entries[0].start_offset == 3


def test_a_failed_directory_stops_retention(folder: LogFolder) -> None:
    """Nothing is deleted from a disk that is out of order."""
    folder.directory.fail(OSError("gone"))

    assert folder.log.apply_retention(TIMESTAMP + 60_000) == 0


def _delete_four(log: Log) -> None:
    log.delete_records(4)
    log.apply_retention(TIMESTAMP)


def _empty(log: Log) -> None:
    log.apply_retention(TIMESTAMP + 60_000)


def _shrink(log: Log) -> None:
    log.reconfigure(TopicConfig(retention_ms=-1, retention_bytes=BATCH_BYTES))
    log.apply_retention(TIMESTAMP)


@pytest.mark.parametrize("delete", [_delete_four, _empty, _shrink], ids=["records", "time", "size"])
@pytest.mark.parametrize("when", ["before the renames", "after them", "after the unlinking"])
def test_what_comes_back_after_a_flush_is_whole(
    tmp_path: Path, power_disk: PowerDisk, delete: Callable[[Log], None], when: str
) -> None:
    """A power failure may undo a deletion, and a torn segment would take all behind it along."""
    folder = LogFolder(tmp_path, TopicConfig(segment_bytes=BATCH_BYTES, retention_ms=10_000))
    folder.settle()
    for _ in range(5):
        folder.append()
    folder.reopen()
    delete(folder.log)
    start_offset = folder.log.log_start_offset
    kept = bytes_of(folder.log, start_offset)
    if when != "before the renames":
        folder.settle()
    if when == "after the unlinking":
        folder.pass_time(60_000)
    folder.log.flush()
    power_disk.cut_power()
    log = folder.reopen()

    assert log.log_end_offset == 5
    assert bytes_of(log, start_offset) == kept
    check_log(log)


def test_a_log_start_is_noted_until_a_flush_makes_the_deletion_sure(folder: LogFolder) -> None:
    """Should torn segments come back, the log begins at its start again and not at their end."""
    folder.append()
    folder.log.delete_records(HIGH_WATERMARK)
    folder.log.roll()
    folder.log.apply_retention(TIMESTAMP)
    noted = collect(files.LOG_START_OFFSETS, folder.directory, [folder.log])
    folder.settle()

    assert [segment.base_offset for segment in folder.log.segments] == [6]
    assert noted == {ORDERS: 6}
    assert collect(files.LOG_START_OFFSETS, folder.directory, [folder.log]) == {}


def test_a_log_that_starts_over_ends_there_after_a_power_failure(
    tmp_path: Path, power_disk: PowerDisk
) -> None:
    """The segments of before do not come back when the checkpoint no longer names its start."""
    folder = LogFolder(tmp_path)
    for _ in range(5):
        folder.append()
    folder.log.delete_records(4)
    folder.settle()
    folder.checkpoint()
    power_disk.cut_power()
    log = folder.reopen()
    log.flush()
    assert (log.log_start_offset, log.log_end_offset) == (4, 4)
    folder.log_start_offset = collect(files.LOG_START_OFFSETS, folder.directory, [log]).get(
        ORDERS, 0
    )
    assert not folder.log_start_offset

    power_disk.cut_power()
    log = folder.reopen()
    assert (log.log_start_offset, log.log_end_offset) == (4, 4)

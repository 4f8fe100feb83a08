"""Opening a log after a crash (docs/log.md): what is kept is a prefix of what was written."""

import errno
import itertools
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import pytest

from siltstone.config.topic import TopicConfig
from siltstone.protocol.errors import CorruptMessage
from siltstone.storage import files
from siltstone.storage.log.recovery import UNKNOWN_TOPIC_ID, LoadStopped
from siltstone.storage.producers.snapshot import decode
from tests.support.batches import TIMESTAMP, make_batch
from tests.support.faults import Disk, Kill, Killed
from tests.support.invariants import check_folder, check_log, check_lookups
from tests.support.logs import TOPIC_ID, LogFolder, abort, bytes_of, flipped, offsets_in
from tests.support.power import PowerDisk

BATCH_BYTES = len(make_batch([(b"k", b"v" * 10)]))
LOG = "00000000000000000000.log"
TIMES_TO_COME = (4_000_000_000_000, 4_000_000_005_000)
"""Later than any file: a segment that lacks them in its index is passed over by lookups."""


@pytest.fixture
def folder(tmp_path: Path) -> LogFolder:
    """Seven batches in segments of three; nothing is flushed or closed."""
    folder = LogFolder(tmp_path, TopicConfig(segment_bytes=3 * BATCH_BYTES, index_interval_bytes=0))
    for index in range(7):
        folder.append(
            timestamp=TIMESTAMP + index, producer_id=7, producer_epoch=0, base_sequence=index
        )
    return folder


def _files(folder: LogFolder) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.path.iterdir()}


def test_a_crash_loses_nothing_that_was_written(folder: LogFolder) -> None:
    """The page cache survives the process: no batch is lost, and the log goes on."""
    log = folder.reopen()

    assert (log.log_end_offset, log.recovery_point) == (7, 0)
    assert [header.base_offset for header in check_log(log)] == list(range(7))
    check_folder(log)
    assert folder.append(producer_id=7, producer_epoch=0, base_sequence=6).duplicate
    result = folder.append(producer_id=7, producer_epoch=0, base_sequence=7)
    assert result.base_offset == 7
    check_log(log)


def test_a_start_that_fails_at_damage_ends_the_log_there_the_next_time(
    folder: LogFolder, disk: Disk
) -> None:
    """Segments behind the damage go first, so no start finds a sound log with a hole in it."""
    path = folder.path / LOG
    path.write_bytes(path.read_bytes()[: BATCH_BYTES + 9])
    disk.fail("unlink", errno.EIO, "00000000000000000003.log", times=1)
    with pytest.raises(OSError, match="Input/output error"):
        folder.reopen()

    log = folder.reopen()

    assert [header.base_offset for header in check_log(log)] == [0]
    assert log.log_end_offset == 1
    check_folder(log)


def test_a_stop_ends_the_scan_of_a_log_between_two_segments(folder: LogFolder) -> None:
    """The rest is as it was: the next start scans all of it again."""
    before = _files(folder)
    answers = iter([False, True])
    with pytest.raises(LoadStopped):
        folder.reopen(is_stopped=lambda: next(answers))

    assert not list(answers)
    assert before.keys() <= _files(folder).keys()
    assert folder.reopen().log_end_offset == 7


def test_a_kill_at_a_roll_leaves_no_reserved_room(tmp_path: Path) -> None:
    """The end of a segment that was flushed as the active one gives back its room, too."""
    folder = LogFolder(tmp_path, TopicConfig(segment_bytes=1 << 20, preallocate=True))
    folder.append()
    folder.log.flush()
    folder.checkpoint()
    folder.log.roll()
    if folder.log.segments[0].log_path.stat().st_blocks * 512 < 1 << 20:
        pytest.skip("the file system of the temporary folder reserves nothing")

    log = folder.reopen()

    assert [segment.base_offset for segment in log.segments] == [0, 1]
    assert log.segments[0].log_path.stat().st_blocks * 512 <= 1 << 16


def test_what_follows_damage_is_gone_for_good_before_the_damage_is_cut(
    folder: LogFolder, disk: Disk
) -> None:
    """A power failure that undid only the removal would leave a sound log with a hole in it."""
    path = folder.path / LOG
    path.write_bytes(path.read_bytes()[: BATCH_BYTES + 9])
    folder.reopen()
    calls = [(kind, Path(of).name) for kind, of in disk.calls]
    removed = calls.index(("unlink", "00000000000000000003.log"))
    cut = calls.index(("ftruncate", LOG))

    assert ("fsync", folder.path.name) in calls[removed:cut]


def test_recovery_rebuilds_what_a_clean_stop_writes(folder: LogFolder) -> None:
    """Indexes, snapshot and epochs after a crash are those of a clean stop, byte for byte."""
    folder.settle()
    recovered = folder.reopen()
    after_crash = _files(folder)
    recovered.close()
    folder.settle()

    assert _files(folder) == after_crash


def test_opening_twice_changes_nothing(folder: LogFolder) -> None:
    """A crash while recovering, or right after, is recovered from in the same way."""
    folder.reopen()
    first = _files(folder)
    folder.reopen()

    assert _files(folder) == first


def test_a_clean_start_writes_nothing(folder: LogFolder) -> None:
    """After a clean stop opening reads a little and leaves every file alone."""
    folder.close()
    before = {path: path.stat().st_mtime_ns for path in folder.path.iterdir()}

    log = folder.reopen(is_clean=True)

    assert (log.log_end_offset, log.recovery_point) == (7, 7)
    assert {path: path.stat().st_mtime_ns for path in folder.path.iterdir()} == before
    check_log(log)


def test_a_clean_start_goes_on_behind_the_last_record(tmp_path: Path) -> None:
    """The last batch has several records; their offsets are not given to others."""
    folder = LogFolder(tmp_path)
    folder.append()
    folder.append(3)
    folder.close()

    folder.reopen(is_clean=True)
    folder.append()

    assert folder.log.log_end_offset == 5
    check_log(folder.log)


def test_every_prefix_of_the_bytes_is_a_prefix_of_the_batches(tmp_path: Path) -> None:
    """Wherever the file is cut, the whole batches before the cut are kept and nothing else."""
    folder = LogFolder(tmp_path, TopicConfig(index_interval_bytes=0))
    ends = [0]
    for rows in (1, 3, 2):
        folder.append(rows)
        ends.append(folder.log.size)
    whole = (folder.path / LOG).read_bytes()
    offsets = [0, 1, 4, 6]

    for length in range(len(whole), -1, -1):
        (folder.path / LOG).write_bytes(whole[:length])
        log = folder.reopen()
        batches = sum(end <= length for end in ends) - 1

        assert log.log_end_offset == offsets[batches]
        assert (folder.path / LOG).read_bytes() == whole[: ends[batches]]
        assert bytes_of(log, 0) == whole[: ends[batches]]


@pytest.mark.parametrize("tail", [b"\0" * 4096, b"\xff" * 100, b"\0" * 11], ids=str)
def test_a_tail_that_is_no_batch_is_cut(folder: LogFolder, tail: bytes) -> None:
    """Zeros as a file system leaves them, and garbage, end the log."""
    path = folder.log.segments[-1].log_path
    size = path.stat().st_size
    with path.open("ab") as file:
        file.write(tail)

    log = folder.reopen()

    assert log.log_end_offset == 7
    assert path.stat().st_size == size
    check_log(log)


@pytest.mark.parametrize("position", [0, 8, 16, 17, 25, BATCH_BYTES - 1])
def test_a_flipped_byte_ends_the_log(folder: LogFolder, position: int) -> None:
    """Nothing after the first damaged batch survives, not even later segments."""
    with flipped(folder.path / "00000000000000000003.log", BATCH_BYTES + position):
        log = folder.reopen()

        assert log.log_end_offset == 4
        assert offsets_in(bytes_of(log, 0)) == [0, 1, 2, 3]
        assert not (folder.path / "00000000000000000006.log").exists()
        check_folder(log)
        check_log(log)
        assert folder.append(producer_id=7, producer_epoch=0, base_sequence=4).base_offset == 4


def test_damage_below_the_recovery_point_is_not_looked_for(folder: LogFolder) -> None:
    """Only what may not be on the disk is scanned; the rest was fsynced (KAFKA-5829)."""
    folder.settle()
    folder.log.flush()
    folder.checkpoint()

    with flipped(folder.path / LOG, BATCH_BYTES + 30):
        log = folder.reopen()

        assert (log.log_end_offset, log.recovery_point) == (7, 6)


@pytest.mark.parametrize("is_clean", [True, False])
@pytest.mark.parametrize("kind", [".index", ".timeindex"])
def test_a_missing_index_is_rebuilt(folder: LogFolder, kind: str, is_clean: bool) -> None:
    """Whatever the last stop was, the index of a closed segment comes back as it was."""
    folder.close()
    path = (folder.path / LOG).with_suffix(kind)
    before = path.read_bytes()
    path.unlink()

    log = folder.reopen(is_clean=is_clean)

    assert path.read_bytes() == before
    assert len(check_log(log)) == 7


def test_an_index_without_a_log_goes(folder: LogFolder) -> None:
    """It indexes nothing."""
    folder.close()
    stray = folder.path / "00000000000000000099.index"
    stray.touch()

    folder.reopen(is_clean=True)

    assert not stray.exists()


def test_a_torn_tail_after_a_clean_stop_is_cut(folder: LogFolder) -> None:
    """No batch is ever appended behind garbage, even if the mark says that all is well."""
    folder.close()
    path = folder.path / "00000000000000000006.log"
    whole = path.read_bytes()
    path.write_bytes(whole + b"\0" * 50)

    log = folder.reopen(is_clean=True)

    assert path.read_bytes() == whole
    assert log.log_end_offset == 7
    assert folder.append(producer_id=7, producer_epoch=0, base_sequence=7).base_offset == 7
    check_log(log)


def test_a_recovery_point_beyond_the_end_is_corrected(folder: LogFolder) -> None:
    """A checkpoint that outlived its data hides no scanned segment from the next flush."""
    folder.log.roll()
    folder.append(2)
    folder.recovery_point = 99

    log = folder.reopen()

    assert (log.recovery_point, log.log_end_offset) == (8, 9)
    assert log.segments[-1].base_offset == 7


def test_a_log_that_ends_below_its_start_begins_anew(folder: LogFolder) -> None:
    """When the data is gone up to below the log start offset, offsets still go on from there."""
    folder.log_start_offset = 9

    log = folder.reopen()

    assert (log.log_start_offset, log.log_end_offset) == (9, 9)
    assert [segment.base_offset for segment in log.segments] == [9]
    assert not log.producers.producers
    check_folder(log)
    assert folder.append().base_offset == 9


def test_a_folder_without_segments_gets_one(folder: LogFolder) -> None:
    """Topic id and log start offset are enough to go on."""
    for path in folder.path.glob("0*"):
        path.unlink()
    folder.log_start_offset = 4

    log = folder.reopen()

    assert (log.topic_id, log.log_end_offset) == (TOPIC_ID, 4)


@pytest.mark.parametrize("content", [None, "version: 0\ntopic_id: nonsense"])
def test_a_folder_without_a_valid_id(folder: LogFolder, content: str | None) -> None:
    """It opens with an id that says so; the registry of topics decides what it is."""
    path = folder.path / "partition.metadata"
    path.unlink()
    if content is not None:
        path.write_text(content)

    log = folder.reopen()
    log.assign_topic_id(TOPIC_ID)

    assert folder.reopen().topic_id == TOPIC_ID
    assert UNKNOWN_TOPIC_ID.int == 0


@pytest.mark.parametrize("content", [None, "0\n1\nx y\n"])
@pytest.mark.parametrize("is_clean", [True, False])
def test_lost_epochs_come_from_the_batches(
    folder: LogFolder, content: str | None, is_clean: bool
) -> None:
    """Without its file the leader epoch is that of the batches and never goes back."""
    folder.close()
    path = folder.path / "leader-epoch-checkpoint"
    path.write_text("0\n2\n0 0\n3 7\n")
    folder.reopen(is_clean=True)
    folder.append(producer_id=8)
    folder.close()
    path.unlink(missing_ok=True)
    if content is not None:
        path.write_text(content)

    log = folder.reopen(is_clean=is_clean)

    assert log.epochs.entries == ((0, 0), (3, 7))
    assert log.leader_epoch == 3
    assert path.read_text() == "0\n2\n0 0\n3 7\n"


def test_an_empty_log_keeps_its_epoch(tmp_path: Path) -> None:
    """The epoch of a partition without records is not written again at each start."""
    folder = LogFolder(tmp_path)
    folder.log.write_epochs()
    folder.close()
    path = folder.path / "leader-epoch-checkpoint"
    before = path.stat().st_mtime_ns

    log = folder.reopen(is_clean=True)

    assert (log.leader_epoch, path.stat().st_mtime_ns) == (0, before)


def test_stray_snapshots_go(folder: LogFolder) -> None:
    """Snapshots lie at segment bases and at the end of the log, nowhere else."""
    folder.close()
    for offset in (1, 5):
        snapshot = (folder.path / "00000000000000000006.snapshot").read_bytes()
        (folder.path / f"{offset:020d}.snapshot").write_bytes(snapshot)

    log = folder.reopen(is_clean=True)

    assert log.producers.snapshots == (3, 6, 7)


@pytest.mark.parametrize("is_clean", [True, False])
def test_a_damaged_snapshot_is_replaced_by_the_log(folder: LogFolder, is_clean: bool) -> None:
    """The next older snapshot and the batches after it tell the same."""
    folder.close()
    path = folder.path / "00000000000000000007.snapshot"
    whole = path.read_bytes()
    path.write_bytes(whole[:-1])

    folder.reopen(is_clean=is_clean)

    assert folder.append(producer_id=7, producer_epoch=0, base_sequence=6).duplicate
    assert path.read_bytes() == whole


def test_snapshots_of_a_start_are_whole_after_a_power_failure(
    tmp_path: Path, power_disk: PowerDisk
) -> None:
    """A start reads only the newest one, so that damage in another one would stay."""
    folder = LogFolder(tmp_path, TopicConfig(segment_bytes=3 * BATCH_BYTES))
    for index in range(7):
        folder.append(producer_id=7, producer_epoch=0, base_sequence=index)
    folder.reopen()
    folder.log.roll()
    folder.append(producer_id=7, producer_epoch=0, base_sequence=7)
    folder.log.roll()
    folder.settle()

    power_disk.cut_power()

    assert _snapshots(folder) == {3: 1, 6: 1, 7: 1, 8: 1}


@pytest.mark.parametrize("when", ["full", "empty"])
def test_a_kill_at_a_roll_leaves_no_snapshot_that_a_power_failure_tears(
    tmp_path: Path, power_disk: PowerDisk, when: str
) -> None:
    """The segment that began at its offset would keep it, and no later start would write it."""
    folder = LogFolder(tmp_path)
    folder.append(producer_id=7, producer_epoch=0, base_sequence=0)
    if when == "full":
        folder.reopen()
    folder.log.roll()  # its snapshot waits for the background thread, which the kill prevents
    if when == "empty":
        folder.log.flush()
        folder.checkpoint()
        folder.reopen()
    folder.append(producer_id=7, producer_epoch=0, base_sequence=1)
    folder.log.flush()
    folder.checkpoint()
    folder.reopen()
    folder.append(producer_id=7, producer_epoch=0, base_sequence=2)
    folder.log.roll()
    folder.settle()

    power_disk.cut_power()

    assert _snapshots(folder) == ({1: 1, 3: 1} if when == "empty" else {3: 1})


def test_a_stop_leaves_no_snapshot_that_a_power_failure_tears(
    tmp_path: Path, power_disk: PowerDisk
) -> None:
    """It lies at no segment, so that the next start would delete it, but verify comes before."""
    folder = LogFolder(tmp_path)
    folder.append(producer_id=7, producer_epoch=0, base_sequence=0)
    folder.reopen()
    folder.append(producer_id=7, producer_epoch=0, base_sequence=1)
    folder.close()

    power_disk.cut_power()

    assert _snapshots(folder) == {2: 1}


def _snapshots(folder: LogFolder) -> dict[int, int]:
    """Return the number of producers in each snapshot by its offset."""
    paths = sorted(folder.path.glob("*.snapshot"))
    return {int(path.stem): len(decode(path.read_bytes())) for path in paths}


@pytest.mark.parametrize("killed", [False, True])
def test_a_power_failure_does_not_undo_what_a_start_has_cut(
    tmp_path: Path, power_disk: PowerDisk, killed: bool
) -> None:
    """Whole batches behind the damage would come back behind new ones of the same size.

    A start that was killed before its fsync left nothing to be cut by the next one.
    """
    folder = LogFolder(tmp_path)
    for _ in range(6):
        folder.append()
    path = folder.log.segments[0].log_path
    data = bytearray(path.read_bytes())
    data[len(data) // 2 - 1] ^= 1
    path.write_bytes(data)
    if killed:
        power_disk.faults.append(Kill("fsync", path=path.name))
        with pytest.raises(Killed):
            folder.reopen()
        power_disk.mend()
    folder.reopen()
    power_disk.cut_power()

    assert path.stat().st_size == len(data) // 3


def test_kafka_metadata_snapshots_are_left_alone(folder: LogFolder) -> None:
    """Files of KRaft that end in .checkpoint.deleted are not ours to delete."""
    kept = folder.path / "00000000000000000000-0000000000.checkpoint.deleted"
    kept.touch()
    gone = folder.path / "00000000000000000000.index.deleted"
    gone.touch()

    folder.reopen()

    assert kept.exists()
    assert not gone.exists()


def test_producers_are_not_taken_from_a_damaged_batch(folder: LogFolder) -> None:
    """Words of a batch about its producer decide on appends: its checksum must be right."""
    folder.close()
    for snapshot in folder.path.glob("*.snapshot"):
        snapshot.unlink()
    with flipped(folder.path / LOG, 60), pytest.raises(CorruptMessage, match="wrong checksum"):
        folder.reopen(is_clean=True)

    assert folder.reopen(is_clean=True).log_end_offset == 7


def test_lost_epochs_and_a_damaged_batch_are_no_end(
    folder: LogFolder, caplog: pytest.LogCaptureFixture
) -> None:
    """The epochs are taken from the batches up to it; what is behind it is served as before."""
    folder.close()
    (folder.path / "leader-epoch-checkpoint").unlink()
    with flipped(folder.path / LOG, BATCH_BYTES + 8):
        log = folder.reopen(is_clean=True)

        assert log.log_end_offset == 7
        assert offsets_in(bytes_of(log, 3)) == [3, 4, 5, 6]
    assert [entry.epoch for entry in log.epochs.entries] == [0]
    assert "leader epochs behind a damaged batch" in caplog.text


@pytest.mark.parametrize(
    "call", ["unlink", "create", "pwrite", "open", "fsync", "rename", "ftruncate"]
)
@pytest.mark.parametrize("aborts", [True, False])
def test_killed_while_a_flushed_segment_is_scanned(
    tmp_path: Path, disk: Disk, call: str, aborts: bool
) -> None:
    """Nothing half written is believed: the next start scans it again, from whichever call on."""
    for after in itertools.count():
        root = tmp_path / str(after)
        root.mkdir()
        folder = LogFolder(root, TopicConfig(index_interval_bytes=0))
        offsets = {later: folder.append(timestamp=later).base_offset for later in TIMES_TO_COME}
        if aborts:
            abort(folder, 8)
        folder.log.roll()
        folder.append()
        folder.close()
        folder.log.segments[0].files.path(files.INDEX).unlink()
        kill = Kill(call, path=str(root), after=after, times=1)
        disk.faults.append(kill)
        with suppress(Killed):
            folder.reopen(is_clean=True)
        disk.mend()
        log = folder.reopen()

        check_lookups(log, offsets)
        assert log.aborted_transactions(0, 3 + aborts) == [(8, 2)] * aborts
        assert all(segment.find_damage() is None for segment in log.segments)
        if kill.hits <= after:
            break


def test_a_scanned_segment_is_on_the_disk(folder: LogFolder, disk: Disk) -> None:
    """Below the recovery point no flush comes: the start fsyncs it, its offset index last."""
    folder.close()
    (folder.path / LOG).with_suffix(".index").unlink()
    disk.calls.clear()
    folder.reopen(is_clean=True)
    calls = disk.names("create", "fsync", "unlink")

    made = calls.index("create 00000000000000000000.index")
    assert calls.index("fsync orders-0") < calls.index("create 00000000000000000000.timeindex")
    assert calls.index("fsync 00000000000000000000.timeindex") < made
    assert made < calls.index("fsync 00000000000000000000.index")
    assert calls.index("fsync 00000000000000000000.index") < calls.index("fsync orders-0", made)


@pytest.mark.parametrize("name", ["5.log", "99999999999999999999.log", "9" * 30 + ".log"])
def test_a_name_that_no_log_has(folder: LogFolder, name: str) -> None:
    """A number that is no offset names no segment; an offset does, if its file exists."""
    (folder.path / name).write_bytes(b"")
    if name == "5.log":
        with pytest.raises(FileNotFoundError):
            folder.reopen()
    else:
        assert folder.reopen().log_end_offset == 7


@pytest.mark.parametrize("policy", [("delete",), ("compact",)], ids=str)
def test_records_are_missing_between_two_segments(
    folder: LogFolder, caplog: pytest.LogCaptureFixture, policy: tuple[str, ...]
) -> None:
    """A power failure may leave that, at the end of a batch: it is kept, with a line."""
    folder.config = replace(folder.config, cleanup_policy=policy)
    path = folder.path / "00000000000000000003.log"
    path.write_bytes(path.read_bytes()[: 2 * BATCH_BYTES])
    log = folder.reopen()

    assert [header.base_offset for header in check_log(log)] == [0, 1, 2, 3, 4, 6]
    told = "records are missing between two segments partition=orders-0 first=5 last=5"
    assert (told in caplog.text) == (policy == ("delete",))


def test_no_records_are_missing(folder: LogFolder, caplog: pytest.LogCaptureFixture) -> None:
    """Neither a log that is whole nor one that was deleted from has such a line."""
    folder.log.delete_records(4)
    folder.log.roll()
    folder.checkpoint()
    folder.reopen()

    assert not caplog.records

"""A new segment begins, or cannot; the one before ends: what is on the disk then."""

import errno
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from siltstone.config.topic import TopicConfig
from siltstone.protocol.errors import KafkaStorageError, NotLeaderOrFollower
from siltstone.storage import files
from siltstone.storage.checkpointed import noted_recovery_point
from siltstone.storage.directory.log_directory import LogDirectory
from siltstone.storage.moving.future_log import FutureLog
from siltstone.storage.segment.index import TIME_ENTRY
from siltstone.storage.segment.open_file import OpenFiles
from siltstone.storage.segment.segment import LogSegment
from tests.support.batches import TIMESTAMP, make_batch
from tests.support.faults import Disk
from tests.support.invariants import check_folder, check_log, check_lookups, check_reads
from tests.support.logs import LogFolder
from tests.support.segments import open_files, room_of

WIDE = TopicConfig(segment_bytes=1_000, index_interval_bytes=100)
RESTARTS = pytest.mark.parametrize("restart", ["clean", "crash"])
KINDS = (files.LOG, files.INDEX, files.TIME_INDEX)


def _restart(folder: LogFolder, restart: str) -> None:
    if restart == "clean":
        folder.close()
    folder.reopen(is_clean=restart == "clean")
    check_folder(folder.log)


def _names(folder: LogFolder) -> set[str]:
    return {path.name for path in folder.path.iterdir() if files.parse_name(path.name)}


class TestHalfARoll:
    """The disk makes a part of the new segment's files."""

    @RESTARTS
    @pytest.mark.parametrize("kind", KINDS)
    def test_smaller_batches_go_into_the_old_segment(
        self, tmp_path: Path, disk: Disk, kind: str, restart: str
    ) -> None:
        """They are read from every offset after a restart, also when another roll follows."""
        folder = LogFolder(tmp_path, WIDE)
        for _ in range(9):
            folder.append(size=10)
        disk.fail("create", errno.ENOSPC, kind)
        with pytest.raises(KafkaStorageError):
            folder.append(size=600)
        disk.mend()
        folder.directory.check()
        for _ in range(3):
            folder.append(size=1)
        for _ in range(2):
            _restart(folder, restart)
            check_reads(folder.log, range(folder.log.log_end_offset))
            folder.append(size=600)

        check_reads(folder.log, range(14))

    @pytest.mark.parametrize("kind", KINDS)
    def test_nothing_is_left(self, tmp_path: Path, disk: Disk, kind: str) -> None:
        """Files that were made before the one that was refused are removed."""
        folder = LogFolder(tmp_path, WIDE)
        folder.append(size=600)
        before = _names(folder)
        disk.fail("create", errno.EMFILE, kind)
        with pytest.raises(KafkaStorageError):
            folder.append(size=600)

        assert _names(folder) == before

    def test_no_room_to_preallocate(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        """A disk that lacks the room of a whole segment gets no empty file."""
        folder = LogFolder(tmp_path, TopicConfig(segment_bytes=1_000, preallocate=True))
        folder.append(size=600)
        before = _names(folder)

        def refuse(_fd: int, _size: int) -> None:
            raise OSError(errno.ENOSPC, "No space left on device")

        monkeypatch.setattr(files, "preallocate", refuse)
        with pytest.raises(KafkaStorageError):
            folder.append(size=600)

        assert _names(folder) == before

    @RESTARTS
    def test_a_roll_of_retention(self, tmp_path: Path, disk: Disk, restart: str) -> None:
        """All segments were too old and no new one could be made: what comes next is read."""
        folder = LogFolder(tmp_path, TopicConfig(retention_ms=0, index_interval_bytes=0))
        for _ in range(3):
            folder.append(size=10)
        folder.settle()
        disk.fail("create", errno.ENOSPC, files.INDEX)
        assert folder.log.apply_retention(2_000_000_000_000) == 0
        disk.mend()
        folder.directory.check()
        for _ in range(3):
            folder.append(size=10)
        _restart(folder, restart)

        check_reads(folder.log, range(6))


class TestARollThatSomebodyAsksFor:
    """As ``siltstone clean --roll`` does."""

    @pytest.mark.parametrize("kind", KINDS)
    def test_a_full_disk(self, tmp_path: Path, disk: Disk, kind: str) -> None:
        """It is refused as an append is, and the directory takes no writes until there is room."""
        folder = LogFolder(tmp_path)
        folder.append()
        disk.fail("create", errno.ENOSPC, kind)
        with pytest.raises(KafkaStorageError, match="No space left on device"):
            folder.log.roll()
        calls = len(disk.calls)
        with pytest.raises(KafkaStorageError, match="takes no writes now"):
            folder.log.roll()
        assert len(disk.calls) == calls
        disk.mend()
        folder.directory.check()
        folder.log.roll()

        assert [segment.base_offset for segment in folder.log.segments] == [0, 1]

    def test_a_log_that_is_closed(self, tmp_path: Path) -> None:
        """Nothing is made in its folder, which may be another topic's by now."""
        folder = LogFolder(tmp_path)
        folder.append()
        folder.close()
        before = _names(folder)
        with pytest.raises(NotLeaderOrFollower):
            folder.log.roll()

        assert _names(folder) == before


class TestAnEmptySegmentInsideAnother:
    """A folder that an earlier release left, or a power failure that undid an unlink."""

    @RESTARTS
    @pytest.mark.parametrize("kinds", [KINDS, KINDS[:1]], ids=["whole", "log"])
    @pytest.mark.parametrize("follows", [False, True], ids=["last", "followed"])
    @pytest.mark.parametrize("base_offset", [1, 5, 7])
    def test_it_goes(
        self,
        tmp_path: Path,
        caplog: pytest.LogCaptureFixture,
        kinds: tuple[str, ...],
        restart: str,
        follows: bool,
        base_offset: int,
    ) -> None:
        """The records behind its base are served, and new ones do not take their offsets."""
        folder = LogFolder(tmp_path, WIDE)
        for size in (10, 70, 1, 30):
            folder.append(2, size=size)
        if follows:
            folder.log.roll()
            folder.append()
        count = folder.log.log_end_offset
        if restart == "clean":
            folder.close()
        for kind in kinds:
            (folder.path / files.segment_file_name(base_offset, kind)).touch()
        folder.reopen(is_clean=restart == "clean")

        check_folder(folder.log)
        assert f"{base_offset:020d}.log" in caplog.text
        assert folder.append().base_offset == count
        check_reads(folder.log, range(count + 1))
        assert len(folder.log.segments) == 1 + follows
        check_log(folder.log)

    @RESTARTS
    def test_at_the_end_it_stays(
        self, tmp_path: Path, caplog: pytest.LogCaptureFixture, restart: str
    ) -> None:
        """A segment that no batch has come into yet begins where the one before ends."""
        folder = LogFolder(tmp_path, WIDE)
        folder.append(3)
        folder.log.roll()
        _restart(folder, restart)

        assert [segment.base_offset for segment in folder.log.segments] == [0, 3]
        assert not caplog.records

    def test_recovery_point_inside_it(self, tmp_path: Path) -> None:
        """The segment that really holds the recovery point is scanned."""
        folder = LogFolder(tmp_path, WIDE)
        folder.append(3)
        folder.log.flush()
        folder.append(2)
        folder.checkpoint()
        (folder.path / files.segment_file_name(2)).touch()
        with folder.log.segments[0].log_path.open("ab") as log:
            log.write(bytes(30))
        folder.reopen()

        assert folder.log.log_end_offset == 5
        check_reads(folder.log, range(5))
        check_log(folder.log)


UNINDEXED = 5
"""So many records of `Flushed` have one entry in each index, which is not that of the last."""


def _open_logs(folder: LogFolder) -> list[str]:
    """Return the ``.log`` files that are open: the active one, and so many as are kept to read."""
    return [name for name in open_files(folder.path) if name.endswith(files.LOG)]


def _append_half(folder: LogFolder, disk: Disk) -> bytes:
    """Have half a batch written and cut off again, and return it."""
    path, size = folder.log.segments[-1].log_path, folder.log.size
    disk.fail("pwrite", path=files.LOG, short=True, times=1)
    disk.fail("pwrite", errno.ENOSPC, files.LOG, times=1)
    cut = disk.fail("ftruncate", errno.EIO, files.LOG, times=1)
    with pytest.raises(KafkaStorageError):
        folder.append(size=80)
    torn = path.read_bytes()[size:]
    assert torn
    assert cut.hits
    with path.open("r+b") as log:
        log.truncate(size)
    disk.mend()
    folder.directory.check()
    return torn


class Flushed:
    """A log that is flushed after each append, as by flush.messages=1, and its records' times."""

    def __init__(self, root: Path, open_files: OpenFiles | None = None, **settings: Any) -> None:
        config = TopicConfig(segment_bytes=1_000, index_interval_bytes=400, **settings)
        self.folder = LogFolder(root, config, open_files=open_files)
        self.offsets: dict[int, int] = {}

    def append(self, count: int = 1) -> None:
        """Append records a second apart, each with a flush and a checkpoint."""
        for _ in range(count):
            timestamp = TIMESTAMP + 1_000 * len(self.offsets)
            self.offsets[timestamp] = self.folder.append(size=80, timestamp=timestamp).base_offset
            self.folder.log.flush()
            self.folder.checkpoint()

    def roll(self) -> None:
        """Append up to the first record of the next segment."""
        count = len(self.folder.log.segments)
        while len(self.folder.log.segments) == count:
            self.append()

    def crash(self) -> None:
        """Start on what a kill has left, and look for each timestamp and offset."""
        log = self.folder.reopen()
        check_folder(log)
        check_log(log)
        check_reads(log, range(len(self.offsets)))
        check_lookups(log, self.offsets)


class TestARollAtTheRecoveryPoint:
    """Nothing was unflushed when the segment ended."""

    @pytest.mark.parametrize("settles", [False, True], ids=["at once", "later"])
    def test_killed(self, tmp_path: Path, settles: bool) -> None:
        """Each time index has its last entry, whatever housekeeping has done by then."""
        flushed = Flushed(tmp_path)
        for _ in range(3):
            flushed.roll()
            if settles:
                flushed.folder.settle()
                flushed.folder.checkpoint()
        flushed.crash()

        flushed.roll()
        flushed.crash()

    def test_killed_before_the_new_segment_counts(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Its name is in the folder, and all before it was flushed: the old one is whole."""
        flushed = Flushed(tmp_path)
        flushed.append(UNINDEXED)
        create = LogSegment.create

        def create_and_die(*args: Any, **named: Any) -> LogSegment:
            create(*args, **named)
            raise KeyboardInterrupt

        monkeypatch.setattr(LogSegment, "create", create_and_die)
        with pytest.raises(KeyboardInterrupt):
            flushed.folder.log.roll()
        monkeypatch.undo()

        flushed.crash()
        assert len(flushed.folder.log.segments) == 2

    @pytest.mark.parametrize("call", ["open", "fsync", "pwrite"])
    @pytest.mark.parametrize("kind", [*KINDS, ".snapshot"])
    def test_the_flush_fails(self, tmp_path: Path, disk: Disk, call: str, kind: str) -> None:
        """The segment's end that a disk refuses is found after a kill all the same."""
        flushed = Flushed(tmp_path)
        flushed.roll()
        disk.fail(call, errno.EIO if call == "fsync" else errno.EMFILE, kind)
        flushed.folder.services.background.close()
        disk.mend()
        flushed.folder.checkpoint()

        flushed.crash()

    @pytest.mark.parametrize("kind", KINDS)
    def test_the_flush_fails_and_the_next_does_not(
        self, tmp_path: Path, disk: Disk, kind: str
    ) -> None:
        """The next flush ends the segment, too: its descriptor and its room go."""
        flushed = Flushed(tmp_path, OpenFiles(1))
        flushed.roll()
        disk.fail("create" if kind == files.LOG else "open", errno.EMFILE, kind)
        flushed.folder.services.background.close()
        disk.mend()
        flushed.folder.directory.check()
        flushed.folder.log.flush()
        flushed.folder.checkpoint()

        assert len(_open_logs(flushed.folder)) == 2
        flushed.crash()

    def test_the_power_goes(self, tmp_path: Path) -> None:
        """Entries that were not fsynced are lost: the start scans the segment, and finds them."""
        flushed = Flushed(tmp_path)
        flushed.append(UNINDEXED)
        times = flushed.folder.log.segments[0].files.path(files.TIME_INDEX)
        durable = times.read_bytes()
        flushed.folder.log.roll()
        times.write_bytes(durable)

        flushed.crash()

    @pytest.mark.parametrize("cut_by", ["start", "append"])
    @pytest.mark.parametrize("starts", [False, True], ids=["at once", "after a start"])
    def test_the_power_undoes_a_cut(
        self, tmp_path: Path, disk: Disk, cut_by: str, starts: bool
    ) -> None:
        """Torn bytes that come back behind the end of a closed segment are not served."""
        flushed = Flushed(tmp_path)
        flushed.append(UNINDEXED)
        folder = flushed.folder
        if cut_by == "start":
            torn = bytes(make_batch([(b"k", b"v" * 80)])[:70])
            with folder.log.segments[0].log_path.open("ab") as log:
                log.write(torn)
            folder.reopen()
        else:
            torn = _append_half(folder, disk)
        folder.log.roll()
        if starts:
            folder.reopen()
        with folder.log.segments[0].log_path.open("ab") as log:
            log.write(torn)

        flushed.crash()

    def test_the_power_takes_what_a_start_has_rebuilt(self, tmp_path: Path) -> None:
        """A time index that is shorter than the offset index is found, whatever the last times."""
        folder = LogFolder(tmp_path, TopicConfig(index_interval_bytes=0))
        later = (TIMESTAMP + 1, TIMESTAMP + 2, TIMESTAMP + 9_000)
        offsets = {each: folder.append(timestamp=each).base_offset for each in later}
        for _ in range(2):
            folder.append()
        folder.log.flush()
        folder.checkpoint()
        folder.reopen()
        folder.log.roll()
        times = folder.log.segments[0].files.path(files.TIME_INDEX)
        times.write_bytes(times.read_bytes()[: TIME_ENTRY.size])
        folder.append(timestamp=TIMESTAMP + 9_500)

        check_lookups(folder.reopen(), offsets)

    def test_descriptors(self, tmp_path: Path) -> None:
        """A segment that has ended keeps none of its own, and no index in memory."""
        flushed = Flushed(tmp_path, OpenFiles(1))
        for _ in range(4):
            flushed.roll()
        flushed.folder.settle()

        assert len(_open_logs(flushed.folder)) == 2

    @pytest.mark.parametrize("stops", [False, True], ids=["serving", "stopped"])
    def test_room(self, tmp_path: Path, stops: bool) -> None:
        """Space that was preallocated for a segment that has ended is given back."""
        flushed = Flushed(tmp_path, preallocate=True)
        flushed.folder.config = flushed.folder.log.config
        reserve = 1 << 20
        flushed.folder.log.reconfigure(replace(flushed.folder.config, segment_bytes=reserve))
        for _ in range(3):
            flushed.append()
            flushed.folder.log.roll()
        if room_of(flushed.folder.path, 2) < reserve:
            pytest.skip("the file system under tmp_path cannot reserve room")
        flushed.folder.settle()
        if stops:
            flushed.append()
            flushed.folder.close()

        bases = [segment.base_offset for segment in flushed.folder.log.segments]
        assert all(room_of(flushed.folder.path, base) < reserve for base in bases[: 3 + stops])

    @pytest.mark.parametrize("preallocates", [True, False])
    def test_room_after_a_kill(self, tmp_path: Path, preallocates: bool) -> None:
        """A start gives back what was reserved for the active segment, whatever is set by then."""
        reserve = 1 << 20
        folder = LogFolder(tmp_path, TopicConfig(preallocate=True, segment_bytes=reserve))
        folder.append()
        if room_of(folder.path, 0) < reserve:
            pytest.skip("the file system under tmp_path cannot reserve room")
        folder.config = TopicConfig(preallocate=preallocates, segment_bytes=reserve)
        folder.reopen()

        assert room_of(folder.path, 0) < reserve
        check_log(folder.log)

    def test_rolled_while_it_is_flushed(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """The flush that runs at the roll does not count for the end that comes meanwhile."""
        flushed = Flushed(tmp_path)
        flushed.append(UNINDEXED)
        log, flush = flushed.folder.log, LogSegment.flush
        timestamp = TIMESTAMP + 1_000 * UNINDEXED
        flushed.offsets[timestamp] = flushed.folder.append(timestamp=timestamp).base_offset

        def flush_and_roll(segment: LogSegment) -> None:
            flush(segment)
            log.roll()

        monkeypatch.setattr(LogSegment, "flush", flush_and_roll)
        log.flush()
        monkeypatch.undo()
        flushed.folder.checkpoint()
        flushed.crash()

    def test_after_a_move(self, tmp_path: Path) -> None:
        """A copy ends at its recovery point: its first roll is one at the recovery point."""
        for name in ("first", "other"):
            (tmp_path / name).mkdir()
        flushed = Flushed(tmp_path / "first")
        flushed.append(UNINDEXED)
        folder = flushed.folder
        other = LogDirectory(tmp_path / "other")
        future = FutureLog(folder.log, other, other.path / "orders-0.0123-future")
        future.create()
        future.copy()
        future.settle()
        folder.recovery_point = noted_recovery_point(future)
        assert future.take_over(0)
        folder.log.roll()
        folder.directory, folder.path = other, future.final_path

        flushed.crash()


class TestSettingsOfTheNextSegment:
    """Kafka gives a segment some settings when it begins; others count from the next append on."""

    def test_index_bytes(self, tmp_path: Path) -> None:
        """A smaller segment.index.bytes leaves the active segment alone, and fills the next."""
        folder = LogFolder(tmp_path, TopicConfig(index_interval_bytes=0))
        for _ in range(5):
            folder.append()
        folder.log.reconfigure(replace(folder.config, segment_index_bytes=24))
        for _ in range(5):
            folder.append()
        assert len(folder.log.segments) == 1
        folder.log.roll()
        for _ in range(8):
            folder.append()

        assert [segment.base_offset for segment in folder.log.segments] == [0, 10, 12, 14, 16]

    def test_index_bytes_of_a_moved_segment(self, tmp_path: Path) -> None:
        """A copy in another directory is the same segment."""
        for name in ("first", "other"):
            (tmp_path / name).mkdir()
        folder = LogFolder(tmp_path / "first", TopicConfig(index_interval_bytes=0))
        folder.append()
        folder.log.reconfigure(replace(folder.config, segment_index_bytes=24))
        other = LogDirectory(tmp_path / "other")
        future = FutureLog(folder.log, other, other.path / "orders-0.0123-future")
        future.create()
        future.copy()
        future.settle()
        assert future.take_over(0)
        for _ in range(9):
            folder.append()

        assert len(folder.log.segments) == 1

    def test_index_interval(self, tmp_path: Path) -> None:
        """A smaller index.interval.bytes counts for the next segment."""
        folder = LogFolder(tmp_path, TopicConfig())
        folder.append()
        folder.log.reconfigure(replace(folder.config, index_interval_bytes=0))
        for _ in range(5):
            folder.append()
        folder.log.roll()
        for _ in range(5):
            folder.append()

        counts = [len(segment.offset_index()) for segment in folder.log.segments]
        assert counts == [0, 4]

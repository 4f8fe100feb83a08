"""A new segment begins, or cannot; the one before ends: what is on the disk then."""

import errno
from pathlib import Path

import pytest

from siltstone.config.topic import TopicConfig
from siltstone.protocol.errors import KafkaStorageError
from siltstone.storage import files
from tests.support.faults import Disk
from tests.support.invariants import check_folder, check_log, check_reads
from tests.support.logs import LogFolder

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
        """What was made before the file that was refused is removed."""
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

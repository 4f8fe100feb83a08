"""New segments in the place of old ones: readers, crashes at every call, disks that fail."""

import errno
import itertools
import os
import shutil
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from siltstone.cleaner.one_pass.cleaner import Replace
from siltstone.cleaner.one_pass.stats import PassResult
from siltstone.protocol.errors import KafkaStorageError, NotLeaderOrFollower
from siltstone.protocol.records.build import ABORT, COMMIT
from siltstone.storage import files
from siltstone.storage.segment.readable import ReadableSegment
from siltstone.storage.segment.segment import LogSegment
from siltstone.storage.segment.swap import SegmentSwap
from tests.support.batches import make_batch
from tests.support.faults import ALWAYS, Disk
from tests.support.invariants import check_folder, check_log
from tests.support.log_views import View
from tests.support.logs import validated
from tests.support.passes import CompactedFolder, content

CHANGES = frozenset({"pwrite", "fsync", "ftruncate", "rename", "unlink", "create"})
A, B, C = b"A", b"B", b"C"


@dataclass
class FromThenOn:
    """Every change of the disk fails from the Nth on: what a kill at that call leaves.

    ``is_torn``: a write that is the Nth takes half of its bytes. ``times``: how many fail.
    """

    after: int
    is_torn: bool = False
    times: int = ALWAYS
    error: int = errno.EIO
    seconds: float = 0.0
    hits: int = 0
    short: bool = False

    def strikes(self, call: str, path: str) -> bool:
        """Tell whether this call fails, and count it."""
        if call not in CHANGES:
            return False
        self.hits += 1
        self.short = self.is_torn and call == "pwrite" and self.hits == self.after + 1
        return self.after < self.hits <= self.after + self.times


def make_folder(root: Path) -> CompactedFolder:
    """Return a log that a pass puts into two new segments.

    The first one has lost its end: its last two old segments leave nothing. The second has an
    aborted transaction.
    """
    root.mkdir(parents=True, exist_ok=True)
    folder = CompactedFolder(root, segment_bytes=700, index_interval_bytes=100)
    folder.write((A, b"1"), (B, b"1"))
    folder.write((C, b"kept" * 20))
    folder.roll()
    folder.write((A, b"2"), producer_id=5, producer_epoch=0, base_sequence=0)
    folder.roll()
    folder.write((B, b"2"))
    folder.write((A, b"3"))
    folder.roll()
    folder.write_transactional(9, (A, b"aborted" * 20))
    folder.write((A, b"4" * 100), (B, b"4"))
    folder.write_marker(9, ABORT)
    folder.roll()
    folder.write_transactional(9, (b"D", b"d" * 30), sequence=1)
    folder.write_marker(9, COMMIT)
    folder.roll()
    folder.write((A, b"active"))
    folder.log.flush()
    folder.settle()
    folder.checkpoint()
    return folder


def rows_after_a_pass(root: Path) -> list[tuple[int, bytes | None, bytes | None]]:
    """Return the records that are left when all is done."""
    folder = make_folder(root)
    clean(folder)
    return folder.rows()


def views_of_a_pass(root: Path) -> list[View]:
    """Return what the log looks like before the pass and after each swap."""
    folder = make_folder(root)
    views = [View.of(folder.log)]
    swap = folder.log.replace_segments

    def note(new: Sequence[LogSegment], old: Sequence[ReadableSegment]) -> None:
        swap(new, old)
        views.append(View.of(folder.log))

    folder.cleaner.clean(folder.to_clean(), note, lambda: None)
    return views


def clean(folder: CompactedFolder) -> PassResult:
    """Make a pass."""
    folder.log.finish_swap()
    return folder.cleaner.clean(folder.to_clean(), folder.log.replace_segments, lambda: None)


def test_the_log_is_what_these_tests_need(tmp_path: Path) -> None:
    """Two groups of several segments; the last of the first leaves nothing, so it goes empty."""
    folder = make_folder(tmp_path)

    result = clean(folder)

    assert [len(group.inputs) for group in result.groups] == [3, 2]
    assert [output.size > 0 for output in result.groups[0].outputs] == [True, False]
    assert result.groups[0].outputs[-1].base_offset == result.groups[0].inputs[-1].base_offset
    assert len({view.data for view in views_of_a_pass(tmp_path / "again")}) == 3
    assert folder.log.aborted_transactions(0, 100) == [(9, 6)]


@pytest.mark.slow
@pytest.mark.parametrize("is_torn", [False, True], ids=["whole", "torn"])
@pytest.mark.parametrize("scans", [False, True], ids=["flushed", "scanned"])
def test_crash_at_every_call(memory_path: Path, disk: Disk, is_torn: bool, scans: bool) -> None:
    """Whatever call is the last, the next start finds each group as it was or as it became."""
    views = views_of_a_pass(memory_path / "views")
    rows = rows_after_a_pass(memory_path / "rows")
    seen = set()
    for after in itertools.count():
        folder = make_folder(memory_path / str(after))
        kill = FromThenOn(after, is_torn)
        disk.faults.append(kill)  # type: ignore[arg-type]
        with suppress(OSError):
            clean(folder)
        unlink_old_files(folder)
        disk.mend()
        if scans:
            folder.recovery_point = 0
        folder.reopen()

        view = View.of(folder.log)
        data = [each.data for each in views]
        assert view.data in data
        number = data.index(view.data)
        seen.add(number)
        assert view.producers == views[number].producers
        if not scans:  # a scan tells aborted transactions from their data, which may be gone
            assert view.aborted == views[number].aborted
        check_log(folder.log)
        check_folder(folder.log)
        clean(folder)
        assert folder.rows() == rows
        assert View.of(folder.log).producers == views[0].producers
        shutil.rmtree(folder.path)
        if kill.hits <= after:
            break

    assert after > 60
    assert seen == set(range(len(views)))


@pytest.mark.slow
@pytest.mark.parametrize("times", [1, 3, ALWAYS], ids=["once", "thrice", "for long"])
@pytest.mark.parametrize("error", [errno.ENOSPC, errno.EIO], ids=["ENOSPC", "EIO"])
def test_disk_fails_at_every_call(memory_path: Path, disk: Disk, error: int, times: int) -> None:
    """The log goes on as it was or as it became; when the disk works again the pass ends well."""
    views = views_of_a_pass(memory_path / "views")
    rows = rows_after_a_pass(memory_path / "rows")
    for after in itertools.count():
        folder = make_folder(memory_path / str(after))
        fault = FromThenOn(after, times=times, error=error)
        disk.faults.append(fault)  # type: ignore[arg-type]
        failed = False
        try:
            clean(folder)
        except OSError:
            failed = True
        assert View.of(folder.log) in views
        assert folder.directory.refusal is None
        append_one(folder)
        disk.mend()

        clean(folder)
        assert [row for row in folder.rows() if row[1] != b"E"] == rows
        check_log(folder.log)
        folder.settle()
        folder.pass_time(folder.config.file_delete_delay_ms)
        check_folder(folder.log)
        assert not folder.log.has_unfinished_swap
        before = View.of(folder.log)
        folder.reopen()
        assert View.of(folder.log) == before
        shutil.rmtree(folder.path)
        if fault.hits <= after:
            assert not failed
            break

    assert after > 40


def unlink_old_files(folder: CompactedFolder) -> None:
    """Have the delay of deleted files go by, whatever the disk says to it."""
    folder.clock.advance(folder.config.file_delete_delay_ms)
    folder.services.deletions.run_due()
    folder.services.background.close()
    directory = folder.directory
    directory.refusal = directory.client_refusal = directory.failure = None


def append_one(folder: CompactedFolder) -> None:
    """Append to the active segment, if the disk lets us."""
    with suppress(KafkaStorageError):
        folder.log.append(validated(make_batch([(b"E", b"e")])))
    directory = folder.directory
    directory.refusal = directory.client_refusal = directory.failure = None


def test_order_on_the_disk(tmp_path: Path, disk: Disk) -> None:
    """Kafka's order of renames, with the directory's fsync between the three phases."""
    folder = make_folder(tmp_path)
    folder.first_dirty_offset = 0
    disk.calls.clear()

    clean(folder)

    calls = [
        f"{call} {Path(path).name.removeprefix('000000000000000000')}"
        for call, path in disk.calls
        if call in {"rename", "fsync"}
    ]
    kinds = (".log", ".index", ".timeindex")
    all_kinds = (*kinds, ".txnindex")
    first = calls.index("rename 04.log.cleaned")
    assert sorted(calls[:first]) == sorted(
        [
            *(f"fsync 00{kind}.cleaned" for kind in kinds),
            "fsync 04.log.cleaned",  # its indexes have no entries
            *["fsync orders-0"] * 2,
        ]
    )
    assert calls[first : calls.index("fsync 06.log.cleaned")] == [
        *(f"rename {base}{kind}.cleaned" for base in ("04", "00") for kind in all_kinds),
        "fsync orders-0",
        *(f"rename {base}{kind}" for base in ("00", "03", "04") for kind in all_kinds),
        "fsync orders-0",
        *(f"rename {base}{kind}.swap" for base in ("00", "04") for kind in all_kinds),
        "fsync orders-0",
        "rename 03.snapshot",
    ]


def test_readers_in_flight_have_whole_old_bytes(tmp_path: Path) -> None:
    """A range that is queued for sendfile outlives the swap, and the unlinking after it."""
    folder = make_folder(tmp_path)
    before = content(folder.log)
    read = folder.log.read(0, 1 << 20, folder.log.log_end_offset)
    assert read is not None

    clean(folder)
    folder.settle()
    folder.pass_time(folder.config.file_delete_delay_ms)

    assert not list(folder.path.glob("*" + files.DELETED))
    data = os.pread(read.slice.file.fileno(), read.slice.size, read.slice.position)
    assert data == before[: len(read.slice)]


def test_old_files_wait_for_their_time(tmp_path: Path) -> None:
    """They stay as .deleted for file.delete.delay.ms; snapshots of gone bases go with them."""
    folder = make_folder(tmp_path)

    clean(folder)
    folder.settle()
    waiting = sorted(path.name for path in folder.path.glob("*" + files.DELETED))
    folder.pass_time(folder.config.file_delete_delay_ms - 1)
    still = len(list(folder.path.glob("*" + files.DELETED)))
    folder.pass_time(1)

    assert len([name for name in waiting if ".log" in name]) == 5
    assert len([name for name in waiting if ".snapshot" in name]) == 2
    assert still == len(waiting)
    assert not list(folder.path.glob("*" + files.DELETED))
    assert not [path for path in folder.path.iterdir() if path.suffix in {".swap", ".cleaned"}]


def test_closed_log_takes_no_new_segments(tmp_path: Path) -> None:
    """A log that was closed meanwhile stays as it is."""
    folder = make_folder(tmp_path)
    log = folder.to_clean()
    before = sorted(path.name for path in folder.path.iterdir())
    folder.log.close()

    with pytest.raises(NotLeaderOrFollower):
        folder.cleaner.clean(log, folder.log.replace_segments, lambda: None)

    assert [name for name in before if name.endswith(".log")] == sorted(
        path.name for path in folder.path.iterdir() if ".log" in path.name
    )


def test_segments_that_retention_took_are_not_missed(tmp_path: Path) -> None:
    """A segment that left during the pass stays out; its offsets stay below the log's start."""
    folder = make_folder(tmp_path)
    old = folder.log.segments[0]
    folder.cleaner.clean(folder.to_clean(), _dropping(folder), lambda: None)

    assert old not in folder.log.segments
    assert folder.log.log_start_offset == 3
    check_log(folder.log)


def test_a_segment_that_begins_meanwhile_stays(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The log rolls, and a batch comes, while the new segments are renamed."""
    folder = make_folder(tmp_path)
    begin = SegmentSwap.begin

    def roll_behind(swap: SegmentSwap) -> None:
        begin(swap)
        folder.roll()
        folder.write((b"new", b"acknowledged"))

    monkeypatch.setattr(SegmentSwap, "begin", roll_behind)
    clean(folder)

    assert folder.rows()[-1][1:] == (b"new", b"acknowledged")
    check_log(folder.log)


def _dropping(folder: CompactedFolder) -> Replace:
    """Have the first segment go before it is replaced."""

    def swap(new: Sequence[LogSegment], old: Sequence[ReadableSegment]) -> None:
        with folder.log.lock:
            if old[0].base_offset == 0:
                folder.log._drop(1)
        folder.log.replace_segments(new, old)

    return swap


@pytest.mark.parametrize("tries", [0, 2])
def test_a_deletion_behind_a_swap_that_the_disk_broke_off(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, tries: int
) -> None:
    """A new segment that is deleted before it has its final name does not come back."""
    folder = make_folder(tmp_path)
    rename = files.rename

    def refuse(old: str, new: str) -> None:
        if old.endswith(files.SWAP):
            raise OSError(errno.ENOSPC, "the disk is full")
        rename(old, new)

    monkeypatch.setattr(files, "rename", refuse)
    with pytest.raises(OSError, match="full"):
        clean(folder)
    count = len(folder.log.segments)
    both = replace(folder.config, cleanup_policy=("compact", "delete"), retention_ms=-1)
    folder.log.reconfigure(both)
    folder.log.delete_records(folder.log.segments[1].base_offset)
    assert folder.log.apply_retention(folder.clock.now_ms()) == 1
    for _ in range(tries):
        folder.pass_time_despite_failures()
    monkeypatch.undo()

    folder.services.background.close()
    folder.services.deletions.run_due()
    folder.services.background.close()
    folder.log.finish_swap()

    rows, bases = folder.rows(), [each.base_offset for each in folder.log.segments]
    assert len(bases) == count - 1
    folder.pass_time_despite_failures(5_000)
    assert [int(path.stem) for path in sorted(folder.path.glob("*.log"))] == bases
    folder.reopen()
    assert folder.rows() == rows
    assert [each.base_offset for each in folder.log.segments] == bases

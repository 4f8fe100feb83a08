"""A pass is killed, or its disk fails, at every change of the disk that it makes.

From the first write of a new segment to the checkpoint, the receipt in the history and the
unlinking of the old files. The kills are real ones of a process; the next start is the normal one.
"""

import errno
import itertools
import shutil
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Self

import pytest

from siltstone.cleaner.history.history import read_history
from siltstone.cleaner.set_aside import Failure
from siltstone.cleaner.verify import verify_partition
from siltstone.protocol.core.constants import TRANSACTIONAL
from siltstone.protocol.records.build import ABORT, COMMIT, build_marker
from siltstone.protocol.records.record import Record
from siltstone.storage.log.log import Log
from siltstone.storage.producers.checks import Origin
from siltstone.storage.topic_partition import TopicPartition
from tests.support.appending import append_unchecked
from tests.support.batches import TIMESTAMP, Row, make_batch
from tests.support.cleaner import read_all
from tests.support.dying_pass import CHANGES, CONFIG, DyingPasses, Home
from tests.support.faults import ALWAYS, Disk
from tests.support.invariants import check_folder, check_log
from tests.support.log_views import View
from tests.support.logs import TOPIC_ID, validated

pytestmark = [pytest.mark.slow, pytest.mark.timeout(180)]

A, B, C = b"A", b"B", b"C"
PAUSE_MS = 3_600_000
KINDS = CHANGES - {"mkdir", "ftruncate"}


@pytest.fixture
def dying_passes() -> Iterator[DyingPasses]:
    """The process whose children die."""
    with DyingPasses() as running:
        yield running


def fill(log: Log) -> None:
    """Write what a pass makes two segments of, each from several, one with an aborted transaction.

    The last segment of the first group leaves nothing.
    """
    append_unchecked(log, [(A, b"1"), (B, b"1")])
    append_unchecked(log, [(C, b"kept" * 20)])
    log.roll()
    append_unchecked(log, [(A, b"2")], producer_id=5, producer_epoch=0, base_sequence=0)
    log.roll()
    append_unchecked(log, [(B, b"2")])
    append_unchecked(log, [(A, b"3")])
    log.roll()
    transact(log, 0, [(A, b"aborted" * 20)], ABORT)
    append_unchecked(log, [(A, b"4" * 100), (B, None)])
    log.roll()
    transact(log, 1, [(b"D", b"d" * 30)], COMMIT)
    log.roll()
    append_unchecked(log, [(A, b"active")])
    log.flush()


def transact(log: Log, sequence: int, rows: list[Row], kind: int) -> None:
    """Append a transaction of one batch, and its marker."""
    producer = {"producer_id": 9, "producer_epoch": 0}
    batch = make_batch(rows, flags=TRANSACTIONAL, base_sequence=sequence, **producer)
    log.append(validated(batch), Origin.REPLICATION)
    log.append(validated(build_marker(0, TIMESTAMP, kind, 0, **producer)), Origin.COORDINATOR)


@pytest.fixture
def template(memory_path: Path) -> Path:
    """A folder that was stopped cleanly and never cleaned."""
    path = memory_path / "template"
    path.mkdir()
    home = Home(path)
    fill(home.logs.create(TopicPartition("orders", 0), TOPIC_ID, CONFIG))
    home.close()
    return path


@dataclass(frozen=True)
class Course:
    """An undisturbed pass over a log: its views, and the log at its end."""

    views: tuple[View, ...]
    records: list[Record]
    checkpoint: str

    @classmethod
    def follow(cls, folder: Path) -> Self:
        """Make such a pass."""
        home = Home(folder)
        views = [View.of(home.log)]

        def look() -> None:
            view = View.of(home.log)
            if view != views[-1]:
                views.append(view)

        home.on_check = look
        home.make_pass()
        look()
        course = cls(tuple(views), read_all(home.log), home.checkpoint())
        home.close()
        return course

    def check_start(self, home: Home, *, knows_aborted: bool) -> int:
        """Check a folder that was just opened; return which of the views it shows.

        A checkpoint comes after all segments. A scan tells aborted transactions from their data,
        which may be gone: then they are not known.
        """
        check_log(home.log)
        check_folder(home.log)
        view = View.of(home.log)
        number = [each.data for each in self.views].index(view.data)
        assert view.producers == self.views[number].producers
        if knows_aborted:
            assert view.aborted == self.views[number].aborted
        assert home.checkpoint() in {"", self.checkpoint}
        assert number == len(self.views) - 1 or not home.checkpoint()
        return number

    def check_end(self, home: Home) -> None:
        """Check that all has become as if nothing had happened, by verify of the files too."""
        check_log(home.log)
        assert home.log.has_unfinished_swap is False
        assert read_all(home.log) == self.records
        assert View.of(home.log).producers == self.views[0].producers
        assert home.checkpoint() == self.checkpoint
        path, end_offset = home.log.path, home.manager.snapshot(home.log).checkpoint
        home.close()
        names = {each.name for each in path.iterdir()}
        assert not [name for name in names if name.endswith((".cleaned", ".swap"))]
        assert verify_partition(path, end_offset, read_history(path.parent)).faults == []


def test_the_pass_is_what_these_tests_need(template: Path) -> None:
    """Two swaps, of which the first merges three segments; an aborted transaction stays."""
    course = Course.follow(template)

    assert len(course.views) == 3
    assert course.views[-1].aborted
    assert course.checkpoint == "0\n1\norders 0 12\n"
    (event,) = [each for each in read_history(template / "data-0") if each["event"] == "pass"]
    assert [len(group["inputs"]) for group in event["receipt"]["groups"]] == [3, 2]


@pytest.mark.parametrize("scans", [False, True], ids=["flushed", "scanned"])
@pytest.mark.parametrize("is_torn", [False, True], ids=["whole", "torn"])
def test_kill_at_every_change(
    memory_path: Path, template: Path, dying_passes: DyingPasses, is_torn: bool, scans: bool
) -> None:
    """The next start finds each group as it was or as it became; the next pass ends as the first.

    Torn: the change is half made if it is a write, and every other change is left out.
    """
    course = Course.follow(copy(template, memory_path / "course"))
    seen: set[int] = set()
    killed: Counter[str] = Counter()
    for number in itertools.count():
        folder = copy(template, memory_path / "killed")
        call = dying_passes.make(folder, number, is_torn=is_torn)
        killed[call] += 1
        if not is_torn or call in {"pwrite", "done"}:
            if scans:
                (folder / "data-0" / "recovery-point-offset-checkpoint").unlink()
            home = Home(folder)
            seen.add(course.check_start(home, knows_aborted=not scans))
            home.make_pass()
            course.check_end(home)
        shutil.rmtree(folder)
        if call == "done":
            break

    assert set(killed) == KINDS | {"done"}
    assert killed["rename"] > 30
    assert seen == set(range(len(course.views)))


@pytest.mark.parametrize("times", [1, 3, ALWAYS], ids=["once", "thrice", "for long"])
@pytest.mark.parametrize("error", [errno.ENOSPC, errno.EIO], ids=["ENOSPC", "EIO"])
def test_disk_fails_at_every_change(
    memory_path: Path, template: Path, disk: Disk, error: int, times: int
) -> None:
    """The log goes on serving; when the disk works again the cleaner comes to its end by itself."""
    course = Course.follow(copy(template, memory_path / "course"))
    failures = 0
    for number in itertools.count():
        folder = copy(template, memory_path / "failed")
        home = Home(folder)
        fault = FailingChanges(number, times, error)
        disk.faults.append(fault)  # type: ignore[arg-type]
        home.make_pass()
        failure = home.manager.failure(home.log.topic_partition)
        assert View.of(home.log) in course.views
        assert home.log.directory.refusal is None
        disk.mend()

        home.clock.advance(PAUSE_MS)
        home.make_pass()
        home.clock.advance(PAUSE_MS)
        home.make_pass()
        assert home.manager.failure(home.log.topic_partition) is None
        check_events(folder / "data-0", failure)
        course.check_end(home)
        shutil.rmtree(folder)
        failures += failure is not None
        if fault.seen <= number:
            break

    assert failures > 30


@dataclass
class FailingChanges:
    """Stands in the list of a `faults.Disk`: changes fail from the Nth on, ``times`` of them."""

    number: int
    times: int
    error: int
    seen: int = 0
    short: bool = False
    seconds: float = 0.0

    def strikes(self, call: str, path: str) -> bool:
        """Count a change, and tell whether it fails."""
        if call not in CHANGES:
            return False
        self.seen += 1
        return self.number < self.seen <= self.number + self.times


def check_events(directory: Path, failure: Failure | None) -> None:
    """The history has every pass that ended, once the disk takes lines, and how the last did."""
    events = [each for each in read_history(directory) if each["event"] == "pass"]
    if failure is not None:
        assert events[-1]["outcome"] == "cleaned"
    assert len([each for each in events if each["outcome"] == "cleaned"]) <= 1


def copy(template: Path, folder: Path) -> Path:
    """Copy the template."""
    shutil.copytree(template, folder)
    return folder

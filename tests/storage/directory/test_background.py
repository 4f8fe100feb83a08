"""The housekeeping thread and the deletions that wait for it."""

import os
import threading
from functools import partial
from pathlib import Path

import pytest

from siltstone.protocol.errors import KafkaStorageError
from siltstone.storage import files
from siltstone.storage.directory.background import Background
from siltstone.storage.directory.deletion import DelayedDeletions
from siltstone.storage.segment.open_file import SegmentFile
from tests.support.clock import FakeClock


def test_work_is_done_in_order_by_one_thread() -> None:
    """Work is done in the order in which it was submitted, on the thread that has the name."""
    background = Background()
    seen: list[tuple[int, str]] = []

    def note(number: int) -> None:
        seen.append((number, threading.current_thread().name))

    background.start()
    for number in range(3):
        background.submit("test", partial(note, number))

    background.drain()

    assert seen == [(0, "housekeeping"), (1, "housekeeping"), (2, "housekeeping")]
    assert background.alive
    assert background.close()
    assert not background.alive
    assert background.error is None


def test_close_works_off_what_waits() -> None:
    """Nothing that was submitted before the stop is dropped, and closing twice is fine."""
    background = Background()
    seen: list[int] = []
    background.start()
    for number in range(100):
        background.submit("test", partial(seen.append, number))

    assert background.close()
    assert background.close()
    assert seen == list(range(100))


def test_a_failure_is_logged_once_and_counted(caplog: pytest.LogCaptureFixture) -> None:
    """One traceback for each kind of work; the thread goes on."""
    background = Background()

    def fail() -> None:
        raise ValueError("broken")

    for _ in range(3):
        background.submit("flush", fail)
    background.close()

    assert background.failures == 3
    assert [record.message for record in caplog.records] == [
        "background work failed; further failures of its kind are only counted work='flush'"
    ]


def test_an_offline_directory_is_only_counted(caplog: pytest.LogCaptureFixture) -> None:
    """The directory has said already that it is offline."""
    background = Background()

    def fail() -> None:
        raise KafkaStorageError

    background.submit("flush", fail)
    background.close()

    assert background.failures == 1
    assert not caplog.records


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_a_dead_thread_is_visible() -> None:
    """Readiness sees that the thread ended, and why; draining does not wait for ever."""
    background = Background()

    def end() -> None:
        raise SystemExit("end")

    background.start()
    background.submit("test", end)
    background.drain()

    assert not background.alive
    assert isinstance(background.error, SystemExit)


def test_deletions_wait_for_their_time() -> None:
    """Each runs once when it is due, the earliest first."""
    clock = FakeClock()
    background = Background()
    deletions = DelayedDeletions(clock, background)
    seen: list[str] = []
    deletions.schedule(200, lambda: seen.append("late"))
    deletions.schedule(100, lambda: seen.append("early"))
    deletions.schedule(100, lambda: seen.append("second"))

    counts = []
    for _ in range(3):
        counts.append(deletions.run_due())
        clock.advance(100)
    background.close()

    assert counts == [0, 2, 1]
    assert seen == ["early", "second", "late"]
    assert deletions.pending == 0


def test_write_back_takes_an_open_file(disk_path: Path) -> None:
    """The kernel takes the hint for a file on a real file system."""
    path = disk_path / "file"
    path.write_bytes(b"x" * 8192)

    assert files.start_write_back(SegmentFile(os.open(path, os.O_RDWR)), 0, 8192) in {True, False}

"""Passes in a process of their own, where the kernels are not compiled."""

import os
import resource
import signal
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest

from siltstone.cleaner.errors import CleaningAborted, CorruptSegment
from siltstone.cleaner.history.history import read_history
from siltstone.cleaner.selection import find_cleanable
from siltstone.cleaner.states import State
from siltstone.cleaner.threads.helper_messages import Failed
from siltstone.cleaner.threads.helper_process import HelperProcess
from siltstone.storage import files
from tests.support.appending import append_unchecked
from tests.support.cleaner import CleanerHome, aborted, read_all
from tests.support.logs import flipped


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[CleanerHome]:
    """A cleaner thread with a helper process whose kernels are plain Python."""
    monkeypatch.setenv("SILTSTONE_KERNELS", "off")
    home = CleanerHome(tmp_path)
    worker = HelperProcess(home.settings, home.clock, home.throttle)
    home.rooms = home.make_rooms(lambda _: worker)
    home.pool.rooms = home.rooms
    home.thread = home.make_thread()
    yield home
    worker.close()
    home.close()


def worker_of(home: CleanerHome) -> HelperProcess:
    """Return the worker of a home."""
    worker = home.rooms.make_worker(home.settings)
    assert isinstance(worker, HelperProcess)
    return worker


def last_event(home: CleanerHome) -> dict[str, Any]:
    """Return what the history says last."""
    return list(read_history(home.paths[0]))[-1]


def test_pass_is_the_same(home: CleanerHome) -> None:
    """Map, copy and swap, throttled here and checkpointed, with a process that goes on."""
    for topic in ("one", "two"):
        log = home.create(topic)
        home.fill(log, 3)
        append_unchecked(log, [(b"k1", None)])
        log.roll()
        home.settle()

        assert home.thread.step()

        assert last_event(home)["outcome"] == "cleaned"
        assert [record.offset for record in read_all(log)] == [20, *range(22, 30), 30]
        assert not list(log.path.glob(f"*{files.CLEANED}"))
    assert home.checkpoint() == "0\n2\none 0 31\ntwo 0 31\n"
    assert home.throttle.total_bytes > 0
    assert home.thread.progress is None


def test_cleaned_log_opens_again(home: CleanerHome) -> None:
    """The new segments are those that a start finds."""
    log = home.create()
    home.fill(log, 3)
    home.thread.step()
    before = read_all(log)

    home.restart()

    assert read_all(home.logs.logs[log.topic_partition]) == before


def test_dry_run_predicts(home: CleanerHome) -> None:
    """And the pass keeps to it."""
    log = home.create()
    home.fill(log, 3)
    cleanable = find_cleanable(home.manager.snapshot(log), home.clock.now_ms())

    prediction = home.pool.dry_run(log, cleanable)

    assert prediction is not None
    assert prediction.result.records_written == 10
    home.pool.rooms.make_worker(home.settings)
    home.thread.step()
    assert last_event(home)["prediction_held"] is True


def test_abort_kills_the_process(home: CleanerHome) -> None:
    """Its unfinished files go, the log is as it was, and the next pass has another process."""
    log = home.create()
    home.fill(log, 3)
    checks = []
    with ExitStack() as stack:

        def abort_at_the_third() -> None:
            checks.append(1)
            if len(checks) == 3:
                stack.enter_context(aborted(home.manager.states, log.topic_partition))

        home.on_check = abort_at_the_third

        assert home.thread.step()

    assert last_event(home)["outcome"] == "aborted"
    assert worker_of(home).process is None
    assert not list(log.path.glob(f"*{files.CLEANED}"))
    assert len(read_all(log)) == 30
    assert home.manager.states.get(log.topic_partition) is State.NONE
    assert home.thread.step()
    assert len(read_all(log)) == 10


def test_descriptors_may_have_large_numbers(home: CleanerHome) -> None:
    """A broker of many partitions and clients has the numbers below 1,024 in use."""
    log = home.create()
    home.fill(log, 3)

    with descriptors_taken(1024):
        assert home.thread.step()

    assert len(read_all(log)) == 10


def test_damage_is_told_as_it_is(home: CleanerHome) -> None:
    """File, position and offset come over from the process."""
    log = home.create()
    home.fill(log, 3)

    with flipped(log.segments[1].log_path, 70):
        home.thread.step()

    failure = home.manager.failure(log.topic_partition)
    assert failure is not None
    assert failure.cause == "CorruptSegment"
    assert "00000000000000000010.log" in failure.reason


def test_swap_that_fails_is_told_to_both(
    home: CleanerHome, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The process clears up, and the thread sets the partition aside."""
    log = home.create()
    home.fill(log, 3)

    def refuse(*_: object) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr("siltstone.storage.segment.swap.SegmentSwap.begin", refuse)
        home.thread.step()

    failure = home.manager.failure(log.topic_partition)
    assert failure is not None
    assert (failure.cause, failure.reason) == ("OSError", "[Errno 28] No space left on device")
    assert not list(log.path.glob(f"*{files.CLEANED}"))
    assert len(read_all(log)) == 30


def test_process_that_dies_is_a_failure(home: CleanerHome) -> None:
    """The next pass starts another."""
    log = home.create()
    home.fill(log, 3)

    def kill() -> None:
        process = worker_of(home).process
        if process is not None:
            process.send_signal(signal.SIGKILL)

    home.on_check = kill
    home.thread.step()

    assert last_event(home)["outcome"] == "failed"
    assert not list(log.path.glob(f"*{files.CLEANED}"))
    home.on_check = lambda: None
    home.manager.take_back(log.topic_partition)
    assert home.thread.step()
    assert len(read_all(log)) == 10


@pytest.mark.parametrize(
    "error",
    [
        CorruptSegment(Path("00.log"), 61, 7, "wrong CRC"),
        CleaningAborted("enough"),
        FileNotFoundError(2, "No such file", "00.log"),
    ],
)
def test_exceptions_travel(error: Exception) -> None:
    """What the other process raised is raised here, of the same kind and with the same words."""
    again = Failed.of(error).error()

    assert (type(again), str(again)) == (type(error), str(error))


def test_exception_without_a_form_travels_as_text() -> None:
    """Whatever it was, its name and words arrive."""
    assert str(Failed.of(ZeroDivisionError("by zero")).error()) == "ZeroDivisionError: by zero"


@contextmanager
def descriptors_taken(count: int) -> Iterator[None]:
    """Take all descriptors below a number."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = count + 1000
    if soft != resource.RLIM_INFINITY and soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
    taken = [os.open(os.devnull, os.O_RDONLY)]
    try:
        while taken[-1] < count:
            taken.append(os.dup(taken[0]))
        yield
    finally:
        for descriptor in taken:
            os.close(descriptor)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))

"""The cleaner threads: as many as the settings say, gone within a second, replaced when dead."""

import errno
import os
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from siltstone.cleaner.errors import CleaningAborted
from siltstone.cleaner.one_pass.log_to_clean import LogToClean
from siltstone.cleaner.selection import find_cleanable
from siltstone.cleaner.settings import CleanerSettings
from siltstone.cleaner.states import State
from siltstone.cleaner.threads import pool as pool_module
from siltstone.cleaner.threads.pool import CleanerPool
from siltstone.storage.threads import LONG_NS
from tests.support.cleaner import CleanerHome, read_all
from tests.support.time_slices import slice_of
from tests.support.waiting import PATIENCE, equals, wait_until


@pytest.fixture
def home(tmp_path: Path) -> Iterator[CleanerHome]:
    """A pool that the test starts; idle threads sleep for ever."""
    home = CleanerHome(tmp_path)
    home.settings = home.settings_with(backoff_seconds=3600.0)
    yield home
    assert home.pool.stop()
    home.close()


def started(home: CleanerHome, threads: int, worker: Any = None) -> CleanerPool:
    """Return a running pool."""
    services = home.make_services(lambda _: worker) if worker else home.services
    home.pool = CleanerPool(services, home.throttle, home.settings_with(threads=threads))
    home.pool.start()
    return home.pool


class Endless:
    """A worker whose pass ends only when it is not wanted any more."""

    progress = None

    def __init__(self) -> None:
        self.began = threading.Event()

    def clean(self, _log: LogToClean, _replace: object, still_wanted: Callable[[], None]) -> Any:
        """Ask again and again."""
        self.began.set()
        while True:
            still_wanted()

    def close(self) -> None:
        """Nothing is held."""


def test_threads_clean_what_there_is(home: CleanerHome) -> None:
    """Every log that needs it, then they sleep."""
    logs = [home.create(f"t{number}") for number in range(4)]
    for log in logs:
        home.fill(log, 3)

    started(home, 2)

    wait_until(lambda: home.services.figures.passes, "pass 4", equals(4))
    assert {len(read_all(log)) for log in logs} == {10}


def test_idle_thread_is_woken(home: CleanerHome) -> None:
    """A request need not wait for the backoff to pass."""
    pool = started(home, 1)
    log = home.create()
    home.fill(log, 3)
    home.manager.request(log.topic_partition)

    pool.wake()

    wait_until(lambda: home.services.figures.passes, "pass 1", equals(1))


def test_stop_ends_a_pass(home: CleanerHome) -> None:
    """However long it would have taken; the log is free and as it was."""
    worker = Endless()
    log = home.create()
    home.fill(log, 3)
    pool = started(home, 1, worker)
    assert worker.began.wait(PATIENCE)

    assert pool.stop(timeout=PATIENCE)

    assert home.manager.states.get(log.topic_partition) is State.NONE
    assert len(read_all(log)) == 30


def test_stop_without_a_start(home: CleanerHome) -> None:
    """A broker that did not get so far stops all the same, twice even."""
    assert home.pool.stop()
    assert home.pool.stop()


def test_deletion_does_not_wait_for_the_end_of_a_pass(home: CleanerHome) -> None:
    """A deletion of a topic aborts the pass and has the partition for itself."""
    worker = Endless()
    log = home.create()
    home.fill(log, 3)
    started(home, 1, worker)
    assert worker.began.wait(PATIENCE)

    home.manager.states.abort_and_pause(log.topic_partition)

    assert home.manager.states.get(log.topic_partition) is State.PAUSED
    home.logs.delete(log.topic_partition)
    home.pool.forget(log.topic_partition)


def test_cleaning_steps_back_for_serving(home: CleanerHome) -> None:
    """A cleaner thread has a lower priority than the loop, which keeps its own."""
    worker = Endless()
    home.fill(home.create(), 2)
    before = os.getpriority(os.PRIO_PROCESS, 0)

    pool = started(home, 1, worker)

    assert worker.began.wait(PATIENCE)
    of_cleaner = os.getpriority(os.PRIO_PROCESS, pool.threads[0].native_id)
    assert os.getpriority(os.PRIO_PROCESS, 0) == before
    assert of_cleaner == min(before + 10, 19)


def test_whoever_wakes_need_not_wait_for_the_end_of_a_cleaners_turn(home: CleanerHome) -> None:
    """A cleaner thread asks for longer turns than the loop has, which lets the loop in at once."""
    worker = Endless()
    home.fill(home.create(), 2)
    before = slice_of()

    pool = started(home, 1, worker)

    assert worker.began.wait(PATIENCE)
    assert slice_of(pool.threads[0].native_id) == LONG_NS
    assert slice_of() == before != LONG_NS


def test_pool_grows_and_shrinks(home: CleanerHome) -> None:
    """At once, and surplus threads end even within a pass."""
    worker = Endless()
    for number in range(3):
        home.fill(home.create(f"t{number}"), 2)
    pool = started(home, 1, worker)

    pool.reconfigure(home.settings_with(threads=3))
    wait_until(
        lambda: sum(each.working_on is not None for each in pool.threads),
        "three threads at work",
        equals(3),
    )
    threads = pool.threads
    pool.reconfigure(home.settings_with(threads=1))

    assert [each.name for each in pool.threads] == ["cleaner-0"]
    assert all(each.join(PATIENCE) for each in threads[1:])
    assert threads[0].is_alive
    assert pool.dead_threads == []


def test_no_thread_runs_where_none_is_set(home: CleanerHome) -> None:
    """With `log.cleaner.enable=false` nothing is cleaned, until the setting says otherwise."""
    log = home.create()
    home.fill(log, 3)
    pool = started(home, 0)
    assert pool.threads == []

    pool.reconfigure(home.settings_with(threads=1))

    wait_until(lambda: home.services.figures.passes, "pass 1", equals(1))


def test_changed_settings_count_from_the_next_pass(home: CleanerHome) -> None:
    """The rate at once."""
    pool = started(home, 1)
    changed = home.settings_with(threads=1, bytes_per_second=1e6, io_buffer_bytes=4096)

    pool.reconfigure(changed)

    assert pool.throttle.rate == 1e6
    assert [each.settings for each in pool.threads] == [changed]


def test_dead_thread_is_counted_and_replaced(
    home: CleanerHome, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Apache Kafka leaves it dead. The log it died of is free again."""
    monkeypatch.setattr(pool_module, "RESTART_SECONDS", 0.0)
    monkeypatch.setattr(threading, "excepthook", lambda _: None)
    grab = home.manager.grab_filthiest
    calls = []

    def fail_once() -> Any:
        calls.append(1)
        if len(calls) == 1:
            raise MemoryError("no room for a list")
        return grab()

    monkeypatch.setattr(home.manager, "grab_filthiest", fail_once)
    log = home.create()
    home.fill(log, 3)

    pool = started(home, 1)

    wait_until(lambda: home.services.figures.passes, "pass 1", equals(1))
    assert pool.died == 1
    assert pool.dead_threads == []
    assert "cleaner thread died thread=cleaner-0" in caplog.text


def test_aborted_dry_run_frees_the_log(home: CleanerHome) -> None:
    """It is no pass, but it ends as one does when other work needs the partition."""

    class Unwanted(Endless):
        def dry_run(self, _log: LogToClean, still_wanted: Callable[[], None]) -> Any:
            home.pool.stop()
            still_wanted()

    log = home.create()
    home.fill(log, 3)
    pool = started(home, 0, Unwanted())
    grabbed = home.manager.grab_filthiest()
    assert grabbed is not None
    home.manager.release(log)

    with pytest.raises(CleaningAborted):
        pool.dry_run(log, grabbed.cleanable)

    assert home.manager.states.get(log.topic_partition) is State.NONE


def test_dry_run_without_a_cleaner_frees_the_log(home: CleanerHome) -> None:
    """The first one loads the code of a pass, which needs a descriptor."""

    def refuse(_settings: CleanerSettings) -> Any:
        raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))

    log = home.create()
    home.fill(log, 3)
    cleanable = find_cleanable(home.manager.snapshot(log), home.clock.now_ms())
    home.pool = CleanerPool(home.make_services(refuse), home.throttle, home.settings)

    with pytest.raises(OSError, match="Too many open files"):
        home.pool.dry_run(log, cleanable)

    assert home.manager.states.get(log.topic_partition) is State.NONE

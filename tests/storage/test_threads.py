"""Threads: other ones can take their place, and turns can be made longer, for one alone."""

import os
import threading
from collections.abc import Callable

import pytest

from siltstone.storage import threads
from siltstone.storage.directory.background import Background
from siltstone.storage.threads import LONG_NS, SHORT_NS, ask_for_slice
from tests.support.time_slices import slice_of


def in_thread(work: Callable[[], object]) -> None:
    """Do something in a thread that ends with it."""
    thread = threading.Thread(target=work)
    thread.start()
    thread.join()


def test_turns_are_as_long_as_asked_for() -> None:
    """The kernel has it; other threads and the priority are as they were."""
    before = slice_of()
    seen: list[object] = []

    def ask() -> None:
        os.nice(3)
        seen.extend((ask_for_slice(LONG_NS), slice_of(), os.getpriority(os.PRIO_PROCESS, 0)))

    nice = os.getpriority(os.PRIO_PROCESS, 0)
    in_thread(ask)

    assert seen == [True, LONG_NS, min(nice + 3, 19)]
    assert slice_of() == before


def test_turns_of_another_thread() -> None:
    """A thread is named by its number, as the kernel has it; the one that asks keeps its own."""
    before = slice_of()
    has_begun, may_end = threading.Event(), threading.Event()

    def wait() -> None:
        has_begun.set()
        may_end.wait(30)

    thread = threading.Thread(target=wait)
    thread.start()
    assert has_begun.wait(30)
    assert thread.native_id
    taken = ask_for_slice(SHORT_NS, thread.native_id)
    found = slice_of(thread.native_id)
    may_end.set()
    thread.join()

    assert (taken, found) == (True, SHORT_NS)
    assert slice_of() == before


def test_another_policy_is_left_alone() -> None:
    """An operator has the process run as a batch, and that counts."""
    seen: list[object] = []

    def ask() -> None:
        os.sched_setscheduler(0, os.SCHED_BATCH, os.sched_param(0))
        seen.extend((ask_for_slice(LONG_NS), os.sched_getscheduler(0)))

    in_thread(ask)

    assert seen == [False, os.SCHED_BATCH]


def test_a_simulator_decides_when_a_thread_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    """Other modules get the names that it sets, and no thread of the system is started."""
    begun: list[Callable[[], object]] = []

    class Simulated:
        ident = 1

        def __init__(self, run: Callable[[], object]) -> None:
            self.start = lambda: begun.append(run)

        def is_alive(self) -> bool:
            return True

    def new_thread(_name: str, run: Callable[[], object]) -> Simulated:
        return Simulated(run)

    monkeypatch.setattr(threads, "new_thread", new_thread)
    before = threading.active_count()
    background = Background()
    done: list[str] = []
    background.submit("work", lambda: done.append("work"))
    background.start()
    background._queue.put(None)
    assert (done, threading.active_count()) == ([], before)

    (run,) = begun
    run()
    assert done == ["work"]

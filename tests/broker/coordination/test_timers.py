"""Timers: one heap, deadlines that move without touching it."""

from collections.abc import Callable
from sys import getrefcount
from weakref import ref

import pytest

from siltstone.broker.coordination.timers import Timer, Timers
from tests.support.clock import FakeClock


def make() -> tuple[FakeClock, Timers, list[str]]:
    """Return a clock, timers on it, and a list for what has fired."""
    clock = FakeClock()
    return clock, Timers(clock), []


def fire(fired: list[str], name: str = "a") -> Callable[[], None]:
    """Return what notes in a list that it was done."""
    return lambda: fired.append(name)


def test_it_fires_once_at_its_time() -> None:
    """Not before, and not again."""
    clock, timers, fired = make()
    Timer(timers).start(100, fire(fired))

    seen = []
    for _ in range(4):
        clock.advance(50)
        timers.run_due()
        seen.append(len(fired))

    assert seen == [0, 1, 1, 1]


def test_a_later_deadline_costs_no_entry() -> None:
    """A thousand heartbeats leave one entry on the heap, and the last of them counts."""
    clock, timers, fired = make()
    timer = Timer(timers)

    for _ in range(1000):
        if timer.is_running:
            timer.move(100)
        else:
            timer.start(100, fire(fired))
        clock.advance(1)

    assert len(timers.heap) == 1
    clock.advance(98)
    timers.run_due()
    assert fired == []
    clock.advance(2)
    timers.run_due()
    assert fired == ["a"]


def test_an_earlier_deadline_counts() -> None:
    """The old entry does nothing when it is reached."""
    clock, timers, fired = make()
    timer = Timer(timers)
    timer.start(1000, fire(fired))
    timer.start(10, fire(fired))
    clock.advance(10)
    timers.run_due()

    assert fired == ["a"]
    clock.advance(1000)
    timers.run_due()
    assert fired == ["a"]
    assert not timers.heap


def test_what_is_cancelled_does_not_fire() -> None:
    """Unless it is started again."""
    clock, timers, fired = make()
    timer = Timer(timers)
    timer.start(10, fire(fired))
    timer.cancel()
    clock.advance(20)
    timers.run_due()

    assert not fired
    assert not timer.is_running
    timer.start(5, fire(fired))
    assert timer.is_running
    clock.advance(5)
    timers.run_due()
    assert fired == ["a"]


def test_whoever_drives_is_told_of_earlier_deadlines_alone() -> None:
    """One loop timer is enough for all."""
    clock, timers, _ = make()
    told: list[float] = []
    timers.on_earlier = told.append
    start = timers.now_ms()
    for after in (100, 200, 50, 70):
        Timer(timers).start(after, lambda: None)

    assert [when - start for when in told] == [100, 50]
    assert timers.next_ms == start + 50
    clock.advance(0)


def test_those_due_fire_in_order_and_some_at_a_time() -> None:
    """The loop can be given back between them."""
    clock, timers, fired = make()
    for name, after in (("c", 30), ("a", 10), ("b", 20)):
        Timer(timers).start(after, fire(fired, name))
    clock.advance(30)
    timers.run_due(2)

    assert fired == ["a", "b"]
    timers.run_due()
    assert fired == ["a", "b", "c"]


def test_what_was_cancelled_does_not_pile_up() -> None:
    """Ten thousand members come and go within the five minutes that a first join may take."""
    clock, timers, fired = make()
    Timer(timers).start(300_000, fire(fired, "keeper"))
    for _ in range(10_000):
        timer = Timer(timers)
        timer.start(300_000, fire(fired, "gone"))
        timer.start(10_000, fire(fired, "gone"))
        timer.cancel()

    assert len(timers.heap) < 1000
    assert timers.running_count == 1
    clock.advance(300_000)
    timers.run_due()
    assert fired == ["keeper"]
    assert timers.running_count == 0
    timer.start(5, fire(fired, "gone"))
    clock.advance(5)
    timers.run_due()
    assert fired == ["keeper", "gone"]


@pytest.mark.parametrize("is_fired", [True, False], ids=["fired", "cancelled"])
def test_what_is_over_keeps_nothing(is_fired: bool) -> None:
    """Neither the timer nor the heap holds what was to be done, nor the heap the timer."""
    clock, timers, fired = make()
    action = fire(fired)
    timer = Timer(timers)
    held = ref(action), getrefcount(timer)
    timer.start(10, action)
    timer.move(5)
    if is_fired:
        clock.advance(5)
        timers.run_due()
    else:
        timer.cancel()
    del action

    assert held == (held[0], getrefcount(timer))
    assert held[0]() is None

"""Bytes per second over all threads, with a clock that waiting moves."""

import math

import pytest

from siltstone.cleaner.errors import CleaningAborted
from siltstone.cleaner.threads.throttle import BURST_SECONDS, SLICE_SECONDS, Throttle
from tests.support.clock import FakeClock


class Waiting:
    """A throttle whose waits move its clock and are written down."""

    def __init__(self, rate: float = math.inf) -> None:
        self.clock = FakeClock()
        self.waits: list[float] = []
        self.throttle = Throttle(self.clock, rate, self._wait)

    def add(self, count: int) -> float:
        """Account for bytes and return the seconds waited."""
        return self.throttle.add(count, lambda: None)

    def _wait(self, seconds: float) -> None:
        self.waits.append(seconds)
        self.clock.advance(seconds * 1000)


def test_no_rate_means_no_wait() -> None:
    """Without a limit bytes are counted and nothing else happens."""
    waiting = Waiting()

    assert waiting.add(1 << 40) == 0
    assert waiting.throttle.total_bytes == 1 << 40


def test_rate_holds_over_time() -> None:
    """Ten seconds' worth of bytes take ten seconds, a burst less."""
    waiting = Waiting(1000)
    began = waiting.clock.monotonic()

    for _ in range(100):
        waiting.add(100)

    took = waiting.clock.monotonic() - began
    assert took == pytest.approx(10 - BURST_SECONDS, abs=0.2) or took == pytest.approx(10, abs=0.2)
    assert waiting.throttle.slept_seconds == pytest.approx(took)


def test_idle_time_is_not_saved_up() -> None:
    """After a pause no more than a burst goes at once."""
    waiting = Waiting(1000)
    waiting.clock.advance(3_600_000)

    free = waiting.add(int(1000 * BURST_SECONDS))
    waited = waiting.add(1000)

    assert free == pytest.approx(0)
    assert waited == pytest.approx(1)


def test_two_share_one_rate() -> None:
    """One thread waits for what another one books."""
    waiting = Waiting(1000)
    waiting.add(1000)
    before = waiting.clock.monotonic()

    waiting.throttle.set_rate(500)
    waiting.add(1000)

    assert waiting.clock.monotonic() - before == pytest.approx(2)


def test_waits_are_cut_so_that_a_stop_is_heard() -> None:
    """still_wanted is asked every 200 ms and ends the wait."""
    waiting = Waiting(1)
    asked = 0

    def still_wanted() -> None:
        nonlocal asked
        asked += 1
        if asked == 4:
            raise CleaningAborted

    with pytest.raises(CleaningAborted):
        waiting.throttle.add(1000, still_wanted)

    assert waiting.waits == [SLICE_SECONDS] * 3
    assert waiting.throttle.slept_seconds == pytest.approx(3 * SLICE_SECONDS)


def test_another_rate_ends_waits() -> None:
    """A thread that waits for the old rate goes on when it is changed."""
    waiting = Waiting(1)

    waited = waiting.throttle.add(1000, lambda: waiting.throttle.set_rate(math.inf))

    assert waited <= 2 * SLICE_SECONDS

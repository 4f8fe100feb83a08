"""The time as a value that is handed in, so that tests can set it; and the processor's time."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from datetime import datetime

perf_counter = time.perf_counter
"""Seconds that never go back, as fine as the system has them: how long work has taken."""
thread_seconds = time.thread_time
"""Seconds that the present thread has had a processor."""


def utc_now() -> datetime:
    """Return the system's date and time, for certificates: no test clock moves it."""
    from datetime import UTC, datetime  # noqa: PLC0415  # the first ack needs neither

    return datetime.now(UTC)


def give_way() -> None:
    """Let another thread run, if one is ready."""
    time.sleep(0)


class Clock:
    """The wall clock for records and the steady clock for waiting.

    No other module asks the system for the time; tests pass ``tests.support.clock.FakeClock``.
    """

    def now_ms(self) -> int:
        """Return milliseconds since the epoch, as records carry them."""
        return time.time_ns() // 1_000_000

    def monotonic(self) -> float:
        """Return seconds that never go back, for deadlines and durations."""
        return time.monotonic()


class ShiftedClock(Clock):
    """A clock that goes on from wherever it was moved to; for `siltstone serve --test-clock`."""

    def __init__(self) -> None:
        self.ahead_ms = 0
        self._steady_seconds = 0.0

    def now_ms(self) -> int:
        """Return the system's time and what was added to it."""
        return super().now_ms() + self.ahead_ms

    def monotonic(self) -> float:
        """Return the steady clock's time and what was added to it."""
        return super().monotonic() + self._steady_seconds

    def advance(self, milliseconds: int) -> None:
        """Let time pass on both clocks."""
        self.ahead_ms += milliseconds
        self._steady_seconds += milliseconds / 1000

    def put_back(self) -> None:
        """Have the wall clock show the system's time again; the steady one never goes back."""
        self.ahead_ms = 0

"""Time that tests decide."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from unittest.mock import patch

import pytest

from siltstone.storage import clock
from siltstone.storage.clock import Clock


class FakeClock(Clock):
    """A clock that stands still until the test moves it."""

    def __init__(self, now_ms: int = 1_700_000_000_000, monotonic: float = 1_000.0) -> None:
        self._now_ms = now_ms
        self._monotonic = monotonic

    def now_ms(self) -> int:
        """Return the time the test has set, in ms since the epoch."""
        return self._now_ms

    def monotonic(self) -> float:
        """Return seconds that grow with `advance` only."""
        return self._monotonic

    def advance(self, milliseconds: float) -> None:
        """Let time pass on both clocks."""
        self._now_ms += int(milliseconds)
        self._monotonic += milliseconds / 1000

    def set_now_ms(self, now_ms: int) -> None:
        """Move the wall clock alone, as an operator or NTP does."""
        self._now_ms = now_ms


def now() -> int:
    """Return a timestamp that every topic accepts."""
    return Clock().now_ms()


def set_seconds(monkeypatch: pytest.MonkeyPatch, read: Callable[[], float]) -> None:
    """Measure work by a clock of the test, also in compiled code; a `FakeClock` is not changed."""
    monkeypatch.setattr(clock.route, "through", _route(read))


@contextmanager
def seconds_by(read: Callable[[], float]) -> Iterator[None]:
    """Do what `set_seconds` does, for the time of the block."""
    with patch.object(clock.route, "through", _route(read)):
        yield


def _route(read: Callable[[], float]) -> SimpleNamespace:
    return SimpleNamespace(
        perf_counter=read, time_ns=time.time_ns, thread_time=time.thread_time, sleep=time.sleep
    )

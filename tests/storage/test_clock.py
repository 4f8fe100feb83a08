"""The clocks: that of the system, and one that a test moves ahead."""

from datetime import UTC, datetime
from types import SimpleNamespace

import pytest

from siltstone.storage import clock as seam
from siltstone.storage.clock import Clock, ShiftedClock


def test_an_object_answers_for_the_system(monkeypatch: pytest.MonkeyPatch) -> None:
    """Compiled code, too, has its time."""
    slept: list[float] = []
    monkeypatch.setattr(
        seam.route,
        "through",
        SimpleNamespace(
            time_ns=lambda: 1_700_000_000_000_000_000,
            perf_counter=lambda: 7.5,
            thread_time=lambda: 2.5,
            sleep=slept.append,
        ),
    )

    assert Clock().now_ms() == 1_700_000_000_000
    assert Clock().monotonic() == seam.perf_counter() == 7.5
    assert seam.thread_seconds() == 2.5
    assert seam.utc_now() == datetime.fromtimestamp(1_700_000_000, UTC)
    seam.give_way()
    assert slept == [0]


def test_a_moved_clock_goes_on_from_there() -> None:
    """Both of its clocks are ahead by what was added, and run as before."""
    system, clock = Clock(), ShiftedClock()
    before = clock.monotonic()

    clock.advance(90_000_000)

    assert clock.now_ms() >= system.now_ms() + 89_999_000
    assert clock.monotonic() >= before + 90_000


def test_only_the_wall_clock_is_put_back() -> None:
    """The steady one never goes back, or deadlines would be met twice."""
    clock = ShiftedClock()
    clock.advance(90_000_000)
    steady = clock.monotonic()

    clock.put_back()

    assert abs(clock.now_ms() - Clock().now_ms()) < 10_000
    assert clock.monotonic() >= steady

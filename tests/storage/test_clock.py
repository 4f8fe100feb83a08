"""The clocks: that of the system, and one that a test moves ahead."""

from siltstone.storage.clock import Clock, ShiftedClock


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

"""Time that tests decide."""

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
    """Return a timestamp that every topic takes."""
    return Clock().now_ms()

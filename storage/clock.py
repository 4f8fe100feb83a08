"""The time as a value that is handed in, so that tests can set it."""

import time


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

"""Bytes per second over all cleaner threads (Kafka: ``Throttler``).

Kafka checks the rate every 300 ms and sleeps while it holds the lock. Here each piece of work books
its time after the time of the others and waits without the lock, so that a thread that is asked to
stop notices the request while it waits.
"""

import math
from collections.abc import Callable
from typing import Final

from siltstone.storage import threads
from siltstone.storage.clock import Clock

BURST_SECONDS: Final = 0.3
"""How much may be read at once after a pause, in seconds of the rate: Kafka's check interval."""
SLICE_SECONDS: Final = 0.2
"""How long a wait is at most until it checks again whether the pass is still wanted."""


class Throttle:
    """One rate for all threads; ``bytes_per_second`` may change at any time.

    ``wait`` sleeps for a number of seconds. The pool passes the ``wait`` of an event, so a stop
    ends the sleep.
    """

    def __init__(
        self,
        clock: Clock,
        bytes_per_second: float = math.inf,
        wait: Callable[[float], object] | None = None,
    ) -> None:
        self._clock = clock
        self._wait = wait or threads.Event().wait
        self._lock = threads.Lock()
        self.rate = bytes_per_second  # guarded by: _lock
        self._booked = clock.monotonic()  # guarded by: _lock; the time up to which work is booked
        self._changes = 0  # guarded by: _lock
        self.total_bytes = 0  # guarded by: _lock; read by anyone (Kafka: cleaner-io)
        self.slept_seconds = 0.0  # likewise

    def set_rate(self, bytes_per_second: float) -> None:
        """Change the rate; threads that wait because of the old rate go on."""
        with self._lock:
            self.rate = bytes_per_second
            self._booked = self._clock.monotonic()
            self._changes += 1

    def add(self, count: int, still_wanted: Callable[[], None]) -> float:
        """Count bytes read or written, wait as the rate demands, and return the seconds waited.

        Raises:
            CleaningAborted: ``still_wanted`` raised it during the wait.
        """
        now = self._clock.monotonic()
        with self._lock:
            self.total_bytes += count
            if math.isinf(self.rate):
                return 0.0
            self._booked = max(self._booked, now - BURST_SECONDS) + count / self.rate
            until, changes = self._booked, self._changes
        began = now
        try:
            while now < until and changes == self._changes:
                still_wanted()
                self._wait(min(SLICE_SECONDS, until - now))
                now = self._clock.monotonic()
        finally:
            slept = now - began
            with self._lock:
                self.slept_seconds += slept
        return slept

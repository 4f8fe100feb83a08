"""The time as a value that is handed in, so that tests can set it; and the processor's time.

It is the seam of clocks: no other module asks the system for the time. Compiled code asks it
without a call of Python's.
"""

import time

from posix.time cimport CLOCK_MONOTONIC, CLOCK_REALTIME, clock_gettime, timespec

thread_seconds = time.thread_time
"""Seconds that the present thread has had a processor."""


cpdef double perf_counter() noexcept:
    """Return seconds that never go back, as fine as the system has them: how long work has taken."""
    cdef timespec now
    clock_gettime(CLOCK_MONOTONIC, &now)
    return now.tv_sec + now.tv_nsec * 1e-9


def utc_now():
    """Return the system's date and time, for certificates: no test clock moves it."""
    from datetime import UTC, datetime  # the first ack needs neither

    return datetime.now(UTC)


def give_way():
    """Let another thread run, if one is ready."""
    time.sleep(0)


cdef class Clock:
    """The wall clock for records and the steady clock for waiting.

    Tests pass ``tests.support.clock.FakeClock``.
    """

    cpdef long long now_ms(self) except? -1:
        """Return milliseconds since the epoch, as records carry them."""
        cdef timespec now
        clock_gettime(CLOCK_REALTIME, &now)
        return now.tv_sec * 1000 + now.tv_nsec // 1_000_000

    cpdef double monotonic(self) except? -1:
        """Return seconds that never go back, for deadlines and durations."""
        return perf_counter()


cdef class ShiftedClock(Clock):
    """A clock that goes on from wherever it was moved to; for `siltstone serve --test-clock`."""

    cdef readonly long long ahead_ms
    cdef double _steady_seconds

    cpdef long long now_ms(self) except? -1:
        """Return the system's time and what was added to it."""
        return Clock.now_ms(self) + self.ahead_ms

    cpdef double monotonic(self) except? -1:
        """Return the steady clock's time and what was added to it."""
        return Clock.monotonic(self) + self._steady_seconds

    def advance(self, long long milliseconds):
        """Let time pass on both clocks."""
        self.ahead_ms += milliseconds
        self._steady_seconds += milliseconds / 1000

    def put_back(self):
        """Have the wall clock show the system's time again; the steady one never goes back."""
        self.ahead_ms = 0

"""The clock, which functions get from their callers, so that tests can set the time.

This module is the seam of clocks: no other module asks the system for the time. Compiled code gets
the time without a call of Python. If ``route.through`` is set, its object answers instead: it has
the functions of the module ``time`` that are used here. A simulator sets it before it creates a
broker.
"""

import time
from typing import TYPE_CHECKING

from posix.time cimport CLOCK_MONOTONIC, CLOCK_REALTIME, clock_gettime, timespec

if TYPE_CHECKING:
    from datetime import datetime


cdef class Route:
    """The place where the time comes from: an object, or the system."""

    cdef public object through  # type: object | None


cdef Route _route = Route()
route = _route  # type: Final[Route]


cpdef double perf_counter() noexcept:
    """Return seconds that never go back, in the finest resolution, to measure work."""
    cdef timespec now
    if _route.through is not None:
        return _route.through.perf_counter()
    clock_gettime(CLOCK_MONOTONIC, &now)
    return now.tv_sec + now.tv_nsec * 1e-9


cdef long long _now_ns() except? -1:
    cdef timespec now
    if _route.through is not None:
        return _route.through.time_ns()
    clock_gettime(CLOCK_REALTIME, &now)
    return now.tv_sec * 1_000_000_000LL + now.tv_nsec


def thread_seconds() -> float:
    """Return the seconds for which the calling thread has had a processor."""
    return (_route.through or time).thread_time()


def utc_now() -> datetime:
    """Return the system's date and time, for certificates: no test clock changes it."""
    from datetime import UTC, datetime  # imported late: the first answers need neither

    return datetime.fromtimestamp(_now_ns() / 1e9, UTC)


def give_way():
    """Let another thread run, if one is ready."""
    (_route.through or time).sleep(0)


cdef class Clock:
    """The wall clock for records and the steady clock for waiting.

    Tests pass ``tests.support.clock.FakeClock``.
    """

    cpdef long long now_ms(self) except? -1:
        """Return milliseconds since the epoch, as records carry them."""
        return _now_ns() // 1_000_000

    cpdef double monotonic(self) except? -1:
        """Return seconds that never go back, for deadlines and durations."""
        return perf_counter()


cdef class ShiftedClock(Clock):
    """A clock that can be moved and runs on from there; for `siltstone serve --test-clock`."""

    cdef readonly long long ahead_ms
    cdef double _steady_seconds

    cpdef long long now_ms(self) except? -1:
        """Return the system's time plus the time that was added."""
        return Clock.now_ms(self) + self.ahead_ms

    cpdef double monotonic(self) except? -1:
        """Return the steady clock's time plus the time that was added."""
        return Clock.monotonic(self) + self._steady_seconds

    def advance(self, long long milliseconds):
        """Move both clocks forward."""
        self.ahead_ms += milliseconds
        self._steady_seconds += milliseconds / 1000

    def put_back(self):
        """Set the wall clock to the system's time again; the steady clock never goes back."""
        self.ahead_ms = 0

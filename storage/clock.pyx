"""The time as a value that is handed in, so that tests can set it; and the processor's time.

It is the seam of clocks: no other module asks the system for the time. Compiled code asks it
without a call of Python's. ``route.through`` leads each question to an object that has the
functions of the module ``time`` which are used here; a simulator sets it before it makes a broker.
"""

import time

from posix.time cimport CLOCK_MONOTONIC, CLOCK_REALTIME, clock_gettime, timespec


cdef class Route:
    """The way of the questions for the time: through an object, or straight to the system."""

    cdef public object through


cdef Route _route = Route()
route = _route


cpdef double perf_counter() noexcept:
    """Return seconds that never go back, as fine as the system has them: how long work has taken."""
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


def thread_seconds():
    """Return the seconds that the present thread has had a processor."""
    return (_route.through or time).thread_time()


def utc_now():
    """Return the system's date and time, for certificates: no test clock moves it."""
    from datetime import UTC, datetime  # the first ack needs neither

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

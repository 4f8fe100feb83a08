"""Counts durations in fixed buckets: dispatch observes one for each request."""

# Steps of 1, 2.5 and 5, from 50 us (a small produce) to 5 s (longer than a default long poll).
BOUNDS_SECONDS = (
    0.000_05, 0.000_1, 0.000_25, 0.000_5, 0.001, 0.002_5, 0.005, 0.01,
    0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0,
)
cdef tuple _BOUNDS = BOUNDS_SECONDS


cdef class Histogram:
    """Durations in fixed buckets; bucket ``i`` holds what is at most ``BOUNDS_SECONDS[i]``.

    The last bucket has no bound. Loop only.
    """

    def __init__(self):
        self.buckets = [0] * (len(_BOUNDS) + 1)

    cpdef observe(self, double seconds):
        """Count one duration."""
        cdef Py_ssize_t bucket = 0
        cdef double bound
        for bound in _BOUNDS:
            if seconds <= bound:
                break
            bucket += 1
        self.buckets[bucket] += 1
        self.seconds += seconds

    @property
    def count(self) -> int:
        """How many durations were observed."""
        return sum(self.buckets)

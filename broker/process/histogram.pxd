cdef class Histogram:
    cdef public list buckets  # type: list[int]
    cdef public double seconds

    cpdef observe(self, double seconds)

cdef class Histogram:
    cdef public list buckets
    cdef public double seconds

    cpdef observe(self, double seconds)

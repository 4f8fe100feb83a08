cpdef double perf_counter() noexcept


cdef class Clock:
    cpdef long long now_ms(self) except? -1
    cpdef double monotonic(self) except? -1

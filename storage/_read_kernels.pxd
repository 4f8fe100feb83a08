# C types of _read_kernels.py; the algorithm stands there alone.
cimport cython

@cython.final
cdef class LogReader:
    cdef public list _hints

    @cython.locals(end_offset="long long", segments=tuple, end_position="long long", hint=tuple, position="long long", limit="long long", next_offset="long long")
    cpdef read(self, tuple view, long long offset, long long max_bytes, long long upto, bint at_least_one)

    @cython.locals(segments=tuple)
    cpdef available_bytes(self, tuple view, long long offset, long long upto)

    cdef object _search(self, tuple view, long long offset)

cdef tuple _cut_at(object segment, long long limit, long long upto)

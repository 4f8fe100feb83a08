cimport cython
from cpython.pythread cimport PyThread_type_lock

@cython.final
cdef class LogLock:
    cdef PyThread_type_lock _lock

    cpdef int take(self) except -1
    cpdef int drop(self) except -1

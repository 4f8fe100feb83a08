# C types of _request_kernels.py; the algorithm stands there alone.
cimport cython
from protocol.core._format cimport Region, acquire, no_region, read_int32, release

@cython.locals(region=Region, size=int)
cpdef Py_ssize_t next_frame(object buffer, Py_ssize_t position, Py_ssize_t filled, long long limit) except -1

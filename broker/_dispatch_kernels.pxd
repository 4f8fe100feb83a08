# C types of _dispatch_kernels.py; the algorithm stands there alone.
cimport cython
from protocol._request_kernels cimport read_head

cdef class Histogram:
    cdef public list buckets
    cdef public double seconds

    @cython.locals(bucket=Py_ssize_t, bound=double)
    cpdef observe(self, double seconds)

@cython.final
cdef class Route:
    cdef public object api, handler, messages
    cdef public Histogram stats
    cdef public int first_flexible, highest, lowest
    cdef public bint is_raw

cdef class Gate:
    cdef public dict _routes
    cdef public object stats
    cdef public Py_ssize_t head

    @cython.locals(began=double, key=int, version=int, correlation_id=int, body=Py_ssize_t, route=Route)
    cpdef dispatch(self, object connection, object buffer, Py_ssize_t start, Py_ssize_t end)

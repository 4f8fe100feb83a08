# C types of _sending_kernels.py; the algorithm stands there alone.
cimport cython
from siltstone.broker.net.sending._native_sending cimport *
from siltstone.protocol.core._format cimport Numbers, acquire_numbers, no_numbers, release_numbers

ctypedef long long* Int64s

@cython.locals(rows=Numbers, rows_=Int64s)
cpdef serve(int epoll, int stop, int done, object table)

@cython.locals(socket=int, error=int)
cdef void _serve(int epoll, int stop, int done, Int64s rows) noexcept nogil

@cython.locals(asked="long long", sent="long long")
cdef int _send(int socket, Int64s rows, Py_ssize_t row) noexcept nogil

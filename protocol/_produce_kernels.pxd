# C types of _produce_kernels.py; the algorithm stands there alone.
cimport cython
from protocol.records._native cimport (
    Region,
    acquire,
    no_region,
    octets_of,
    read_int16,
    read_int32,
    release,
    text_of,
)

ctypedef const unsigned char* Octets

@cython.locals(region=Region)
cpdef find_single(object buffer, Py_ssize_t position, Py_ssize_t end, int version)

@cython.locals(name=Py_ssize_t, size=Py_ssize_t, at=Py_ssize_t, partition=int, length="long long", shift=int, byte="long long", stop=Py_ssize_t, acks=int)
cdef object _find_single(Octets data, Py_ssize_t position, Py_ssize_t end, int version)

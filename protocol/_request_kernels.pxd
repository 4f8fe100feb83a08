# C types of _request_kernels.py; the algorithm stands there alone.
cimport cython
from protocol.records._native cimport (
    Region,
    acquire,
    blank,
    inside,
    no_region,
    octets_of,
    put_octets,
    read_int16,
    read_int32,
    read_int64,
    release,
    sealed,
    text_of,
    write_int32,
    write_int64,
)

ctypedef const unsigned char* Octets

ctypedef unsigned char* Output

@cython.locals(region=Region, size=int)
cpdef Py_ssize_t next_frame(object buffer, Py_ssize_t position, Py_ssize_t filled, long long limit) except -1

@cython.locals(region=Region, data=Octets, key=int, version=int, correlation_id=int, size=Py_ssize_t, body=Py_ssize_t, is_whole=bint)
cpdef (int, int, int, Py_ssize_t) read_head(object buffer, Py_ssize_t start, Py_ssize_t end) except *

@cython.locals(region=Region)
cpdef find_single(object buffer, Py_ssize_t position, Py_ssize_t end, int version)

@cython.locals(name=Py_ssize_t, size=Py_ssize_t, at=Py_ssize_t, partition=int, length="long long", shift=int, byte="long long", stop=Py_ssize_t, acks=int)
cdef object _find_single(Octets data, Py_ssize_t position, Py_ssize_t end, int version)

@cython.locals(name=bytes, length=Py_ssize_t, is_name=bint, size=Py_ssize_t, data=Output, at=Py_ssize_t)
cpdef encode_single(int correlation_id, object topic, int partition, long long base_offset, long long log_append_time_ms, long long log_start_offset)

@cython.locals(region=Region)
cpdef find_single_fetch(object buffer, Py_ssize_t position, Py_ssize_t end, int version)

@cython.locals(head=Py_ssize_t, name=Py_ssize_t, size=Py_ssize_t, at=Py_ssize_t, stop=Py_ssize_t)
cdef object _find_single_fetch(Octets data, Py_ssize_t position, Py_ssize_t end, int version)

@cython.locals(name=bytes, length=Py_ssize_t, is_name=bint, counted=Py_ssize_t, rest="long long", whole=Py_ssize_t, data=Output, at=Py_ssize_t)
cpdef encode_single_fetch(int correlation_id, int session_id, object topic, int partition, long long high_watermark, long long last_stable_offset, long long log_start_offset, bint has_list, long long size)

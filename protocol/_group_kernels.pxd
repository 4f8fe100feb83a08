# C types of _group_kernels.py; the algorithm stands there alone.
cimport cython
from protocol.records._native cimport (
    Region,
    acquire,
    blank,
    inside,
    no_region,
    octets_of,
    put_octets,
    read_int32,
    read_int64,
    release,
    sealed,
    text_of,
    write_int16,
    write_int32,
    write_int64,
)

ctypedef const unsigned char* Octets

ctypedef unsigned char* Output

@cython.locals(region=Region)
cpdef find_commit(object buffer, Py_ssize_t position, Py_ssize_t end, int version)

@cython.locals(group_end=Py_ssize_t, member=Py_ssize_t, member_end=Py_ssize_t, instance_end=Py_ssize_t, topic=Py_ssize_t, topic_end=Py_ssize_t, metadata=Py_ssize_t, metadata_end=Py_ssize_t)
cdef object _find_commit(Octets data, Py_ssize_t position, Py_ssize_t end, int version)

@cython.locals(region=Region)
cpdef find_heartbeat(object buffer, Py_ssize_t position, Py_ssize_t end)

@cython.locals(group_end=Py_ssize_t, member=Py_ssize_t, member_end=Py_ssize_t, instance_end=Py_ssize_t)
cdef object _find_heartbeat(Octets data, Py_ssize_t position, Py_ssize_t end)

@cython.locals(size=int, stop=Py_ssize_t)
cdef Py_ssize_t _text_end(Octets data, Py_ssize_t position, Py_ssize_t end) noexcept nogil

@cython.locals(name=bytes, length=Py_ssize_t, is_name=bint, size=Py_ssize_t, data=Output, at=Py_ssize_t)
cpdef encode_commit(int correlation_id, object topic, int partition, int error_code)

@cython.locals(data=Output)
cpdef encode_heartbeat(int correlation_id, int error_code)

@cython.locals(group=bytes, name=bytes, output=Output, at=Py_ssize_t)
cpdef offset_key(str group_id, str topic, int partition)

@cython.locals(text=bytes, output=Output, at=Py_ssize_t)
cpdef offset_value(long long offset, int leader_epoch, str metadata, long long timestamp)

# C types of _group_kernels.py; the algorithm stands there alone.
cimport cython
from protocol.records._native cimport (
    Region,
    acquire,
    blank,
    inside,
    no_region,
    put_octets,
    read_int16,
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

@cython.locals(group=bytes, name=bytes, output=Output, at=Py_ssize_t)
cpdef offset_key(str group_id, str topic, int partition)

@cython.locals(text=bytes, output=Output, at=Py_ssize_t)
cpdef offset_value(long long offset, int leader_epoch, str metadata, long long timestamp)

@cython.locals(region=Region, data=Octets, end=Py_ssize_t)
cpdef tuple offset_row(object index, object value)

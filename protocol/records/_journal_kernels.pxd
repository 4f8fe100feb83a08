# C types of _journal_kernels.py; the algorithm stands there alone.
cimport cython
from protocol.core._format cimport (
    INT64_MAX,
    Region,
    Target,
    acquire,
    acquire_target,
    checksum,
    copy,
    no_region,
    no_target,
    octets_of,
    prepare,
    read_int16,
    read_int32,
    read_int64,
    read_uint32,
    release,
    release_target,
    text_of,
)
from protocol.records._varints cimport write_zigzag, zigzag_size

ctypedef const unsigned char* Octets
ctypedef unsigned char* Output
ctypedef unsigned long long Bits

@cython.locals(size=Py_ssize_t, count=Py_ssize_t, key=bytes, value=bytes, body=Py_ssize_t, batch=bytearray, target=Target, output=Output, at=Py_ssize_t, delta=Py_ssize_t, value_size=Py_ssize_t, source=Octets)
cpdef bytearray pack_rows(object rows, long long timestamp, long long producer_id, long long producer_epoch)

@cython.locals(region=Region, entries=list, data=Octets, size=Py_ssize_t, status=int, group_at=Py_ssize_t, group_size=Py_ssize_t, topic_at=Py_ssize_t, topic_size=Py_ssize_t, length="long long", end=Py_ssize_t, attributes=int, base_offset="long long", producer_id="long long", producer_epoch="long long", count="long long", at=Py_ssize_t, number="long long", _="long long", delta="long long", key_size="long long", key=Py_ssize_t, value_size="long long", value=Py_ssize_t, stop=Py_ssize_t, offset="long long", kind=int, first="long long", second="long long", is_taken_apart=bint)
cpdef tuple read_journal(object buffer, Py_ssize_t position, Py_ssize_t most, bint has_offsets)

@cython.locals(first="long long", version=int, head=int, tail=int, metadata="long long")
cdef bint _is_offset(Octets data, Py_ssize_t key, long long key_size, Py_ssize_t value, long long value_size) noexcept nogil

cdef bint _is_same(Octets data, Py_ssize_t one, Py_ssize_t other, Py_ssize_t size) noexcept nogil

@cython.locals(rest=Bits, shift=int, byte=Bits)
cdef (long long, Py_ssize_t) _read_number(Octets data, Py_ssize_t position, Py_ssize_t end) noexcept nogil

@cython.locals(size=Py_ssize_t)
cdef Py_ssize_t _body_size(Py_ssize_t delta, Py_ssize_t key_size, Py_ssize_t value_size) noexcept nogil

cdef void _put_fixed(Output output, Py_ssize_t position, long long number, int size) noexcept nogil

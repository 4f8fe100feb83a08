# C types of _kernels.py; the algorithm stands there alone.
cimport cython
from protocol.core._format cimport (
    BAD_BODY,
    BAD_COUNT,
    BAD_CRC,
    BAD_FIELD,
    BAD_HEADERS,
    BAD_LENGTH,
    BAD_NUMBER,
    BAD_TIMESTAMP,
    BYTES_LEFT,
    FINE,
    INT64_MAX,
    INT64_MIN,
    NEEDS_REWRITE,
    NULL_KEY,
    RECORDS_MISSING,
    Region,
    TIMESTAMP_OUTSIDE,
    Target,
    UNEVEN_OFFSETS,
    acquire,
    acquire_target,
    checksum,
    checksum_software,
    continue_checksum,
    copy,
    no_region,
    no_target,
    prepare,
    read_int16,
    read_int32,
    read_int64,
    read_uint32,
    release,
    release_target,
)
from protocol.records._varints cimport read_varint, read_varlong, write_zigzag, zigzag_size

ctypedef const unsigned char* Octets

ctypedef unsigned char* Output
ctypedef unsigned long long Bits

@cython.locals(region=Region, data=Octets, size=Py_ssize_t, verdict="long long", index="long long", timestamp="long long")
cpdef tuple check_batch(object buffer, long long low, long long high, bint keys_required)

@cython.locals(region=Region, data=Octets, size=Py_ssize_t, verdict="long long", _index="long long", largest="long long", plain=(cython.longlong, cython.longlong, cython.longlong, cython.longlong, cython.longlong, cython.longlong, cython.longlong))
cpdef (long long, long long, long long, long long, long long, long long, long long) take_plain(object buffer, long long low, long long high, bint keys_required, int flags, int codecs) except *

@cython.locals(region=Region, data=Octets, verdict="long long", index="long long", timestamp="long long")
cpdef tuple walk_records(object buffer, Py_ssize_t start, Py_ssize_t end, long long count, long long base_timestamp, long long low, long long high, bint keys_required)

@cython.locals(region=Region, bad=list, position=Py_ssize_t, index="long long", delta="long long", _offset="long long", key_size="long long", _attributes="long long", timestamp="long long")
cpdef list list_bad_records(object buffer, Py_ssize_t start, Py_ssize_t end, long long count, long long base_timestamp, long long low, long long high, bint keys_required, Py_ssize_t most)

@cython.locals(region=Region, target=Target, data=Octets, octets=Output, size=Py_ssize_t, room=Py_ssize_t)
cpdef rewrite_records(object buffer, Py_ssize_t start, Py_ssize_t end, long long count, object output)

@cython.locals(region=Region, data=Octets, size=Py_ssize_t, value="unsigned int")
cpdef crc32c(object buffer, bint portable)

@cython.locals(region=Region, data=Octets, size=Py_ssize_t, result="unsigned int")
cpdef continue_crc32c(object buffer, unsigned int value=*)

@cython.locals(attributes=int, first="long long")
cdef bint _is_plain(Octets data, Py_ssize_t size, int flags, int codecs, bint keys_required, long long low, long long high) noexcept nogil

@cython.locals(count="long long")
cdef (long long, long long, long long) _check_batch(Octets data, Py_ssize_t size, long long low, long long high, bint keys_required) noexcept nogil

@cython.locals(low_delta="long long", high_delta="long long", none_delta="long long", smallest="long long", largest="long long", flags="long long", position=Py_ssize_t, index="long long", delta="long long", offset_delta="long long", key_size="long long", attributes="long long")
cdef (long long, long long, long long) _walk(Octets data, Py_ssize_t start, Py_ssize_t end, long long count, long long base_timestamp, long long low, long long high, bint keys_required) noexcept nogil

@cython.locals(size="long long", stop=Py_ssize_t, attributes="long long", delta="long long", offset_delta="long long", key_size="long long", _value_size="long long", headers="long long")
cdef (Py_ssize_t, long long, long long, long long, long long) _read_record(Octets data, Py_ssize_t position, Py_ssize_t end) noexcept nogil

@cython.locals(size="long long")
cdef (long long, Py_ssize_t) _read_field(Octets data, Py_ssize_t position, Py_ssize_t end) noexcept nogil

@cython.locals(size="long long")
cdef Py_ssize_t _skip_headers(Octets data, Py_ssize_t position, Py_ssize_t end, long long count) noexcept nogil

@cython.locals(size=Py_ssize_t, first="long long", index="long long", stop=Py_ssize_t, delta="long long", _offset="long long", _key_size="long long", _attributes="long long", tail=Py_ssize_t, head=Py_ssize_t, length=Py_ssize_t, at=Py_ssize_t)
cdef Py_ssize_t _rewrite(Octets data, Py_ssize_t position, Py_ssize_t end, long long count, Output output, Py_ssize_t room) noexcept nogil

@cython.locals(_number="long long")
cdef Py_ssize_t _find_key(Octets data, Py_ssize_t position, Py_ssize_t end) noexcept nogil

cdef bint _is_far(long long a, long long b) noexcept nogil

cdef long long _difference(long long a, long long b) noexcept nogil

cdef bint _is_outside(long long base, long long delta) noexcept nogil

# C types of _column_kernels.py; the algorithm stands there alone.
cimport cython
from protocol.core._format cimport (
    INT64_MAX,
    INT64_MIN,
    Numbers,
    Region,
    Target,
    acquire,
    acquire_numbers,
    acquire_target,
    checksum,
    copy,
    no_numbers,
    no_region,
    no_target,
    prepare,
    read_int16,
    read_int32,
    read_int64,
    read_uint32,
    release,
    release_numbers,
    release_target,
)
from protocol.records._native_columns cimport *

ctypedef const unsigned char* Octets
ctypedef unsigned char* Output
ctypedef unsigned long long Bits
ctypedef long long* Int64s

@cython.locals(region=Region, listed=Numbers, numbers=Numbers, data=Octets, size=Py_ssize_t, rows_=Int64s, most="long long", state_=Int64s)
cpdef survey_batches(object buffer, Py_ssize_t start, long long origin, bint is_verified, object rows, object state)

@cython.locals(region=Region, listed=Numbers, numbers=Numbers, places=Numbers, target=Target, data=Octets, rows_=Int64s, state_=Int64s, layout_=Int64s, arena_=Output)
cpdef fill_columns(object buffer, object rows, long long count, object state, object layout, object arena)

@cython.locals(status="long long", row="long long", length="long long", base="long long", delta="long long", count="long long", attributes="long long", is_plain=bint, at="long long")
cdef void _survey(Octets data, Py_ssize_t position, Py_ssize_t size, long long origin, bint is_verified, Int64s rows, long long most, Int64s state) noexcept nogil

@cython.locals(slot=int, row="long long", at="long long", first="long long", base="long long", last="long long", held="long long", is_inside=bint, is_even=bint, is_fine=bint, kind="long long", index="long long")
cdef void _fill(Octets data, Int64s rows, long long count, Int64s state, Int64s layout, Output arena) noexcept nogil

@cython.locals(position=Py_ssize_t, end=Py_ssize_t, base_timestamp="long long", append_time="long long", is_append_time=bint, scale="long long", previous="long long", index="long long", length="long long", stop=Py_ssize_t, time_delta="long long", offset_delta="long long", key_size="long long", key=Py_ssize_t, value_size="long long", value=Py_ssize_t, held="long long", headers=Py_ssize_t, offset="long long", timestamp="long long", row="long long")
cdef bint _fill_batch(Octets data, Py_ssize_t start, Py_ssize_t size, long long count, long long base, long long last, long long attributes, Int64s state, Int64s layout, Output arena) noexcept nogil

@cython.locals(size="long long")
cdef bint _walk_headers(Octets data, Py_ssize_t position, Py_ssize_t end, long long count) noexcept nogil

@cython.locals(header="long long", size="long long")
cdef void _fill_headers(Octets data, Py_ssize_t position, Py_ssize_t end, long long count, Int64s state, Int64s layout, Output arena) noexcept nogil

@cython.locals(rest=Bits, shift=int, byte=Bits)
cdef (long long, Py_ssize_t) _read_number(Octets data, Py_ssize_t position, Py_ssize_t end, int last_shift) noexcept nogil

cdef long long _scaled(long long timestamp, long long scale) noexcept nogil

cdef bint _is_outside(long long base, long long delta) noexcept nogil

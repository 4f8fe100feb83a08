# C types of _emit_kernels.py; the algorithm stands there alone.
cimport cython
from siltstone.cleaner.compiled._native_map cimport *
from siltstone.protocol.core._format cimport (
    INT64_MAX,
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
    release,
    release_numbers,
    release_target,
    write_int16,
    write_int32,
    write_int64,
)
from siltstone.protocol.core._format cimport read_varint, read_varlong, write_zigzag, zigzag_size

ctypedef const unsigned char* Octets
ctypedef unsigned char* Output
ctypedef unsigned long long Bits
ctypedef long long* Int64s

@cython.locals(region=Region, numbers=Numbers, planned=Numbers, found=Region, target=Target, data=Octets, state_=Int64s, plans_=Int64s, fates_=Octets, output_=Output, room=Py_ssize_t)
cpdef emit_batches(object buffer, object state, object plans, object fates, object output)

@cython.locals(region=Region, numbers=Numbers, first=Target, second=Target, data=Octets, size=Py_ssize_t, index_=Int64s, offsets_=Output, times_=Output)
cpdef index_batches(object buffer, object index, object offsets, object times)

@cython.locals(at=Py_ssize_t, plan="long long", position=Py_ssize_t, size="long long", mode="long long", fate="long long", count="long long", kept="long long", tombstones="long long", is_stamped=bint, needed="long long", start=Py_ssize_t, horizon="long long")
cdef void _emit(Octets data, Int64s state, Int64s plans, Octets fates, Output output, Py_ssize_t room) noexcept nogil

@cython.locals(kept="long long", tombstones="long long", index="long long")
cdef (long long, long long) _count_kept(long long mode, Octets fates, long long fate, long long count) noexcept nogil

cdef long long _horizon_of(Octets batch, Py_ssize_t position) noexcept nogil

cdef void _write_head(Output output, Py_ssize_t at, Py_ssize_t end, long long attributes, long long base, long long count) noexcept nogil

cdef Py_ssize_t _empty(Octets data, Py_ssize_t position, Output output, Py_ssize_t at) noexcept nogil

@cython.locals(attributes="long long", base="long long", append_time="long long", count="long long", end=Py_ssize_t, new_base="long long", is_based="long long", largest="long long", here=Py_ssize_t, there=Py_ssize_t, index="long long", start=Py_ssize_t, length="long long", body=Py_ssize_t, delta="long long", tail=Py_ssize_t, timestamp="long long", new_delta="long long")
cdef Py_ssize_t _rebuild(Octets data, Py_ssize_t position, Py_ssize_t size, long long mode, long long fate, Octets fates, bint is_stamped, long long kept, Int64s state, Output output, Py_ssize_t at) noexcept nogil

@cython.locals(position=Py_ssize_t, offset_at=Py_ssize_t, time_at=Py_ssize_t, base="long long", batch_size="long long", last_offset="long long", timestamp="long long")
cdef void _index(Octets data, Py_ssize_t size, Int64s index, Output offsets, Output times) noexcept nogil

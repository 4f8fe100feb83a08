# C types of _kernels.py; the algorithm stands there alone.
cimport cython
from siltstone.cleaner.compiled._native_map cimport *
from siltstone.protocol.core._format cimport (
    CODEC_MASK,
    CONTROL,
    DELETE_HORIZON,
    INT64_MAX,
    TRANSACTIONAL,
    Numbers,
    Region,
    Target,
    acquire,
    acquire_numbers,
    acquire_target,
    checksum,
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
from siltstone.protocol.core._format cimport read_varint, read_varlong

ctypedef const unsigned char* Octets
ctypedef unsigned char* Output
ctypedef unsigned long long Bits
ctypedef long long* Int64s

@cython.locals(region=Region, numbers=Numbers, table=Numbers, open_=Numbers, index=Numbers, window=Numbers, slot_count="long long", room="long long")
cpdef map_keys(object buffer, object state, object slots, object transactions, object aborted, object rows)

@cython.locals(source=Numbers, target=Numbers, old_=Int64s, new_=Int64s, count="long long")
cpdef move_slots(object old, long long start, long long end, object new)

@cython.locals(region=Region, data=Octets, size=Py_ssize_t, position=Py_ssize_t, total="long long", length=Py_ssize_t)
cpdef count_records(object buffer)

@cython.locals(region=Region, numbers=Numbers, total=Numbers, data=Octets, ends_=Int64s, count="long long", sums_=Int64s)
cpdef add_keys(object keys, object ends, object sums)

@cython.locals(region=Region, numbers=Numbers, table=Numbers, open_=Numbers, index=Numbers, last=Numbers, planned=Numbers, target=Target, window=Numbers, slot_count="long long", room="long long", producer_count="long long", most="long long")
cpdef plan_batches(object buffer, object state, object slots, object transactions, object aborted, object producers, object plans, object fates, object rows)

@cython.locals(position=Py_ssize_t, pending="long long", covered="long long", status="long long", batch_size="long long", attributes="long long", base_offset="long long", last_offset="long long", count="long long", skipped="long long", at=Py_ssize_t, end=Py_ssize_t, _index_in_batch="long long", offset_delta="long long", key_start=Py_ssize_t, key_size="long long", _value_size="long long", offset="long long", row=Py_ssize_t)
cdef void _map(Octets data, Py_ssize_t size, Int64s state, Int64s slots, long long slot_count, Int64s transactions, long long room, Int64s aborted, Int64s rows) noexcept nogil

@cython.locals(index="long long", row=Py_ssize_t, offset="long long")
cdef int _put(Int64s state, Int64s slots, long long slot_count, Int64s rows, long long count) noexcept nogil

@cython.locals(slot="long long", at="long long")
cdef int _put_slot(Int64s slots, long long slot_count, long long low, long long high, long long mark) noexcept nogil

@cython.locals(slot="long long", at="long long")
cdef long long _find_slot(Int64s slots, long long slot_count, long long low, long long high) noexcept nogil

@cython.locals(slot="long long", at="long long")
cdef void _move(Int64s old, long long start, long long end, Int64s new, long long count) noexcept nogil

@cython.locals(length="long long", end=Py_ssize_t, base_offset="long long", delta="long long", count="long long", plain=bint)
cdef long long _check_batch(Octets data, Py_ssize_t position, Py_ssize_t size, Int64s state) noexcept nogil

@cython.locals(coming="long long")
cdef bint _lacks_room(Int64s state, long long room) noexcept nogil

@cython.locals(slot="long long", at="long long", mark="long long")
cdef long long _find_producer(Int64s state, Int64s transactions, long long room, long long producer_id) noexcept nogil

@cython.locals(number="long long", at="long long", producer="long long")
cdef void _begin_aborted(Int64s state, Int64s aborted, Int64s transactions, long long room, long long base_offset, long long last_offset) noexcept nogil

@cython.locals(producer_id="long long", at="long long")
cdef bint _note_data(Octets data, Py_ssize_t position, Int64s state, Int64s transactions, long long room) noexcept nogil

@cython.locals(stop=Py_ssize_t, _offset="long long", key_start=Py_ssize_t, key_size="long long", _value_size="long long", kind="long long", producer_id="long long", at="long long", seen="long long", number="long long")
cdef bint _note_control(Octets data, Py_ssize_t position, Py_ssize_t size, Int64s state, Int64s aborted, Int64s transactions, long long room) noexcept nogil

@cython.locals(producer_id="long long", low="long long", high="long long", middle="long long", at="long long", is_control="long long")
cdef bint _is_last_of_producer(Octets data, Py_ssize_t position, long long last_offset, Int64s producers, long long count) noexcept nogil

cdef bint _has_expired(long long attributes, long long base_timestamp, long long now) noexcept nogil

cdef long long _mode_of_control(long long attributes, long long count, bint is_discardable, bint is_expired) noexcept nogil

cdef long long _mode_of_data(long long attributes, long long count, bint is_discardable, long long base_offset, long long latest) noexcept nogil

cdef long long _fate_of_record(long long offset, long long latest, long long key_size, long long value_size, bint is_expired) noexcept nogil

cdef bint _is_superseded(long long offset, long long last_offset_of_key) noexcept nogil

cdef bint _keeps_header(Octets data, Py_ssize_t position, long long last_offset, long long first_uncleanable, Int64s producers, long long producer_count) noexcept nogil

@cython.locals(position=Py_ssize_t, plan="long long", fate="long long", pending="long long", status="long long", batch_size="long long", attributes="long long", is_closed=bint, base_offset="long long", last_offset="long long", count="long long", is_discardable=bint, is_expired=bint, mode="long long", first_fate="long long", end=Py_ssize_t)
cdef void _plan(Octets data, Py_ssize_t size, Int64s state, Int64s slots, long long slot_count, Int64s transactions, long long room, Int64s aborted, Int64s producers, long long producer_count, Int64s plans, long long most, Output fates, Int64s rows) noexcept nogil

@cython.locals(latest="long long", base_offset="long long", last_delta="long long", count="long long", at=Py_ssize_t, _index_in_batch="long long", start=Py_ssize_t, offset_delta="long long", key_start=Py_ssize_t, key_size="long long", value_size="long long", offset="long long", decided="long long", row=Py_ssize_t)
cdef (long long, long long) _judge_records(Octets data, Py_ssize_t position, Py_ssize_t end, bint is_expired, Int64s state, Int64s slots, long long slot_count, Int64s rows, long long pending, Output fates, long long fate) noexcept nogil

@cython.locals(index="long long", row=Py_ssize_t, fate="long long")
cdef void _judge(Octets data, Int64s state, Int64s slots, long long slot_count, Int64s rows, long long count, Output fates) noexcept nogil

cdef void _note_dropped(Int64s state, long long reason, long long count, long long size) noexcept nogil

@cython.locals(_index_in_batch="long long", _offset="long long", _key_start=Py_ssize_t, _key_size="long long", _value_size="long long")
cdef Py_ssize_t _find_records_end(Octets data, Py_ssize_t position, Py_ssize_t end, long long count) noexcept nogil

@cython.locals(size="long long", stop=Py_ssize_t, _delta="long long", offset_delta="long long", key_size="long long", key_start=Py_ssize_t, value_size="long long")
cdef (Py_ssize_t, long long, Py_ssize_t, long long, long long) _read_record(Octets data, Py_ssize_t position, Py_ssize_t end) noexcept nogil

@cython.locals(start=Py_ssize_t, end=Py_ssize_t, index="long long")
cdef void _add(Octets keys, Int64s ends, long long count, Int64s sums) noexcept nogil

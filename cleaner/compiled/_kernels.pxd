# C types of _kernels.py; the algorithm stands there alone.
cimport cython
from siltstone.protocol.core._format cimport (
    ATTRIBUTES_POSITION,
    BAD_COUNT,
    BAD_RECORD,
    BASE_TIMESTAMP_POSITION,
    CODEC_MASK,
    CONTROL,
    COUNT_POSITION,
    CRC_POSITION,
    DELETE_HORIZON,
    HEADER_SIZE,
    INT32_MAX,
    INT64_MAX,
    LAST_OFFSET_DELTA_POSITION,
    LENGTH_POSITION,
    LOG_APPEND_TIME,
    LOG_OVERHEAD,
    MAGIC,
    MAGIC_POSITION,
    MAX_TIMESTAMP_POSITION,
    MIN_LENGTH,
    MIN_RECORD_BYTES,
    Numbers,
    OFFSET_BACKWARDS,
    PRODUCER_EPOCH_POSITION,
    PRODUCER_ID_POSITION,
    Region,
    SHORT_LENGTH,
    TOO_LARGE,
    TRANSACTIONAL,
    Target,
    WRONG_CRC,
    WRONG_MAGIC,
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
    read_varint,
    read_varlong,
    release,
    release_numbers,
    release_target,
    write_int16,
    write_int32,
    write_int64,
    write_zigzag,
    zigzag_size,
)

include "slots.pxi"  # cleaner/compiled/slots.py, as the build writes it

cdef extern from "_native_map.h" nogil:  # _portable.py has the same names for uncompiled runs
    void digest_key(const unsigned char* data, Py_ssize_t start, Py_ssize_t size, const long long* numbers, Py_ssize_t seed, long long* digests, Py_ssize_t at)
    void add_digest(const unsigned char* data, Py_ssize_t start, Py_ssize_t size, long long* numbers, Py_ssize_t at)
    long long home_of(long long digest, long long count)
    long long spread(long long number)
    void prefetch(const long long* numbers, long long at)
    long long wrapping_add(long long a, long long b)
    long long wrapping_subtract(long long a, long long b)

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

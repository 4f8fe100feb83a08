# C types of _append_kernels.py; the algorithm stands there alone.
cimport cython
from siltstone.storage.clock cimport Clock
from libc.stdint cimport int64_t
from siltstone.protocol.core._records cimport Plain, take_plain
from siltstone.protocol.core._format cimport (
    CODEC_MASK,
    CONTROL,
    HEADER_SIZE,
    INT32_MAX,
    INT64_MAX,
    TRANSACTIONAL,
    Region,
    Target,
    acquire,
    acquire_target,
    copy,
    no_region,
    no_target,
    release,
    release_target,
    row_of,
    slot_of,
    write_int32,
    write_int64,
)
from siltstone.storage.files._disk cimport write_at
from siltstone.storage.log_lock cimport LogLock

cdef class ProducerEntry

@cython.final
cdef class ValidatedBatch:
    cdef public object buffer, error, log
    cdef public long long attributes, base_offset, base_sequence, count, last_offset_delta, log_append_time_ms, log_start_offset, max_timestamp, partition, producer_epoch, producer_id, size
    cdef public bint duplicate, flush_due
    cdef ProducerEntry producer

    cdef int await_outcome(self) except -1

    cpdef repeat(self, object first, long long log_start_offset)

@cython.final
cdef class PlainRules:
    cdef public long long after_ms, before_ms, flush_messages, max_bytes
    cdef public bint keys_required
    cdef public int kept_codecs

    @cython.locals(size="long long", plain=Plain, codec=int, batch=ValidatedBatch)
    cpdef ValidatedBatch take(self, object records, long long now_ms)

@cython.final
cdef class ProducerEntry:
    cdef public long long coordinator_epoch, epoch, last_timestamp, next_sequence, transaction_first_offset
    cdef public list batches

    cpdef bint is_followed_by(self, long long epoch, long long first_sequence) except *

    cdef int expect(self, long long first_sequence, long long last_offset_delta) except -1

    @cython.locals(last_sequence="long long", last_offset="long long")
    cpdef note(self, long long first_sequence, long long last_offset_delta, long long first_offset, long long timestamp)

    @cython.locals(batches=list)
    cdef _add(self, object batch, long long last_sequence, long long timestamp)

@cython.final
cdef class SegmentEnd:
    cdef readonly long long base_offset, created_ms, first_timestamp, index_interval_bytes, max_timestamp, offset_of_max_timestamp, roll_after_ms, segment_bytes, since_index, size
    cdef readonly int fd
    cdef readonly bint is_index_full

    cpdef follow(self, SegmentEnd other)

    @cython.locals(first="long long", waited="long long")
    cpdef bint should_roll(self, object segment, long long size, long long max_timestamp, long long last_offset, Clock clock) except *

    @cython.locals(position="long long", written="long long")
    cpdef write(self, object segment, object buffer, long long size)

    @cython.locals(position="long long")
    cpdef note(self, object segment, long long size, long long last_offset, long long max_timestamp)

@cython.final
cdef class Appends:
    cdef public object look
    cdef public long long look_at, taken, written
    cdef readonly list logs
    cdef object joined

    cdef int add(self, object log) except -1

    cdef int look_again(self) except -1

    @cython.locals(end=LogEnd)
    cpdef write(self)

@cython.final
cdef class LogEnd:  # int64_t, since Cython gives -2 of a final class two suffixes as long long
    cdef Clock _clock
    cdef Appends _appends
    cdef list _held
    cdef bint _is_awaited
    cdef readonly object directory, producers
    cdef readonly LogLock lock
    cdef readonly dict watchers
    cdef readonly tuple view
    cdef readonly PlainRules rules
    cdef readonly long long batches_in, bytes_in, leader_epoch, log_end_offset, log_start_offset, records_in, recovery_point, size
    cdef long long _unwritten
    cdef readonly bint is_closed

    @cython.locals(first=object)
    cpdef int64_t stable_end(self) except? -2

    @cython.locals(before="long long", lock=LogLock)
    cpdef append(self, object log, ValidatedBatch batch, object origin=*, bint may_wait=*)

    @cython.locals(producer_id="long long", producer=ProducerEntry, is_next=bint)
    cdef object _append(self, object log, ValidatedBatch batch, object origin, bint may_wait)

    @cython.locals(before="long long", lock=LogLock)
    cpdef write(self, object log)

    @cython.locals(held=list, first=Py_ssize_t, batch=ValidatedBatch, producer=ProducerEntry)
    cdef int _write_held(self, object log) except -1

    @cython.locals(held=list, batch=ValidatedBatch, size="long long", end=SegmentEnd, stop=Py_ssize_t, base_offset="long long", next_sequence="long long", producer=ProducerEntry)
    cdef Py_ssize_t _write_run(self, object log, Py_ssize_t first) except -1

    @cython.locals(held=list, batch=ValidatedBatch, size="long long", whole="long long", end=SegmentEnd, is_alone=bint, stop=Py_ssize_t, base_offset="long long", last_offset="long long")
    cdef (Py_ssize_t, long long) _stamp_run(self, object segment, Py_ssize_t first) except *

    cpdef bint is_flush_due(self) except *

    @cython.locals(appends=Appends)
    cdef int _check_open(self, object log, long long size, bint is_client) except -1

    @cython.locals(segments=tuple, end=SegmentEnd, last_offset="long long")
    cdef object _find_room(self, object log, long long size, long long last_offset_delta, long long max_timestamp)

    @cython.locals(size="long long", last_offset="long long", end=SegmentEnd)
    cdef int _note(self, object log, object segment, ValidatedBatch batch) except -1

    @cython.locals(producer=ProducerEntry)
    cdef ProducerEntry _find_producer(self, long long producer_id, long long epoch, long long sequence)

    cpdef tell_watchers(self)

@cython.locals(target=Target, is_whole=bint)
cdef int _stamp(object buffer, long long size, long long base_offset, long long leader_epoch) except -1

@cython.locals(room=Target, region=Region, filled=Py_ssize_t, batch=ValidatedBatch)
cdef int _join(list held, Py_ssize_t first, Py_ssize_t stop, object joined) except -1

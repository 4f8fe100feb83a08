from libc.stdint cimport int64_t

from siltstone.storage.appending.batch cimport PlainRules, ValidatedBatch
from siltstone.storage.clock cimport Clock
from siltstone.storage.log_lock cimport LogLock
from siltstone.storage.segment.end cimport SegmentEnd


cdef class Appends:
    cdef public object look  # type: Callable[[], None] | None
    cdef public long long look_at, taken, write_back_bytes, written
    cdef readonly list logs  # type: list[Log]
    cdef object joined

    cdef int add(self, object log) except -1
    cdef int look_again(self) except -1
    cpdef write(self)


cdef struct Run:
    Py_ssize_t stop
    long long size


cdef class LogEnd:  # int64_t, since Cython gives -2 of a final class two suffixes as long long
    cdef Clock _clock
    cdef Appends _appends
    cdef list _held
    cdef dict _transactions
    cdef bint _is_awaited
    cdef object _active
    cdef SegmentEnd _active_end
    cdef readonly object directory  # type: LogDirectory
    cdef readonly object producers  # type: ProducerStateManager
    cdef readonly LogLock lock
    cdef readonly dict watchers  # type: dict[Watcher, None]
    cdef readonly tuple view  # type: LogView
    cdef readonly PlainRules rules
    cdef readonly long long batches_in, bytes_in, leader_epoch, log_end_offset, log_start_offset
    cdef readonly long long records_in, recovery_point, size
    cdef long long _unwritten
    cdef readonly bint is_closed

    cpdef int64_t stable_end(self) except? -2
    cpdef append(self, object log, ValidatedBatch batch, object origin=*, bint may_wait=*)
    cdef int _take(self, object log, ValidatedBatch batch, object origin, bint may_wait) except -1
    cpdef write(self, object log)
    cdef int write_held(self, object log) except -1
    cdef Py_ssize_t write_run(self, object log, Py_ssize_t first) except -1
    cdef Run stamp_run(self, Py_ssize_t first) except *
    cpdef bint is_flush_due(self) except *
    cdef int check_open(self, object log, long long size, bint is_client) except -1
    cdef int find_room(self, object log, ValidatedBatch batch) except -1
    cdef int note(self, object log, ValidatedBatch batch) except -1
    cdef int activate(self, tuple segments) except -1
    cpdef tell_watchers(self)

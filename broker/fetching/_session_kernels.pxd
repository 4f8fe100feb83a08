# C types of _session_kernels.py; the algorithm stands there alone.
cimport cython
from siltstone.broker.fetching._fetch_kernels cimport (
    DIVERGENCE,
    ERROR_CODE,
    FETCH_OFFSET,
    HIGH_WATERMARK,
    PARTITION,
    RECORDS,
    STABLE_OFFSET,
    START_OFFSET,
    is_read_up,
    replica_of,
)
from siltstone.protocol.core._format cimport field_of, number_of, slot_of
from siltstone.protocol.core._messages cimport Grid, cell_of, value_of

cdef class Watch:
    cdef public WatchGroup group
    cdef public object key, wanted, log
    cdef public long long available

    cpdef stand_on(self, object log)
    @cython.locals(watchers=dict)
    cpdef leave(self)
    cpdef log_changed(self)
    cpdef log_gone(self)

@cython.final
cdef class WatchGroup:
    cdef public set changed
    cdef public Parked parked

    cpdef note_change(self, Watch watch)
    cpdef release(self)
    @cython.locals(watch=Watch)
    cpdef leave(self)

@cython.final
cdef class Parked:
    cdef public object future
    cdef long long _missing
    cdef bint _is_committed

    @cython.locals(available="long long", upto="long long")
    cpdef count(self, Watch watch)
    cpdef release(self)

@cython.final
cdef class SessionPartition(Watch):
    cdef public long long turn, high_watermark, log_start_offset

    @cython.locals(code="long long", high_watermark="long long", log_start_offset="long long")
    cpdef bint has_news(self, Grid fetched, Py_ssize_t place) except *

@cython.locals(rows=list)
cpdef add_row(list topics, object key, object row)

@cython.locals(topics=list, partition=SessionPartition)
cpdef list wanted_of(list partitions)

@cython.final
cdef class FetchSession:
    cdef public object session_id
    cdef public bint by_id, is_closed
    cdef public double created, last_used
    cdef public long long isolation_level, epoch
    cdef public dict partitions
    cdef public WatchGroup group
    cdef long long _turns

    @cython.locals(known=SessionPartition)
    cpdef update(self, object request)
    @cython.locals(known=SessionPartition)
    cpdef SessionPartition want(self, object key, object wanted)
    cpdef list changed(self)
    @cython.locals(told=list, rows=Grid, place=Py_ssize_t, partition=SessionPartition)
    cpdef list select_news(self, object read, list fetched, object get_log)
    cpdef settle_late(self, SessionPartition partition, Grid fetched, Py_ssize_t place, object get_log)
    cpdef settle(self, SessionPartition partition, Grid fetched, Py_ssize_t place, object get_log)
    cpdef bint is_at(self, long long epoch)
    cpdef close(self)
    cpdef long long take_turn(self)

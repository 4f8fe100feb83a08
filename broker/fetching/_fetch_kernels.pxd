# C types of _fetch_kernels.py; the algorithm stands there alone.
cimport cython
from siltstone.protocol.core._format cimport field_of, number_of, row_of, slot_of
from siltstone.protocol.core._messages cimport Grid, cell_of, grid_of, put_cell, value_of
from siltstone.storage.appending._append_kernels cimport LogEnd
from siltstone.storage.log.reads cimport LogRead, LogReader

include "columns.pxi"  # of protocol/messages/columns.py, by the build

@cython.final
cdef class FetchPlan:
    cdef public list topics
    cdef public Py_ssize_t count
    cdef public object session, epoch, read, isolation_level
    cdef public bint wants_session, by_id

@cython.locals(wanted=Grid, count=Py_ssize_t, place=Py_ssize_t, number="long long", before="long long")
cpdef bint are_distinct(object partitions) except *

@cython.locals(wanted=Grid, rows=Grid, left=list, place=Py_ssize_t, number="long long", told_epoch="long long", timestamp="long long", end=LogEnd, offset="long long")
cpdef tuple list_ends(object partitions, tuple logs, bint is_committed)

@cython.locals(wanted=Grid, rows=Grid, left=list, place=Py_ssize_t, number="long long", told_epoch="long long", end=LogEnd, epoch="long long")
cpdef tuple list_epoch_ends(object partitions, tuple logs)

@cython.locals(replica_id="long long", state_id="long long")
cpdef long long replica_of(object request) except? -1

@cython.locals(found=list)
cpdef list list_wanted(object request, bint by_id)

cdef add_topic(list topics, object key, object rows)

@cython.locals(column=int, offset="long long", last_epoch="long long")
cpdef bint is_read_up(object wanted, Grid fetched, Py_ssize_t place, long long isolation_level) except *

@cython.final
cdef class TopicRead:
    cdef object key
    cdef tuple logs
    cdef Grid wanted, rows
    cdef list records, aborted, divergences, leaders

    cdef diverge(self, Py_ssize_t place, object divergence)
    cdef name_leader(self, Py_ssize_t place, object leader)

    @cython.locals(rows=Grid, count=Py_ssize_t)
    cdef Grid end(self)

    @cython.locals(rows=Grid)
    cdef keep(self, Py_ssize_t place, Grid before, bint is_committed)

cdef class FetchRead:
    cdef public object context, services, request
    cdef public FetchPlan plan
    cdef public list fetched
    cdef public long long max_bytes, min_bytes
    cdef public bint _is_committed, _is_follower, _is_refused_by_leader, finds_some
    cdef public set _refused, absent

    @cython.locals(remaining="long long", total="long long", size="long long", limit="long long", urgent=bint, number=Py_ssize_t, place=Py_ssize_t, topic=TopicRead, earlier=Grid, may_read=bint)
    cpdef tuple read_some(self, object topics, object before, long long found)

    cpdef bint may_read(self, object key) except *

    @cython.locals(topics=list, is_id=bint)
    cpdef name_topics(self, object session_id, object told)

    @cython.locals(wanted=Grid, rows=Grid, number="long long", epoch="long long", offset="long long", last_epoch="long long", high_watermark="long long", stable_offset="long long", start_offset="long long", size="long long", end=LogEnd, reader=LogReader, read=LogRead, upto="long long")
    cdef long long _read_partition(self, TopicRead topic, Py_ssize_t place, long long limit, bint at_least_one) except -1

    cdef tuple _find_logs(self, object key)

    @cython.locals(wanted=Grid, number="long long", end=LogEnd, column=int)
    cdef bint _is_unchanged(self, TopicRead topic, Py_ssize_t place, Grid before) except *

    @cython.locals(rows=Grid, number="long long", is_known=bint, is_absent=bint)
    cdef bint _refuse(self, TopicRead topic, Py_ssize_t place, object error) except *

cdef list _at_least(list known, Py_ssize_t count)

cdef object _find_divergence(object log, long long last_epoch, long long offset)

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

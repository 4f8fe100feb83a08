# C types of _group_kernels.py; the algorithm stands there alone.
cimport cython
from siltstone.protocol.core._format cimport field_of, number_of
from siltstone.protocol.core._messages cimport Grid, cell_of, grid_of, put_cell, value_of

include "commit_columns.pxi"  # commit_columns.py, as the build writes it

cdef object _COMPLETING, _DEAD, _EMPTY, _PREPARING, _STABLE

@cython.final
cdef class Timer:
    cdef public object deadline, _queued, _action
    cdef public Timers _timers

    cpdef start(self, double after_ms)

cdef class Timers:
    cdef public object on_earlier, _clock
    cdef public list heap
    cdef public long long running_count, _pushed

    cpdef double now_ms(self) except? -1
    cpdef push(self, object deadline, Timer timer)

cdef class LivingMember:
    cdef public long long session_timeout_ms
    cdef public Timer timer

    cpdef start_session(self)

cdef class MemberTable:
    cdef public dict by_id, static

    cpdef LivingMember get(self, str member_id, object instance_id)

cdef class LivingGroup:
    cdef public object state
    cdef public long long generation
    cdef public MemberTable members

    @cython.locals(member=LivingMember)
    cpdef heartbeat(self, str member_id, object instance_id, long long generation)

    @cython.locals(member=LivingMember)
    cpdef touch(self, str member_id)

    cpdef judge_commit(self, str member_id, object instance_id, long long generation, bint is_transactional)

    cpdef _check_alive(self)

cdef class GroupTable:
    cdef public dict groups
    cdef public object journal
    cdef public object offsets, _make_classic

    cpdef check(self, str group_id)
    cpdef find(self, str group_id)
    cpdef keep(self, object group)
    cpdef heartbeat(self, object request)

@cython.final
cdef class Run:
    cdef public str topic, metadata
    cdef public Grid rows
    cdef public Py_ssize_t start, stop

@cython.final
cdef class NewOffsets:
    cdef public list runs
    cdef public Py_ssize_t count
    cdef Run _last
    cdef long long _now_ms, _expiry_ms

    @cython.locals(last=Run)
    cpdef add(self, str topic, Grid rows, Py_ssize_t place, str metadata)

    @cython.locals(version=int, run=Run, pairs=list, keys=list, values=list, place=Py_ssize_t, start=Py_ssize_t, stop=Py_ssize_t)
    cpdef list journal_rows(self, str group_id)

@cython.final
cdef class GroupOffsets:
    cdef public dict committed, pending

    @cython.locals(partitions=dict, offsets=dict, count=Py_ssize_t)
    cpdef bint put(self, str topic, object partition, bytes stored) except *

    @cython.locals(partitions=dict, offsets=dict)
    cpdef bint remove(self, str topic, object partition) except *

cdef class OffsetTable:
    cdef public object _append
    cdef public tuple _shards
    cdef public long long commit_count, count

    @cython.locals(rows=list, group=GroupOffsets, wanted=Grid, topic=str, count=Py_ssize_t, place=Py_ssize_t, start=Py_ssize_t, stop=Py_ssize_t)
    cpdef append(self, str group_id, object partition, object offsets)

    cpdef dict _shard(self, str group_id)
    cpdef GroupOffsets _find(self, str group_id)

    @cython.locals(shard=dict, group=GroupOffsets)
    cpdef GroupOffsets _of(self, str group_id)

@cython.locals(known_topics=dict, by_id=bint, retention_ms="long long", expiry=object, offsets=NewOffsets, results=list, codes=Grid, rows=Grid, is_any_known=bint, is_any_unknown=bint, count=Py_ssize_t, place=Py_ssize_t, partitions="long long", index="long long", known_name=str)
cpdef tuple commit(object rooms, GroupTable groups, int version, object request)

@cython.locals(codes=Grid, place=Py_ssize_t)
cdef _refuse(list results, long long error_code)

@cython.locals(generation="long long")
cdef int _write(GroupTable groups, int version, object request, NewOffsets offsets) except -1

@cython.locals(rows=Grid, stored=list, place=Py_ssize_t)
cpdef Grid answer_rows(dict partitions, object indexes)

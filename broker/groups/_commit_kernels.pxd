# C types of _commit_kernels.py; the algorithm stands there alone.
cimport cython
from siltstone.broker.groups._member_kernels cimport GroupTable
from siltstone.protocol.core._format cimport field_of, number_of
from siltstone.protocol.core._messages cimport Grid, put_cell

# The columns of OffsetCommitRequest, of its topics and of their partitions.
cdef enum:
    GROUP_ID = 0
    GENERATION = 1
    MEMBER_ID = 2
    INSTANCE_ID = 3
    RETENTION = 4
    TOPICS = 5

cdef enum:
    NAME = 0
    TOPIC_ID = 1
    PARTITIONS = 2

cdef enum:
    PARTITION = 0
    OFFSET = 1
    LEADER_EPOCH = 2
    METADATA = 3

# Those of a partition of OffsetFetchResponse: first it says which, then what OffsetCommitValue begins
# with, and last an error code.
cdef enum:
    FETCHED_PARTITION = 0
    FETCHED_VALUE = 1
    FETCHED_COLUMNS = 5

@cython.locals(known_topics=dict, by_id=bint, retention_ms="long long", expiry=object, results=list, offsets=list, codes=list, is_any_known=bint, is_any_unknown=bint, count=Py_ssize_t, number="long long")
cpdef tuple commit(object rooms, GroupTable groups, int version, object request)

@cython.locals(generation="long long", table=OffsetTable)
cdef int _write(GroupTable groups, int version, object request, list offsets) except -1

@cython.locals(pairs=list, version=int, expiring=Py_ssize_t, never="long long")
cpdef list offset_rows(str group_id, object offsets)

@cython.locals(rows=Grid, stored=list, place=Py_ssize_t)
cpdef Grid answer_rows(dict partitions, object indexes)

@cython.final
cdef class GroupOffsets:
    cdef public dict committed, pending

    @cython.locals(partitions=dict, offsets=dict, is_new=bint)
    cpdef bint put(self, str topic, object partition, bytes stored) except *

    @cython.locals(partitions=dict, offsets=dict)
    cpdef bint remove(self, str topic, object partition) except *

cdef class OffsetTable:
    cdef public object _append
    cdef public tuple _shards
    cdef public long long commit_count, count

    @cython.locals(rows=list, group=GroupOffsets, count=Py_ssize_t, new=tuple)
    cpdef append(self, str group_id, object partition, object offsets)

    cpdef dict _shard(self, str group_id)
    cpdef GroupOffsets _find(self, str group_id)

    @cython.locals(shard=dict, group=GroupOffsets)
    cpdef GroupOffsets _of(self, str group_id)

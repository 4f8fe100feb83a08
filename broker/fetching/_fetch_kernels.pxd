# C types of _fetch_kernels.py; the algorithm stands there alone.
cimport cython
from siltstone.protocol.core._format cimport field_of, number_of, row_of, slot_of
from siltstone.protocol.core._messages cimport Grid, cell_of, grid_of, put_cell, value_of
from siltstone.storage.appending._append_kernels cimport LogEnd
from siltstone.storage.log._read_kernels cimport LogReader

# The columns of FetchRequest, FetchPartition and PartitionData that are looked at here.
cdef enum:
    REPLICA_ID = 1
    REPLICA_STATE = 2
    MIN_BYTES = 4
    MAX_BYTES = 5
    ISOLATION_LEVEL = 6

cdef enum:
    PARTITION = 0
    LEADER_EPOCH = 1
    FETCH_OFFSET = 2
    LAST_EPOCH = 3
    PARTITION_MAX_BYTES = 5
    WANTED_COLUMNS = 6

cdef enum:
    ERROR_CODE = 1
    HIGH_WATERMARK = 2
    STABLE_OFFSET = 3
    START_OFFSET = 4
    DIVERGENCE = 5
    LEADER = 6
    SNAPSHOT = 7
    ABORTED = 8
    PREFERRED_REPLICA = 9
    RECORDS = 10
    FETCHED_COLUMNS = 11

# Those of ListOffsetsPartition and OffsetForLeaderPartition, which begin as FetchPartition does.
cdef enum:
    QUESTION = 2
    ASKED_COLUMNS = 3

# Those of ListOffsetsPartitionResponse, which begins with PARTITION, too.
cdef enum:
    END_TIMESTAMP = 2
    END_OFFSET = 3
    END_EPOCH = 4
    END_COLUMNS = 5

# Those of the EpochEndOffset of OffsetForLeaderEpoch.
cdef enum:
    EPOCH_PARTITION = 1
    EPOCH = 2
    EPOCH_END = 3
    EPOCH_COLUMNS = 4

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
    cdef public object context, rooms, request
    cdef public FetchPlan plan
    cdef public list fetched
    cdef public long long max_bytes, min_bytes
    cdef public bint _is_committed, _is_follower, _is_refused_by_leader

    @cython.locals(remaining="long long", total="long long", size="long long", limit="long long", urgent=bint, number=Py_ssize_t, place=Py_ssize_t, topic=TopicRead, earlier=Grid)
    cpdef tuple read_some(self, object topics, object before, long long found)

    @cython.locals(topics=list, is_id=bint)
    cpdef name_topics(self, object session_id, object told)

    @cython.locals(wanted=Grid, rows=Grid, number="long long", epoch="long long", offset="long long", last_epoch="long long", high_watermark="long long", stable_offset="long long", start_offset="long long", size="long long", end=LogEnd, reader=LogReader, upto="long long")
    cdef long long _read_partition(self, TopicRead topic, Py_ssize_t place, long long limit, bint at_least_one) except -1

    cdef tuple _find_logs(self, object key)

    @cython.locals(wanted=Grid, number="long long", end=LogEnd, column=int)
    cdef bint _is_unchanged(self, TopicRead topic, Py_ssize_t place, Grid before) except *

    @cython.locals(rows=Grid, number="long long")
    cdef _refuse(self, TopicRead topic, Py_ssize_t place, object error)

cdef list _at_least(list known, Py_ssize_t count)

cdef object _find_divergence(object log, long long last_epoch, long long offset)

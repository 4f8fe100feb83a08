# C types of _fetch_kernels.py; the algorithm stands there alone.
cimport cython
from siltstone.protocol.core._format cimport field_of, number_of, row_of, slot_of
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

cdef enum:
    ERROR_CODE = 1
    HIGH_WATERMARK = 2
    STABLE_OFFSET = 3
    START_OFFSET = 4
    DIVERGENCE = 5
    RECORDS = 10

@cython.final
cdef class FetchPlan:
    cdef public list partitions
    cdef public object session, epoch, read, isolation_level
    cdef public bint wants_session, by_id

@cython.locals(named=set)
cpdef bint are_distinct(object partitions) except *

@cython.locals(count=Py_ssize_t, rows=list, number="long long", told_epoch="long long", timestamp="long long", end=LogEnd, offset="long long")
cpdef list list_ends(object partitions, tuple logs, bint is_committed)

@cython.locals(count=Py_ssize_t, rows=list, number="long long", told_epoch="long long", end=LogEnd)
cpdef list list_epoch_ends(object partitions, tuple logs)

@cython.locals(replica_id="long long", state_id="long long")
cpdef long long replica_of(object request) except? -1

@cython.locals(found=list, partitions=list)
cpdef list list_wanted(object request, bint by_id)

@cython.locals(column=int, offset="long long", last_epoch="long long")
cpdef bint is_read_up(object wanted, object fetched, long long isolation_level) except *

cdef class FetchRead:
    cdef public object context, rooms, request
    cdef public FetchPlan plan
    cdef public list fetched
    cdef public long long max_bytes, min_bytes
    cdef public bint _is_committed, _is_follower, _is_refused_by_leader

    @cython.locals(remaining="long long", total="long long", size="long long", limit="long long", urgent=bint, fetched=list, number=Py_ssize_t, logs=tuple)
    cpdef tuple read_some(self, object partitions, list before, long long found)

    @cython.locals(topics=list, rows=list, is_id=bint)
    cpdef name_topics(self, object session_id, list named)

    @cython.locals(number="long long", epoch="long long", offset="long long", high_watermark="long long", stable_offset="long long", end=LogEnd, reader=LogReader, upto="long long")
    cdef object _read_partition(self, object key, tuple logs, object wanted, long long limit, bint at_least_one)

    cdef tuple _find_logs(self, object key)

    @cython.locals(number="long long", end=LogEnd)
    cdef bint _is_unchanged(self, tuple logs, object wanted, object fetched) except *

    cdef object _refuse(self, object key, object wanted, object error)

cdef object _find_divergence(object log, object wanted)

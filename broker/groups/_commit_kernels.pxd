# C types of _commit_kernels.py; the algorithm stands there alone.
cimport cython
from broker.groups._member_kernels cimport LivingGroup
from protocol._group_kernels cimport (
    encode_commit,
    encode_heartbeat,
    find_commit,
    find_heartbeat,
    offset_key,
    offset_value,
)

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

    cpdef append_one(self, str group_id, object partition, str topic, object index, bytes stored)

    cpdef dict _shard(self, str group_id)
    cpdef GroupOffsets _find(self, str group_id)

    @cython.locals(shard=dict, group=GroupOffsets)
    cpdef GroupOffsets _of(self, str group_id)

cdef class GroupTable:
    cdef public object topics, settings, clock, log
    cdef public OffsetTable offsets
    cdef public dict groups

    @cython.locals(found=tuple, group_id=str, member_id=str, generation="long long", offset="long long", leader_epoch=int, metadata=str, stored=bytes, living=LivingGroup)
    cpdef commit_one(self, int version, int correlation_id, object buffer, Py_ssize_t position, Py_ssize_t end)

    @cython.locals(found=tuple, group_id=str, member_id=str, generation="long long", living=LivingGroup)
    cpdef beat_one(self, int correlation_id, object buffer, Py_ssize_t position, Py_ssize_t end)

    cpdef object _find_topic(self, object key)

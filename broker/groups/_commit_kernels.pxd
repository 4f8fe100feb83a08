# C types of _commit_kernels.py; the algorithm stands there alone.
cimport cython

@cython.locals(pairs=list, version=int, expiring=Py_ssize_t, never="long long")
cpdef list offset_rows(str group_id, object offsets)

@cython.locals(rows=list, stored=bytes, version=int)
cpdef list answer_rows(dict partitions, object indexes)

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

    @cython.locals(rows=list, group=GroupOffsets, count=Py_ssize_t, new=tuple, row=tuple)
    cpdef append(self, str group_id, object partition, object offsets)

    cpdef dict _shard(self, str group_id)
    cpdef GroupOffsets _find(self, str group_id)

    @cython.locals(shard=dict, group=GroupOffsets)
    cpdef GroupOffsets _of(self, str group_id)

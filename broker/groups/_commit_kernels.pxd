# C types of _commit_kernels.py; the algorithm stands there alone.
cimport cython
from siltstone.protocol.core._messages cimport Grid, cell_of, grid_of, put_cell, value_of

include "columns.pxi"  # of protocol/messages/columns.py, by the build

@cython.final
cdef class Run:
    cdef public str topic, metadata
    cdef public Grid rows
    cdef public Py_ssize_t start, stop

@cython.final
cdef class NewOffsets:
    cdef public list runs
    cdef public Py_ssize_t count, max_bytes
    cdef Run _last
    cdef long long _now_ms, _expiry_ms

    @cython.locals(last=Run)
    cpdef add(self, str topic, Grid rows, Py_ssize_t place, str metadata)

    @cython.locals(version=int, run=Run, pairs=list, keys=list, values=list, place=Py_ssize_t, start=Py_ssize_t, stop=Py_ssize_t)
    cpdef list journal_rows(self, str group_id, dict ids=*)

@cython.final
cdef class GroupOffsets:
    cdef public dict committed, pending
    cdef public long long more_bytes
    cdef long long _last_place

    cpdef bint put(self, str topic, object partition, bytes stored) except *

    @cython.locals(partitions=dict, offsets=dict, waits=tuple, count=Py_ssize_t)
    cpdef bint put_after(self, str topic, object partition, bytes stored, long long place) except *

    @cython.locals(run=Run, count=Py_ssize_t, added=Py_ssize_t, place=Py_ssize_t, start=Py_ssize_t, stop=Py_ssize_t)
    cpdef Py_ssize_t put_all(self, NewOffsets new, list rows) except -1

    @cython.locals(partitions=dict, offsets=dict, stored=bytes)
    cpdef bint remove(self, str topic, object partition) except *

cdef Py_ssize_t _TOPIC, _OFFSET, _CHARACTER, _VALUE_BYTES

cpdef long long excess_of(bytes stored) except? -1

@cython.locals(rows=Grid, stored=list, place=Py_ssize_t)
cpdef Grid list_committed(dict partitions, object indexes)

@cython.locals(results=list, codes=Grid, rows=Grid, is_any_known=bint, is_any_unknown=bint, count=Py_ssize_t, place=Py_ssize_t, partition_count="long long", index="long long", known_name=str)
cpdef tuple judge_offsets(object topics, dict known, bint by_id, object settings, NewOffsets offsets)

# C types of _coordinator_kernels.py; the algorithm stands there alone.
cimport cython
from siltstone.protocol.core._records cimport pack_rows
from siltstone.protocol.core._format cimport row_of, slot_of
from siltstone.storage.appending._append_kernels cimport LogEnd

cdef object _ORIGIN

cdef class Journal:
    cdef public object name, _clock, _topics
    cdef public set unflushed, _loading, _failed

    @cython.locals(end=LogEnd, base_offset="long long", now_ms="long long", producer_id="long long", producer_epoch="long long", batch=bytearray, size=Py_ssize_t, count=Py_ssize_t)
    cpdef append(self, object partition, object rows, object producer=*)

    cdef long long _append_of_producer(self, object target, bytearray batch, Py_ssize_t count, long long now_ms, object producer) except? -2

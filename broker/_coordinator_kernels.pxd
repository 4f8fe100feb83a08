# C types of _coordinator_kernels.py; the algorithm stands there alone.
cimport cython
from protocol.core._records cimport pack_rows
from protocol.core._format cimport row_of

cdef object _ORIGIN

cdef class Journal:
    cdef public object name, _clock, _topics
    cdef public set unflushed, _loading, _failed

    @cython.locals(now_ms="long long", producer_id="long long", producer_epoch="long long", batch=bytearray, size=Py_ssize_t, count=Py_ssize_t)
    cpdef append(self, object partition, object rows, object producer=*)

    cdef _append_batch(self, object target, object batch)

# C types of _produce_kernels.py; the algorithm stands there alone.
cimport cython
from siltstone.broker.net._dispatch_kernels cimport RequestContext
from siltstone.protocol.core._format cimport (
    ATTRIBUTES_POSITION,
    TRANSACTIONAL,
    Region,
    acquire,
    field_of,
    no_region,
    read_int16,
    release,
    slot_of,
)
from siltstone.storage.appending._append_kernels cimport LogEnd

# The number of protocol/topic_key.py
cdef enum:
    FIRST_WITH_TOPIC_ID = 13

@cython.final
cdef class PlainProduce:
    cdef object _go_on, _judge

    cpdef handle(self, RequestContext context, object request)
    cpdef append(self, RequestContext context, object request)

@cython.locals(by_id=bint)
cdef bint _may_all(RequestContext context, object request) except *

@cython.locals(region=Region, found=bint)
cpdef bint is_transactional(object topics) except *

@cython.locals(version=int, count=Py_ssize_t)
cdef bint _append_plain(RequestContext context, object request, list produced, list unflushed) except *

cpdef bint may_be_plain(long long acks, int version) except *

@cython.locals(partitions=list, total=Py_ssize_t, count=Py_ssize_t)
cpdef Py_ssize_t count_once(list topics, Py_ssize_t key) except? -2

@cython.locals(number=Py_ssize_t, partitions=list, rows=list, place=Py_ssize_t, count=Py_ssize_t, end=LogEnd, base_offset="long long")
cpdef bint append_all(dict logs, list topics, long long now_ms, list produced, list unflushed) except *

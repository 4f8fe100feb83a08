# The C types of produce.py; the code itself is only there.
cimport cython
from siltstone.broker.context cimport RequestContext, Unwritten
from siltstone.protocol.core._format cimport (
    ATTRIBUTES_POSITION,
    TRANSACTIONAL,
    Region,
    acquire,
    field_of,
    no_region,
    read_int16,
    release,
)
from siltstone.storage.appending.batch cimport ValidatedBatch
from siltstone.storage.log.end cimport LogEnd
from siltstone.storage.clock cimport Clock

# The number of protocol/names.py
cdef enum:
    FIRST_WITH_TOPIC_ID = 13

cdef class Produce

cpdef handle(RequestContext context, object request)

@cython.locals(produce=Produce)
cdef object _serve(RequestContext context, object request, bint is_own)

@cython.locals(by_id=bint)
cdef bint _may_all(RequestContext context, object request) except *

@cython.locals(region=Region, found=bint)
cpdef bint is_transactional(object topics) except *

cdef class Produce(Unwritten):
    cdef object _request, _services, _transaction
    cdef dict _logs
    cdef list _produced, _topics, _unflushed
    cdef long long _acks, _now_ms
    cdef bint _by_id, _has_names, _is_gathered, _is_own, _is_plain, _is_refused, _may_wait, _waits

    @cython.locals(clock=Clock, count=Py_ssize_t, version=int, acks="long long")
    cdef object serve(self, RequestContext context, object request, bint is_own)

    @cython.locals(topics=list, produced=list, number=Py_ssize_t, place=Py_ssize_t, partitions=list, rows=list)
    cdef int _append_some(self, Py_ssize_t most) except -1

    @cython.locals(end=LogEnd, batch=ValidatedBatch)
    cdef object _append(self, object name, object topic_id, object index, object records)

    @cython.locals(end=LogEnd)
    cdef object _store(self, object log, object index, ValidatedBatch batch)

    @cython.locals(rows=list, place=Py_ssize_t)
    cpdef answer(self)

    cdef object _say(self, ValidatedBatch batch)

@cython.locals(partitions=list, total=Py_ssize_t, count=Py_ssize_t)
cpdef Py_ssize_t count_once(list topics, Py_ssize_t key) except? -2

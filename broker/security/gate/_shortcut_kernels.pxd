# C types of _shortcut_kernels.py; the algorithm stands there alone.
cimport cython
from siltstone.broker.fetching._fetch_kernels cimport replica_of
from siltstone.broker.net._dispatch_kernels cimport RequestContext
from siltstone.protocol.core._format cimport (
    ATTRIBUTES_POSITION,
    TRANSACTIONAL,
    Region,
    acquire,
    field_of,
    no_region,
    number_of,
    read_int16,
    release,
)

# The numbers of named.py
cdef enum:
    WHOLE = 0
    TRANSACTION = 1
    SESSION = 2
    WHOLE_COLUMN = 0
    SESSION_ID = 7
    SESSION_EPOCH = 8
    MAX_NAMES = 20_000
    MAX_NAME = 256

@cython.final
cdef class Granted:
    cdef public set topics, wholes

@cython.final
cdef class Shortcut:
    cdef object _ask, _handler
    cdef int _kind, _first_by_id
    cdef Py_ssize_t _rows, _names
    cdef dict _granted

    @cython.locals(granted=Granted)
    cpdef serve(self, RequestContext context, object request)

    cpdef forget(self)

    @cython.locals(granted=Granted)
    cpdef note(self, RequestContext context, object request)

    @cython.locals(by_id=bint)
    cdef _note_topics(self, Granted granted, RequestContext context, object request)

    @cython.locals(column=Py_ssize_t)
    cdef bint _has_all(self, Granted granted, RequestContext context, object request) except *
    cdef bint _has_session(self, Granted granted, RequestContext context, object request) except *
    cdef bint _needs_whole(self, object request) except *

@cython.locals(region=Region, found=bint)
cpdef bint is_transactional(object topics) except *

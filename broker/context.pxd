cdef class Caller:
    cdef public object services, client_id, listener, peer, rights


cdef class RequestContext:
    cdef public object connection, services, client_id, listener, peer, rights, mutations, stats
    cdef public int api_key, version, correlation_id
    cdef public bint may_wait

    cpdef bint may(self, object operation, object resource, object name=*) except *
    cpdef bint sees(self, object operation, object resource, object name=*) except *


cdef class Unwritten:
    cdef readonly RequestContext context
    cdef object gate  # the `Gate` of `broker.net.gate`, which encodes the answer
    cdef object route
    cdef double began

    cpdef answer(self)

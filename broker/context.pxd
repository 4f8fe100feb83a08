cdef class Caller:
    cdef public object services  # type: _S
    cdef public object client_id  # type: str | None
    cdef public object listener, peer  # type: str
    cdef public object rights  # type: Rights | None


cdef class RequestContext:
    cdef public object connection  # type: Connection | None
    cdef public object services  # type: _S
    cdef public object client_id  # type: str | None
    cdef public object listener, peer  # type: str
    cdef public object rights  # type: Rights | None
    cdef public object mutations  # type: Mutations | None
    cdef public object stats  # type: RequestStats
    cdef public int api_key, version, correlation_id
    cdef public bint may_wait

    cpdef bint may(self, object operation, object resource, object name=*) except *
    cpdef bint sees(self, object operation, object resource, object name=*) except *


cdef class Unwritten:
    cdef readonly RequestContext context  # type: RequestContext[Any]
    cdef object gate  # the `Gate` of `broker.net.gate`, which encodes the answer
    cdef object route
    cdef double began

    cpdef answer(self)

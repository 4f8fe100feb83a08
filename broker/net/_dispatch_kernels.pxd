# C types of _dispatch_kernels.py; the algorithm stands there alone.
cimport cython
from cpython.time cimport perf_counter

cdef class Histogram:
    cdef public list buckets
    cdef public double seconds

    @cython.locals(bucket=Py_ssize_t, bound=double)
    cpdef observe(self, double seconds)

@cython.final
cdef class Caller:
    cdef public object services, client_id, listener, peer, rights

@cython.final
cdef class RequestContext:
    cdef public object connection, services, client_id, listener, peer, rights, mutations, stats
    cdef public int api_key, version, correlation_id
    cdef public bint may_wait

    cpdef bint may(self, object operation, object resource, object name=*) except *
    cpdef bint sees(self, object operation, object resource, object name=*) except *

@cython.final
cdef class Route:
    cdef public object api, handler, slices
    cdef public list requests, responses, has_tags
    cdef public Histogram stats
    cdef public int highest, lowest
    cdef public Py_ssize_t max_elements

cdef class Gate

cdef class Unwritten:
    cdef public RequestContext context
    cdef Gate _gate
    cdef Route _route
    cdef double _began

    cpdef answer(self)
    cpdef encode(self)

cdef class Gate:
    cdef public dict _routes
    cdef public list _served
    cdef public object stats, timer, _rare

    @cython.locals(began=double, key=int, version=int, correlation_id=int, body=Py_ssize_t, position=Py_ssize_t, route=Route, caller=Caller, context=RequestContext, unwritten=Unwritten)
    cpdef dispatch(self, object connection, object buffer, Py_ssize_t start, Py_ssize_t end, bint may_wait=*)

    cdef object _answer(self, object connection, Route route, RequestContext context, object response, double began)
    cdef object _conclude(self, Route route, RequestContext context, object response, double began, Py_ssize_t at_once=*)
    cpdef respond(self, Route route, int version, int correlation_id, object response, Py_ssize_t at_once=*)

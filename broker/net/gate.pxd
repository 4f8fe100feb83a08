from siltstone.broker.context cimport Unwritten


cdef class Gate:
    cdef public object stats  # type: RequestStats
    cdef public object timer  # type: TurnTimer | None
    cdef dict _routes
    cdef list _served
    cdef object _rare

    cpdef dispatch(
        self, object connection, object buffer, Py_ssize_t start, Py_ssize_t end, bint may_wait=*
    )


cdef object encode(Unwritten unwritten)

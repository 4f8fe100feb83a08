cdef class Watch:
    cdef readonly WatchGroup group
    cdef readonly object key, log
    cdef public object wanted
    cdef public long long available

    cpdef stand_on(self, object log)
    cpdef leave(self)


cdef class WatchGroup:
    cdef readonly dict changed
    cdef public Parked parked

    cdef note_change(self, Watch watch)
    cpdef release(self)


cdef class Parked:
    cdef readonly object future
    cdef long long _missing
    cdef bint _is_committed

    cpdef count(self, Watch watch)
    cpdef release(self)

cdef class Watch:
    cdef readonly WatchGroup group
    cdef readonly object key  # type: TopicKey
    cdef readonly object log  # type: Log | None
    cdef public object wanted  # type: FetchPartition
    cdef public long long available

    cpdef stand_on(self, object log)
    cpdef leave(self)


cdef class WatchGroup:
    cdef readonly dict changed  # type: dict[Watch, None]
    cdef public Parked parked  # type: Parked | None

    cdef note_change(self, Watch watch)
    cpdef release(self)


cdef class Parked:
    cdef readonly object future  # type: asyncio.Future[None]
    cdef long long _missing
    cdef bint _is_committed

    cpdef count(self, Watch watch)
    cpdef release(self)

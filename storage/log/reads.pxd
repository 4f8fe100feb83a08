from siltstone.storage.log.end cimport LogEnd


cdef class LogRead:
    cdef readonly object slice  # type: FileSlice
    cdef readonly object segment  # type: Any
    cdef readonly long long next_offset


cdef class LogReader:
    cdef readonly LogEnd end
    cdef list _hints

    cpdef LogRead read(
        self, object log, long long offset, long long max_bytes, long long upto, bint at_least_one
    )


cdef class LogParts:
    cdef public LogEnd end
    cdef public LogReader reader
    cdef public object epochs  # type: LeaderEpochs
    cdef public long long bytes_out

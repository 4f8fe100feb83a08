from siltstone.storage.clock cimport Clock


cdef class SegmentEnd:
    cdef readonly long long base_offset, created_ms, first_timestamp, index_interval_bytes
    cdef readonly long long max_timestamp, offset_of_max_timestamp, roll_after_ms, segment_bytes
    cdef readonly long long since_index, size
    cdef readonly int fd
    cdef readonly bint is_index_full

    cpdef bint should_roll(
        self, object segment, long long size, long long max_timestamp, long long last_offset,
        Clock clock,
    ) except *
    cpdef write(self, object segment, object buffer, long long size)
    cpdef note(self, object segment, long long size, long long last_offset, long long max_timestamp)

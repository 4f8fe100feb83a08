cdef class ProducerEntry:
    cdef public long long coordinator_epoch, epoch, last_timestamp, next_sequence
    cdef public long long transaction_first_offset
    cdef public list batches  # type: list[AppendedBatch]

    cpdef bint is_followed_by(self, long long epoch, long long first_sequence) except *
    cdef int expect(self, long long first_sequence, long long last_offset_delta) except -1
    cpdef note(
        self, long long first_sequence, long long last_offset_delta, long long first_offset,
        long long timestamp,
    )
    cdef int take(self, object batch, long long last_sequence, long long timestamp) except -1

from siltstone.storage.producers.producer_entry cimport ProducerEntry


cdef class ValidatedBatch:
    cdef public object buffer  # type: memoryview
    cdef public object error  # type: Exception | None
    cdef public object log  # type: Any
    cdef public long long attributes, base_offset, base_sequence, count, last_offset_delta
    cdef public long long log_append_time_ms, log_start_offset, max_timestamp, partition
    cdef public long long producer_epoch, producer_id, size
    cdef public bint duplicate, flush_due
    cdef ProducerEntry producer

    cdef int await_outcome(self) except -1
    cpdef repeat(self, object first, long long log_start_offset)


cdef class PlainRules:
    cdef public long long after_ms, before_ms, flush_messages, max_bytes
    cdef public bint keys_required
    cdef public int kept_codecs

    cpdef ValidatedBatch take(self, object records, long long now_ms)

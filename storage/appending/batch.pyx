"""A batch on its way into a log, and a topic's rules as numbers, to check most batches fast."""

from typing import TYPE_CHECKING

cimport cython
from libc.stdint cimport INT64_MAX

from siltstone.protocol.core._format cimport CODEC_MASK, HEADER_SIZE, TRANSACTIONAL
from siltstone.protocol.core._records cimport Plain, take_plain

from siltstone.protocol.records.compression import MAX_RATIO

if TYPE_CHECKING:
    from siltstone.config.topic import TopicConfig
    from siltstone.storage.producers.entry import AppendedBatch

cdef enum:
    MIN_RECORD_BYTES = 7
    NO_SEQUENCE = -1
    NO_TIMESTAMP = -1

cdef tuple KEPT_BY = (  # by codec, the values of `compression.type` that store it as it came
    frozenset({"producer", "uncompressed"}),
    frozenset({"producer", "gzip"}),
    frozenset({"producer", "snappy"}),
    frozenset({"producer", "lz4"}),
    frozenset({"producer", "zstd"}),
)


@cython.final
@cython.freelist(64)
cdef class ValidatedBatch:
    """Exactly one batch that may be stamped and written, and the result of its append.

    The append time is -1 with CreateTime. `LogEnd.append` sets ``log`` and the result. The result
    is either ``error``, or the offset of the first record, the log start offset at that moment, and
    whether the caller must await `Log.flush` on an io thread before it answers. A ``duplicate`` has
    the result of the first append. While the batch waits to be written it has neither offset nor
    error. ``partition`` belongs to the handler: the place of the batch in its request.
    """

    def __init__(
        self, buffer: memoryview, long long size, long long last_offset_delta, long long count,
        long long attributes, long long max_timestamp, long long producer_id,
        long long producer_epoch, long long base_sequence, long long log_append_time_ms,
    ):
        self.buffer = buffer
        self.size = size
        self.last_offset_delta = last_offset_delta
        self.count = count
        self.attributes = attributes
        self.max_timestamp = max_timestamp
        self.producer_id = producer_id
        self.producer_epoch = producer_epoch
        self.base_sequence = base_sequence
        self.log_append_time_ms = log_append_time_ms
        self.await_outcome()

    cdef int await_outcome(self) except -1:
        """Reset the result: the batch has neither an offset nor an error yet."""
        self.base_offset = -1
        self.log_start_offset = -1
        self.duplicate = False
        self.flush_due = False
        self.error = None
        self.log = None
        self.partition = -1
        self.producer = None
        return 0

    cpdef repeat(self, object first: AppendedBatch, long long log_start_offset):
        """Set the result to that of the first append of the same batch."""
        self.duplicate = True
        self.base_offset = first.first_offset
        self.log_append_time_ms = first.timestamp
        self.log_start_offset = log_start_offset

    @property
    def last_offset(self) -> int:
        """Return the offset of the last record."""
        return self.base_offset + self.last_offset_delta

    @property
    def is_awaited(self) -> bool:
        """Tell whether the batch has neither an offset nor an error yet."""
        return self.base_offset < 0 and self.error is None


cpdef ValidatedBatch own_batch(
    bytearray whole, long long count, long long attributes, long long timestamp,
    long long producer_id, long long producer_epoch,
):
    """Return a batch that this broker has built, to be stored with its own timestamp."""
    cdef ValidatedBatch batch = ValidatedBatch.__new__(ValidatedBatch)
    batch.buffer = memoryview(whole)
    batch.size = len(whole)
    batch.last_offset_delta = count - 1
    batch.count = count
    batch.attributes = attributes
    batch.max_timestamp = timestamp
    batch.producer_id = producer_id
    batch.producer_epoch = producer_epoch
    batch.base_sequence = NO_SEQUENCE
    batch.log_append_time_ms = NO_TIMESTAMP
    batch.await_outcome()
    return batch


@cython.final
cdef class PlainRules:
    """A topic's rules as numbers, which accept valid batches that are stored as they came.

    `storage.appending.validation` has every rule, in words.
    """

    def __init__(self, config: TopicConfig):
        max_bytes = min(config.max_message_bytes, config.segment_bytes)
        self.max_bytes = 0 if config.is_log_append_time else max_bytes
        self.before_ms = config.message_timestamp_before_max_ms
        self.after_ms = config.message_timestamp_after_max_ms
        self.keys_required = config.is_compacted
        self.flush_messages = config.flush_messages
        self.kept_codecs = 0  # one bit for each codec
        for codec, kept_by in enumerate(KEPT_BY):
            if config.compression_type in kept_by and not (codec and config.limits_records):
                self.kept_codecs |= 1 << codec

    cpdef ValidatedBatch take(
        self, object records: memoryview, long long now_ms
    ):  # -> ValidatedBatch | None
        """Return the batch, ready to be appended; None if `validation.validate` must check it."""
        cdef long long size = len(records)
        cdef Plain plain
        cdef ValidatedBatch batch
        cdef int codec
        if size > self.max_bytes:
            return None
        plain = take_plain(
            records,
            now_ms - self.before_ms,
            INT64_MAX if self.after_ms > INT64_MAX - now_ms else now_ms + self.after_ms,
            self.keys_required,
            TRANSACTIONAL,
            self.kept_codecs,
        )
        codec = plain.attributes & CODEC_MASK
        if not plain.count or (
            codec and plain.count > (size - HEADER_SIZE) * MAX_RATIO[codec] // MIN_RECORD_BYTES
        ):
            return None
        batch = ValidatedBatch.__new__(ValidatedBatch)  # calling __init__ would double the cost
        batch.buffer = records
        batch.size = size
        batch.last_offset_delta = plain.last_offset_delta
        batch.count = plain.count
        batch.attributes = plain.attributes
        batch.max_timestamp = plain.max_timestamp
        batch.producer_id = plain.producer_id
        batch.producer_epoch = plain.producer_epoch
        batch.base_sequence = plain.base_sequence
        batch.log_append_time_ms = NO_TIMESTAMP
        batch.await_outcome()
        return batch

"""One producer of a partition (Kafka: ``ProducerStateEntry``)."""

cimport cython
from libc.stdint cimport INT32_MAX

from siltstone.protocol.core._format cimport row_of

from siltstone.storage.producers.entry import KEPT_BATCHES, AppendedBatch

cdef Py_ssize_t MOST = KEPT_BATCHES


@cython.final
cdef class ProducerEntry:
    """One producer: its epochs, its last batches and where its open transaction began.

    ``next_sequence`` is the first sequence that the next batch must have; 0 while the epoch has no
    batch. It changes after the log was written (KAFKA-6683), or is set back if the write fails.
    """

    def __init__(self, long long epoch):
        self.epoch = epoch
        self.coordinator_epoch = -1
        self.last_timestamp = -1
        self.transaction_first_offset = -1
        self.next_sequence = 0
        self.batches = []  # the last KEPT_BATCHES batches, the oldest first

    @property
    def last_batch(self) -> AppendedBatch | None:
        """Return the newest batch of the epoch."""
        return self.batches[len(self.batches) - 1] if self.batches else None

    def find_duplicate(self, first_sequence: int, last_sequence: int) -> AppendedBatch | None:
        """Return the batch with exactly these sequences."""
        for batch in self.batches:
            if batch.first_sequence == first_sequence and batch.last_sequence == last_sequence:
                return batch
        return None

    def begin_epoch(self, long long epoch):
        """Forget the batches of the previous epoch, if this epoch is new."""
        if epoch != self.epoch:
            self.epoch = epoch
            self.batches = []
            self.next_sequence = 0

    cpdef bint is_followed_by(self, long long epoch, long long first_sequence) except *:
        """Tell whether a batch is the producer's next one and the producer has no transaction."""
        return (
            first_sequence == self.next_sequence
            and epoch == self.epoch
            and self.transaction_first_offset < 0
        )

    cdef int expect(self, long long first_sequence, long long last_offset_delta) except -1:
        """Move ``next_sequence`` past a batch that waits to be written."""
        self.next_sequence = (first_sequence + last_offset_delta + 1) & INT32_MAX
        return 0

    cpdef note(
        self, long long first_sequence, long long last_offset_delta, long long first_offset,
        long long timestamp,
    ):
        """Note a batch that was written: it is the newest."""
        cdef long long last_sequence = -1
        cdef long long last_offset = first_offset + last_offset_delta
        if first_sequence >= 0:
            last_sequence = (first_sequence + last_offset_delta) & INT32_MAX
        fields = (first_sequence, last_sequence, first_offset, last_offset, timestamp)
        self.take(row_of(AppendedBatch, fields), last_sequence, timestamp)

    def add(self, batch: AppendedBatch):
        """Add a batch as the newest."""
        self.take(batch, batch.last_sequence, batch.timestamp)

    cdef int take(self, object batch, long long last_sequence, long long timestamp) except -1:
        cdef list batches = self.batches
        batches.append(batch)
        if len(batches) > MOST:
            del batches[0]
        self.next_sequence = (last_sequence + 1) & INT32_MAX
        self.last_timestamp = timestamp
        return 0

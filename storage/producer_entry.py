"""What a partition knows of one producer (Kafka: ``ProducerStateEntry``, ``BatchMetadata``)."""

from typing import Final, NamedTuple

SEQUENCES: Final = 1 << 31
"""Sequences run from 0 to 2147483647 and begin at 0 again."""
KEPT_BATCHES: Final = 5
"""As many batches as a client has in flight at most: what it may send again."""
NO_OFFSET: Final = -1


class AppendedBatch(NamedTuple):
    """One batch that is in the log; offsets and sequences are inclusive."""

    first_sequence: int
    last_sequence: int
    first_offset: int
    last_offset: int
    timestamp: int


class ProducerEntry:
    """One producer: its epochs, its last batches and where its open transaction began.

    ``next_sequence`` is the only one that a client may go on with; 0 as long as the epoch has no
    batch. Changed only after the log was written (KAFKA-6683).
    """

    __slots__ = (
        "batches",
        "coordinator_epoch",
        "epoch",
        "last_timestamp",
        "next_sequence",
        "transaction_first_offset",
    )

    def __init__(self, epoch: int) -> None:
        self.epoch = epoch
        self.coordinator_epoch = -1
        self.last_timestamp = -1
        self.transaction_first_offset = NO_OFFSET
        self.next_sequence = 0
        self.batches: list[AppendedBatch] = []  # the oldest first, KEPT_BATCHES at most

    @property
    def last_batch(self) -> AppendedBatch | None:
        """Return the newest batch of the epoch."""
        return self.batches[-1] if self.batches else None

    def find_duplicate(self, first_sequence: int, last_sequence: int) -> AppendedBatch | None:
        """Return the batch with exactly these sequences."""
        for batch in self.batches:
            if batch.first_sequence == first_sequence and batch.last_sequence == last_sequence:
                return batch
        return None

    def begin_epoch(self, epoch: int) -> None:
        """Forget the batches of the epoch before, if this is another one."""
        if epoch != self.epoch:
            self.epoch = epoch
            self.batches = []
            self.next_sequence = 0

    def add(self, batch: AppendedBatch) -> None:
        """Take a batch as the newest."""
        batches = self.batches
        batches.append(batch)
        if len(batches) > KEPT_BATCHES:
            del batches[0]
        self.next_sequence = (batch.last_sequence + 1) % SEQUENCES
        self.last_timestamp = batch.timestamp

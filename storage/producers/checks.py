"""Decides whether a producer's batch may be written (Kafka: ``ProducerAppendInfo``)."""

from enum import Enum
from typing import Protocol

from siltstone.protocol import errors
from siltstone.protocol.core.constants import TRANSACTIONAL
from siltstone.storage.producers.entry import SEQUENCES, AppendedBatch
from siltstone.storage.producers.markers import Marker
from siltstone.storage.producers.producer_entry import ProducerEntry
from siltstone.storage.topic_partition import TopicPartition


class Origin(Enum):
    """The origin of an append, which decides which rules the batch must keep."""

    CLIENT = "client"
    COORDINATOR = "coordinator"
    """Markers and committed offsets: epochs count, sequences do not."""
    REPLICATION = "replication"
    """Batches that are in the log already: every rule was checked when they were written."""


class ProducerBatch(Protocol):
    """The fields of a batch that matter here; `BatchHeader` and ``ValidatedBatch`` have them."""

    @property
    def producer_id(self) -> int:
        """Return the producer id; it is at least 0 for every batch that is checked here."""

    @property
    def producer_epoch(self) -> int:
        """Return the producer epoch."""

    @property
    def base_sequence(self) -> int:
        """Return the sequence of the first record."""

    @property
    def last_offset_delta(self) -> int:
        """Return how many offsets the batch spans, less one."""

    @property
    def attributes(self) -> int:
        """Return the attribute bits."""

    @property
    def max_timestamp(self) -> int:
        """Return the largest timestamp, ms."""


def check_data(
    entry: ProducerEntry, batch: ProducerBatch, origin: Origin, topic_partition: TopicPartition
) -> AppendedBatch | None:
    """Check a data batch against what its producer wrote; see `ProducerStateManager.check`."""
    if origin is Origin.REPLICATION:
        return None
    if batch.producer_epoch < entry.epoch:
        raise _fenced(entry, batch, topic_partition)
    if origin is Origin.CLIENT:
        duplicate = _check_sequence(entry, batch, topic_partition)
        if duplicate is not None:
            return duplicate
    if entry.transaction_first_offset >= 0 and not batch.attributes & TRANSACTIONAL:
        raise errors.InvalidTxnState(
            f"producer {batch.producer_id} has a transaction open in {topic_partition} "
            "and sent a batch outside of it; commit or abort first"
        )
    return None


def check_marker(
    entry: ProducerEntry,
    batch: ProducerBatch,
    marker: Marker,
    origin: Origin,
    topic_partition: TopicPartition,
) -> None:
    """Check the marker that ends a transaction; see `ProducerStateManager.check_marker`."""
    if origin is Origin.REPLICATION:
        return
    if batch.producer_epoch < entry.epoch:
        raise _fenced(entry, batch, topic_partition)
    if marker.coordinator_epoch < entry.coordinator_epoch:
        raise errors.TransactionCoordinatorFenced(
            f"coordinator epoch {marker.coordinator_epoch} is older than "
            f"{entry.coordinator_epoch}, which wrote to {topic_partition} for producer "
            f"{batch.producer_id}"
        )


def _check_sequence(
    entry: ProducerEntry, batch: ProducerBatch, topic_partition: TopicPartition
) -> AppendedBatch | None:
    """Return the earlier batch that this one repeats; its epoch is at least the known one."""
    first = batch.base_sequence
    if batch.producer_epoch != entry.epoch:
        if first != 0:
            raise errors.OutOfOrderSequence(
                f"producer {batch.producer_id} begins epoch {batch.producer_epoch} in "
                f"{topic_partition} with sequence {first} instead of 0"
            )
        return None
    if first == entry.next_sequence:
        return None
    duplicate = entry.find_duplicate(first, (first + batch.last_offset_delta) % SEQUENCES)
    if duplicate is None:
        raise errors.OutOfOrderSequence(
            f"producer {batch.producer_id} sent sequence {first} to {topic_partition} "
            f"where {entry.next_sequence} follows"
        )
    return duplicate


def _fenced(
    entry: ProducerEntry, batch: ProducerBatch, topic_partition: TopicPartition
) -> errors.InvalidProducerEpoch:
    return errors.InvalidProducerEpoch(
        f"epoch {batch.producer_epoch} of producer {batch.producer_id} is older than "
        f"{entry.epoch}, which wrote to {topic_partition}"
    )

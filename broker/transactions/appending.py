"""May a producer append within a transaction? (KIP-890, Kafka: ``AddPartitionsToTxnManager``).

A batch that belongs to no open transaction would open one in its partition that nobody ends, and
hold up every reader of committed records. So the first batch in a partition is held against the
coordinator; requests of newer versions make the partition part of the transaction by the way.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from siltstone.broker.transactions.transaction import FIRST_WITH_EPOCH_BUMP
from siltstone.protocol.errors import (
    ConcurrentTransactions,
    CoordinatorLoadInProgress,
    CoordinatorNotAvailable,
    InvalidProducerEpoch,
    InvalidRequest,
    InvalidTxnState,
    KafkaError,
    NotCoordinator,
    ProducerFenced,
    TransactionAbortable,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from siltstone.broker.transactions.coordinator import TransactionCoordinator
    from siltstone.protocol.records.journal import Producer
    from siltstone.storage.log.log import Log

TEMPORARY: Final = (
    ConcurrentTransactions,
    CoordinatorLoadInProgress,
    CoordinatorNotAvailable,
    NotCoordinator,
)
"""What may be otherwise in a moment; each API has a code of its own for it."""


class Rules(NamedTuple):
    """What a version of a request does: add partitions by the way; know TransactionAbortable."""

    adds: bool
    knows_abortable: bool


def admit(
    coordinator: TransactionCoordinator,
    transactional_id: str,
    producer: Producer,
    log: Log,
    partitions: Callable[[], Iterable[tuple[str, int]]],
    rules: Rules,
) -> None:
    """Return if the producer may append to the log now.

    ``partitions`` are those of the whole request, the log's among them: if they have to be added,
    all of them take one record.

    Raises:
        InvalidRequest: The transactional id is empty.
        InvalidProducerIdMapping: The transactional id is unknown, or another producer's.
        InvalidProducerEpoch: The producer has been replaced.
        TransactionAbortable: The partition is not part of the transaction; InvalidTxnState for
            older clients.
        KafkaError: One of `TEMPORARY`.
    """
    entry = log.producers.producers.get(producer.id)
    if entry is not None and entry.transaction_first_offset >= 0 and entry.epoch == producer.epoch:
        return
    if not transactional_id:
        raise InvalidRequest("a transactional id must not be empty")
    try:
        if rules.adds:
            coordinator.add_partitions(
                transactional_id, *producer, partitions(), client_version=FIRST_WITH_EPOCH_BUMP
            )
        elif coordinator.verifies_appends:
            coordinator.verify(transactional_id, *producer, log.topic_partition)
    except KafkaError as error:
        if not isinstance(error, TEMPORARY):
            coordinator.refused_count += 1
        translated = _translate(error, rules)
        if translated is error:
            raise
        raise translated from error


def _translate(error: KafkaError, rules: Rules) -> KafkaError:
    """Return a refusal as the clients of these requests know it."""
    if isinstance(error, ProducerFenced):
        return InvalidProducerEpoch(error.message)
    if isinstance(error, TransactionAbortable) and not rules.knows_abortable:
        return InvalidTxnState(error.message)
    return error

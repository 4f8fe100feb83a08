"""May a batch of a transaction be appended? (KIP-890, Kafka: ``AddPartitionsToTxnManager``).

A batch that belongs to no open transaction would open one in its partition that nobody ends, and
hold up every reader of committed records. So the first batch in a partition is held against the
coordinator; from Produce v12 on it makes the partition part of the transaction.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from broker.transactions.transaction import FIRST_WITH_EPOCH_BUMP
from protocol.errors import (
    ConcurrentTransactions,
    CoordinatorLoadInProgress,
    CoordinatorNotAvailable,
    InvalidProducerEpoch,
    InvalidProducerIdMapping,
    InvalidTxnState,
    KafkaError,
    NotCoordinator,
    NotEnoughReplicas,
    ProducerFenced,
    TransactionAbortable,
    TransactionalIdAuthorizationFailed,
)
from protocol.names import is_internal

if TYPE_CHECKING:
    from collections.abc import Iterator

    from broker.topics import TopicRegistry
    from broker.transactions.coordinator import TransactionCoordinator
    from protocol.produce import ProduceRequest
    from storage.log import Log
    from storage.validation import ValidatedBatch

_FIRST_WITH_ABORTABLE: Final = 11
_FIRST_THAT_ADDS: Final = 12
_TEMPORARY: Final = (
    ConcurrentTransactions,
    CoordinatorLoadInProgress,
    CoordinatorNotAvailable,
    NotCoordinator,
)


class TransactionalAppend:
    """The transaction that one Produce request writes in."""

    __slots__ = ("_coordinator", "_producer", "_request", "_topics", "_version")

    def __init__(
        self,
        coordinator: TransactionCoordinator,
        topics: TopicRegistry,
        request: ProduceRequest,
        version: int,
    ) -> None:
        self._coordinator = coordinator
        self._topics = topics
        self._request = request
        self._version = version
        self._producer: tuple[int, int] | None = None

    def admit(self, log: Log, batch: ValidatedBatch) -> None:
        """Return if a transactional batch may be appended.

        Raises:
            TransactionalIdAuthorizationFailed: The request names no transactional id.
            InvalidProducerIdMapping: The id is another producer's, or another producer's batch
                is in the same request.
            InvalidProducerEpoch: The producer has been replaced.
            TransactionAbortable: The partition is not part of the transaction; older clients get
                InvalidTxnState.
            NotEnoughReplicas: That cannot be told now; every client sends the batch again.
        """
        transactional_id = self._request.transactional_id
        if transactional_id is None:
            raise TransactionalIdAuthorizationFailed(
                "a transactional batch needs the transactional id in its request"
            )
        producer = batch.producer_id, batch.producer_epoch
        if self._producer is None:
            self._producer = producer
        elif self._producer != producer:
            raise InvalidProducerIdMapping(
                "the transactional batches of a request must be of one producer"
            )
        entry = log.producers.producers.get(batch.producer_id)
        if (
            entry is not None
            and entry.transaction_first_offset >= 0
            and entry.epoch == batch.producer_epoch
        ):
            return
        try:
            self._ask(transactional_id, producer, log)
        except ProducerFenced as error:
            raise InvalidProducerEpoch(error.message) from error
        except TransactionAbortable as error:
            if self._version < _FIRST_WITH_ABORTABLE:
                raise InvalidTxnState(error.message) from error
            raise
        except _TEMPORARY as error:
            raise NotEnoughReplicas(
                "Unable to verify the partition has been added to the transaction. "
                f"Underlying error: {error.code.name.upper()}"
            ) from error

    def _ask(self, transactional_id: str, producer: tuple[int, int], log: Log) -> None:
        coordinator = self._coordinator
        if self._version >= _FIRST_THAT_ADDS:
            # All of the request at once: one record instead of one for each partition.
            partitions = [log.topic_partition, *self._find_partitions()]
            coordinator.add_partitions(
                transactional_id, *producer, partitions, client_version=FIRST_WITH_EPOCH_BUMP
            )
        elif coordinator.verifies_appends:
            coordinator.verify(transactional_id, *producer, log.topic_partition)

    def _find_partitions(self) -> Iterator[tuple[str, int]]:
        """Yield the partitions of the request that there are."""
        for key, partitions in self._request.topics:
            for index, _ in partitions:
                try:
                    found = self._topics.find_log(key, index).topic_partition
                except KafkaError:
                    continue
                if not is_internal(found.topic):
                    yield found

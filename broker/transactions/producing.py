"""The transaction of one Produce request, and whether its producer may write (KIP-890).

A batch that belongs to no open transaction would open one in its partition. Nobody would end that
transaction, and every reader of committed records would wait. So the coordinator checks the first
batch in a partition; a request of a newer version also adds the partition to the transaction
(Kafka: ``AddPartitionsToTxnManager``).
"""

from collections.abc import Callable, Iterable, Iterator
from typing import Final, NamedTuple

from siltstone.broker.topics.registry import TopicRegistry
from siltstone.broker.transactions.coordinator import TransactionCoordinator
from siltstone.broker.transactions.transaction import FIRST_WITH_EPOCH_BUMP
from siltstone.protocol import errors
from siltstone.protocol.errors import KafkaError
from siltstone.protocol.messages.produce import ProduceRequest
from siltstone.protocol.names import FIRST_WITH_TOPIC_ID, is_internal
from siltstone.protocol.records.journal import Producer
from siltstone.storage.appending.batch import ValidatedBatch
from siltstone.storage.log.log import Log

TEMPORARY: Final = (
    errors.ConcurrentTransactions,
    errors.CoordinatorLoadInProgress,
    errors.CoordinatorNotAvailable,
    errors.NotCoordinator,
)
"""Refusals that may pass in a moment; each API has a code of its own for them."""


class Rules(NamedTuple):
    """The abilities of a request's version: to add partitions, and to know TransactionAbortable."""

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

    ``partitions`` are all partitions of the request, the log's included: if they have to be added,
    one record adds all.

    Raises:
        InvalidRequest: The transactional id is empty.
        InvalidProducerIdMapping: The transactional id is unknown, or another producer's.
        InvalidProducerEpoch: The producer has been replaced.
        TransactionAbortable: The partition is not part of the transaction; older clients get
            InvalidTxnState.
        KafkaError: One of `TEMPORARY`.
    """
    if producer.id < 0:
        raise errors.InvalidProducerIdMapping(f"no producer has the id {producer.id}")
    entry = log.producers.producers.get(producer.id)
    if entry is not None and entry.transaction_first_offset >= 0 and entry.epoch == producer.epoch:
        return
    if not transactional_id:
        raise errors.InvalidRequest("a transactional id must not be empty")
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
    """Return a refusal as an error that the request's version knows."""
    if isinstance(error, errors.ProducerFenced):
        return errors.InvalidProducerEpoch(error.message)
    if isinstance(error, errors.TransactionAbortable) and not rules.knows_abortable:
        return errors.InvalidTxnState(error.message)
    return error


_FIRST_WITH_ABORTABLE: Final = 11
_FIRST_THAT_ADDS: Final = 12


class TransactionalProduce:
    """Checks the batches of a request against their transaction, one after the other."""

    __slots__ = ("_by_id", "_coordinator", "_producer", "_request", "_rules", "_topics")

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
        self._rules = Rules(version >= _FIRST_THAT_ADDS, version >= _FIRST_WITH_ABORTABLE)
        self._by_id = version >= FIRST_WITH_TOPIC_ID
        self._producer: Producer | None = None

    def admit(self, log: Log, batch: ValidatedBatch) -> None:
        """Return if a transactional batch may be appended.

        Raises:
            TransactionalIdAuthorizationFailed: The request names no transactional id.
            InvalidProducerIdMapping: Another producer's batch is in the same request.
            NotEnoughReplicas: The check is not possible now; every client sends the batch again.
            KafkaError: See the function `admit`.
        """
        transactional_id = self._request.transactional_id
        if transactional_id is None:
            raise errors.TransactionalIdAuthorizationFailed(
                "a transactional batch needs the transactional id in its request"
            )
        producer = Producer(batch.producer_id, batch.producer_epoch)
        if self._producer is None:
            self._producer = producer
        elif self._producer != producer:
            raise errors.InvalidProducerIdMapping(
                "the transactional batches of a request must be of one producer"
            )
        try:
            admit(
                self._coordinator,
                transactional_id,
                producer,
                log,
                self._find_partitions,
                self._rules,
            )
        except TEMPORARY as error:
            raise errors.NotEnoughReplicas(
                "Unable to verify the partition has been added to the transaction. "
                f"Underlying error: {error.code.name.upper()}"
            ) from error

    def check_first(self, log: Log, batch: ValidatedBatch) -> None:
        """Refuse the first batch of a producer in a log, unless it begins the producer's epoch.

        Without this check, the second of two batches could open the transaction while the first has
        to be sent again; then the first would always be out of order. Older clients are not
        checked: they keep their epoch after the log has forgotten them.

        Raises:
            OutOfOrderSequence: The batch is not the first.
        """
        if not self._rules.adds or not batch.base_sequence:
            return
        entry = log.producers.producers.get(batch.producer_id)
        if entry is None or not entry.batches:
            raise errors.OutOfOrderSequence(
                f"producer {batch.producer_id} is not known in {log.topic_partition}; it begins "
                "with sequence 0 there"
            )

    def _find_partitions(self) -> Iterator[tuple[str, int]]:
        """Yield the partitions of the request that exist."""
        for name, topic_id, partitions in self._request.topic_data:
            key = topic_id if self._by_id else name
            for index, _ in partitions:
                try:
                    found = self._topics.find_log(key, index).topic_partition
                except KafkaError:
                    continue
                if not is_internal(found.topic):
                    yield found

"""The state of one transactional id, as a value (Kafka: ``TransactionMetadata``, KIP-98, KIP-890).

A transition gets the value and returns the next value, or raises the error for the client. The
coordinator writes the next value to ``__transaction_state`` before any client sees it. So there is
no pending state: after a failed write the old value still holds. `broker.transactions.initialising`
and `broker.transactions.ending` hold the two transitions with many cases.
"""

from collections.abc import Iterable
from enum import IntEnum
from typing import Final, NamedTuple

from siltstone.protocol.coordinator.transaction_records import NO_PRODUCER_ID, TransactionLogValue
from siltstone.protocol.errors import (
    ConcurrentTransactions,
    InvalidProducerIdMapping,
    InvalidTxnState,
    ProducerFenced,
    TransactionAbortable,
)

NO_EPOCH: Final = -1
MAX_EPOCH: Final = 32767
NOT_STARTED: Final = -1
NO_PARTITIONS: Final[frozenset[tuple[str, int]]] = frozenset()

FIRST_WITH_EPOCH_BUMP: Final = 2
"""The ``transaction.version`` since which the end of a transaction begins the next epoch."""


class TransactionState(IntEnum):
    """The state of a transactional id; the number is that in the record, the name is Kafka's."""

    EMPTY = 0
    ONGOING = 1
    PREPARE_COMMIT = 2
    PREPARE_ABORT = 3
    COMPLETE_COMMIT = 4
    COMPLETE_ABORT = 5
    DEAD = 6
    PREPARE_EPOCH_FENCE = 7
    """Known by name only: fencing and preparing the abort are one step here."""

    @property
    def title(self) -> str:
        """Return the name that tools print, such as ``PrepareCommit``."""
        return self.name.title().replace("_", "")


PREPARED: Final = frozenset({TransactionState.PREPARE_COMMIT, TransactionState.PREPARE_ABORT})
COMPLETED: Final = frozenset({TransactionState.COMPLETE_COMMIT, TransactionState.COMPLETE_ABORT})
BETWEEN: Final = COMPLETED | {TransactionState.EMPTY}
"""The states in which no transaction is open."""


class Transaction(NamedTuple):
    """A transactional id: its producer, and its open or last transaction.

    The fields are those of the record, in its order, and ``last_epoch``: the epoch before it, by
    which a retry is recognised. A restart loses ``last_epoch``, as in Kafka. ``client_version`` is
    the ``transaction.version`` of the client's requests.
    """

    producer_id: int
    previous_producer_id: int
    next_producer_id: int
    producer_epoch: int
    timeout_ms: int
    state: TransactionState
    partitions: frozenset[tuple[str, int]]
    started_ms: int
    updated_ms: int
    client_version: int
    last_epoch: int = NO_EPOCH

    @classmethod
    def of(cls, value: TransactionLogValue) -> "Transaction":
        """Return the transaction of a record.

        Raises:
            ValueError: The state does not exist, or is open in the epoch that only fences.
        """
        state = TransactionState(value.status)
        if state is TransactionState.ONGOING and value.producer_epoch >= MAX_EPOCH:
            raise ValueError(f"no transaction is open in epoch {MAX_EPOCH}, which only fences")
        return cls(*value[:5], state, *value[6:])

    @property
    def logged(self) -> TransactionLogValue:
        """Return the value for the record."""
        return TransactionLogValue(*self[:-1])

    @property
    def is_exhausted(self) -> bool:
        """Whether the producer id has no epoch left for another producer."""
        return self.producer_epoch >= MAX_EPOCH - 1

    @property
    def is_commit(self) -> bool:
        """Whether the transaction is committed or will be."""
        return self.state in {TransactionState.PREPARE_COMMIT, TransactionState.COMPLETE_COMMIT}

    def is_timed_out(self, now_ms: int) -> bool:
        """Whether an open transaction has lasted longer than its producer asked for."""
        is_open = self.state is TransactionState.ONGOING
        return is_open and self.started_ms + self.timeout_ms < now_ms

    def is_expired(self, now_ms: int, expiration_ms: int) -> bool:
        """Whether the id was unused for so long that it can be forgotten."""
        return self.state in BETWEEN and self.updated_ms <= now_ms - expiration_ms


def check_producer(transaction: Transaction | None, producer_id: int, epoch: int) -> Transaction:
    """Return the transaction of a known id if it is this producer's.

    Raises:
        InvalidProducerIdMapping: The transactional id is unknown, or has another producer id.
        ProducerFenced: The producer has another epoch.
    """
    if transaction is None:
        raise InvalidProducerIdMapping
    if transaction.producer_id != producer_id:
        raise InvalidProducerIdMapping(
            f"the transactional id belongs to producer {transaction.producer_id}, not {producer_id}"
        )
    if transaction.producer_epoch != epoch or epoch >= MAX_EPOCH:  # the last epoch only fences
        raise ProducerFenced(
            f"epoch {epoch} of producer {producer_id} is not its current one, "
            f"{transaction.producer_epoch}"
        )
    return transaction


def check_settled(transaction: Transaction) -> None:
    """Refuse a request while markers of the transaction are still to be written.

    Raises:
        ConcurrentTransactions: Markers are still to be written.
    """
    if transaction.state in PREPARED:
        raise ConcurrentTransactions


def verify_partition(
    transaction: Transaction | None, producer_id: int, epoch: int, partition: tuple[str, int]
) -> None:
    """Check that a batch may be appended to a partition within the transaction.

    Raises:
        InvalidProducerIdMapping: See `check_producer`.
        ProducerFenced: See `check_producer`.
        ConcurrentTransactions: The transaction before is being completed.
        TransactionAbortable: The partition is not part of an open transaction.
    """
    transaction = check_producer(transaction, producer_id, epoch)
    check_settled(transaction)
    if partition not in transaction.partitions:
        topic, index = partition
        raise TransactionAbortable(f"{topic}-{index} was not added to the transaction")


def add_partitions(
    transaction: Transaction | None,
    producer_id: int,
    epoch: int,
    partitions: Iterable[tuple[str, int]],
    *,
    client_version: int,
    now_ms: int,
) -> Transaction:
    """Return the open transaction with more partitions; the given value if it has them all.

    Raises:
        InvalidProducerIdMapping: See `check_producer`.
        ProducerFenced: See `check_producer`.
        ConcurrentTransactions: The transaction before is being completed.
    """
    if transaction is not None:
        check_settled(transaction)  # first, since the producer id may be about to change (KIP-890)
    transaction = check_producer(transaction, producer_id, epoch)
    is_open = transaction.state is TransactionState.ONGOING
    before = transaction.partitions if is_open else NO_PARTITIONS
    added = before.union(partitions)
    if is_open and len(added) == len(before):
        return transaction
    return transaction._replace(
        state=TransactionState.ONGOING,
        partitions=added,
        started_ms=transaction.started_ms if is_open else now_ms,
        updated_ms=now_ms,
        client_version=client_version,
    )


def complete(transaction: Transaction, now_ms: int) -> Transaction:
    """Return the state that follows a prepared transaction once all markers are written."""
    is_commit = transaction.state is TransactionState.PREPARE_COMMIT
    completed = transaction._replace(
        state=TransactionState.COMPLETE_COMMIT if is_commit else TransactionState.COMPLETE_ABORT,
        partitions=NO_PARTITIONS,
        updated_ms=now_ms,
    )
    if transaction.next_producer_id == NO_PRODUCER_ID:
        return completed
    # The epochs of the old id are used up. The client has seen the last epoch but one; 0 comes
    # next.
    return completed._replace(
        producer_id=transaction.next_producer_id,
        previous_producer_id=transaction.producer_id,
        next_producer_id=NO_PRODUCER_ID,
        producer_epoch=0,
    )


def refuse_state(transaction: Transaction, wanted: str) -> InvalidTxnState:
    """Return the refusal of an operation that this state does not allow."""
    return InvalidTxnState(
        f"producer {transaction.producer_id} cannot {wanted} in state {transaction.state.title}"
    )

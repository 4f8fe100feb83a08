"""EndTxn, time-outs and fencing: how a transaction gets from open to prepared (KIP-98, KIP-890).

Clients with ``transaction.version`` 2 get the epoch of their next transaction when this transaction
ends, so that late batches have an old epoch. Older clients keep their epoch.
"""

from typing import Final, NamedTuple

from siltstone.broker.transactions.transaction import (
    BETWEEN,
    COMPLETED,
    FIRST_WITH_EPOCH_BUMP,
    MAX_EPOCH,
    NO_EPOCH,
    NO_PARTITIONS,
    PREPARED,
    Transaction,
    TransactionState,
    check_producer,
    check_settled,
    refuse_state,
)
from siltstone.protocol import errors
from siltstone.protocol.coordinator.transaction_records import NO_PRODUCER_ID

_LAST_CLIENT_EPOCH: Final = MAX_EPOCH - 1


class End(NamedTuple):
    """The end that an EndTxn asks for, and the ``transaction.version`` whose rules apply."""

    producer_id: int
    producer_epoch: int
    is_commit: bool
    client_version: int

    @property
    def wanted(self) -> str:
        """Return the name of the wanted end, for a message."""
        return "commit" if self.is_commit else "abort"


def takes_new_id(transaction: Transaction, end: End) -> bool:
    """Whether the next transaction needs another producer id, since the epochs are used up."""
    return transaction.is_exhausted and end.client_version >= FIRST_WITH_EPOCH_BUMP


def end_transaction(
    transaction: Transaction | None, end: End, *, new_producer_id: int, now_ms: int
) -> Transaction:
    """Return the prepared state; the given value if the request is a retry after the end.

    ``new_producer_id`` is used only if `takes_new_id` says so.

    Raises:
        InvalidProducerIdMapping: The transactional id is unknown, or has another producer id.
        ProducerFenced: The producer has another epoch, or could go on only with the last epoch.
        ConcurrentTransactions: The same end is being carried out.
        InvalidTxnState: There is nothing to end, or the transaction has ended the other way.
    """
    if end.client_version < FIRST_WITH_EPOCH_BUMP:
        return _end_keeping_epoch(transaction, end, now_ms)
    if transaction is None:
        raise errors.InvalidProducerIdMapping
    if _is_retry(transaction, end):
        if transaction.state in PREPARED and transaction.is_commit == end.is_commit:
            raise errors.ConcurrentTransactions
        if transaction.state in COMPLETED and transaction.is_commit == end.is_commit:
            if transaction.producer_epoch > _LAST_CLIENT_EPOCH:  # the last epoch, which only fences
                raise errors.ProducerFenced(f"producer {end.producer_id} has no epoch left")
            return transaction
        raise refuse_state(transaction, end.wanted)
    check_producer(transaction, end.producer_id, end.producer_epoch)
    check_settled(transaction)
    if transaction.state in BETWEEN and end.is_commit:
        raise refuse_state(transaction, end.wanted)
    return prepare(transaction, end, new_producer_id=new_producer_id, now_ms=now_ms)


def prepare(
    transaction: Transaction, end: End, *, new_producer_id: int, now_ms: int
) -> Transaction:
    """Return the state whose record decides the transaction: once written, it will be completed.

    ``new_producer_id`` is used only if `takes_new_id` says so.
    """
    is_open = transaction.state is TransactionState.ONGOING
    is_bumped = end.client_version >= FIRST_WITH_EPOCH_BUMP
    return transaction._replace(
        next_producer_id=new_producer_id if takes_new_id(transaction, end) else NO_PRODUCER_ID,
        producer_epoch=transaction.producer_epoch + is_bumped,
        last_epoch=transaction.producer_epoch if is_bumped else transaction.last_epoch,
        state=TransactionState.PREPARE_COMMIT if end.is_commit else TransactionState.PREPARE_ABORT,
        partitions=transaction.partitions if is_open else NO_PARTITIONS,
        started_ms=transaction.started_ms if is_open else now_ms,
        updated_ms=now_ms,
        client_version=end.client_version,
    )


def fencing(transaction: Transaction, version: int) -> End:
    """Return the `End` with which the broker itself aborts a transaction in this version."""
    return End(transaction.producer_id, transaction.producer_epoch, False, version)


def fence(
    transaction: Transaction, *, version: int, new_producer_id: int, now_ms: int
) -> Transaction:
    """Return the prepared abort of an open transaction, with an epoch unknown to its producer.

    ``version`` is the broker's ``transaction.version``; ``new_producer_id`` is used only if
    `takes_new_id` says so.
    """
    end = fencing(transaction, version)
    prepared = prepare(transaction, end, new_producer_id=new_producer_id, now_ms=now_ms)
    if version >= FIRST_WITH_EPOCH_BUMP:
        return prepared
    return prepared._replace(producer_epoch=transaction.producer_epoch + 1, last_epoch=NO_EPOCH)


def _end_keeping_epoch(transaction: Transaction | None, end: End, now_ms: int) -> Transaction:
    transaction = check_producer(transaction, end.producer_id, end.producer_epoch)
    if transaction.state is TransactionState.ONGOING:
        return prepare(transaction, end, new_producer_id=NO_PRODUCER_ID, now_ms=now_ms)
    if transaction.state is TransactionState.EMPTY or transaction.is_commit != end.is_commit:
        raise refuse_state(transaction, end.wanted)
    check_settled(transaction)
    return transaction


def _is_retry(transaction: Transaction, end: End) -> bool:
    """Whether the producer has its next epoch already, from the end that this retry asks for."""
    if transaction.state not in PREPARED | COMPLETED:
        return False
    if end.producer_id == transaction.producer_id:
        return end.producer_epoch + 1 == transaction.producer_epoch
    is_previous = end.producer_id == transaction.previous_producer_id
    return (
        is_previous
        and end.producer_epoch == _LAST_CLIENT_EPOCH
        and transaction.producer_epoch == 0
        and transaction.state in COMPLETED
    )

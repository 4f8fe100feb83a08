"""InitProducerId with a transactional id: which epoch the next producer gets (KIP-98, 360, 890)."""

from typing import NamedTuple

from siltstone.broker.transactions import ending
from siltstone.broker.transactions.transaction import (
    MAX_EPOCH,
    NO_EPOCH,
    NO_PARTITIONS,
    NOT_STARTED,
    Transaction,
    TransactionState,
    check_settled,
)
from siltstone.protocol.coordinator.transaction_records import NO_PRODUCER_ID
from siltstone.protocol.errors import ProducerFenced


class Expected(NamedTuple):
    """The producer id and epoch that a producer says it has, when it asks for the next epoch."""

    producer_id: int
    producer_epoch: int


def begin(producer_id: int, timeout_ms: int, now_ms: int) -> Transaction:
    """Return the first state of a transactional id that was not used yet."""
    return Transaction(
        producer_id=producer_id,
        previous_producer_id=NO_PRODUCER_ID,
        next_producer_id=NO_PRODUCER_ID,
        producer_epoch=0,
        timeout_ms=timeout_ms,
        state=TransactionState.EMPTY,
        partitions=NO_PARTITIONS,
        started_ms=NOT_STARTED,
        updated_ms=now_ms,
        client_version=0,
    )


def takes_new_id(transaction: Transaction, expected: Expected | None, version: int) -> bool:
    """Whether the next producer needs a new producer id, because this id's epochs are used up.

    ``version`` is the broker's ``transaction.version``, whose rules apply if an open transaction is
    aborted.
    """
    if transaction.state is TransactionState.ONGOING:
        return ending.takes_new_id(transaction, ending.fencing(transaction, version))
    is_current = expected is None or expected.producer_epoch == transaction.producer_epoch
    return transaction.is_exhausted and is_current


def initialise(
    transaction: Transaction,
    expected: Expected | None,
    timeout_ms: int,
    *,
    new_producer_id: int,
    version: int,
    now_ms: int,
) -> Transaction:
    """Return the state with the next producer's epoch; in `PREPARE_ABORT`, the producer must wait.

    An open transaction is aborted with an epoch that no client gets, which fences its producer; the
    caller answers ConcurrentTransactions and the client asks again. ``new_producer_id`` is used
    only if `takes_new_id` says so; ``version`` is the broker's ``transaction.version``.

    Raises:
        ConcurrentTransactions: The transaction before is being completed.
        ProducerFenced: Another producer has begun since this one did.
    """
    check_settled(transaction)
    if expected is not None and not _may_go_on(transaction, expected):
        raise ProducerFenced
    if transaction.state is TransactionState.ONGOING:
        return ending.fence(
            transaction, version=version, new_producer_id=new_producer_id, now_ms=now_ms
        )
    following = transaction._replace(
        state=TransactionState.EMPTY,
        timeout_ms=timeout_ms,
        partitions=NO_PARTITIONS,
        started_ms=NOT_STARTED,
        updated_ms=now_ms,
    )
    if takes_new_id(transaction, expected, version):
        return following._replace(
            producer_id=new_producer_id,
            previous_producer_id=transaction.producer_id,
            producer_epoch=0,
            last_epoch=NO_EPOCH if expected is None else transaction.producer_epoch,
        )
    if expected is None:
        last_epoch = NO_EPOCH
    elif expected.producer_epoch == transaction.producer_epoch:
        last_epoch = transaction.producer_epoch
    elif expected.producer_epoch == transaction.last_epoch:
        return following  # sent again: the answer got lost
    else:
        raise ProducerFenced
    return following._replace(producer_epoch=transaction.producer_epoch + 1, last_epoch=last_epoch)


def _may_go_on(transaction: Transaction, expected: Expected) -> bool:
    """Whether the id is the current one, or the one before because the last answer got lost."""
    if expected.producer_id == transaction.producer_id:
        return True
    is_previous = expected.producer_id == transaction.previous_producer_id
    return is_previous and expected.producer_epoch >= MAX_EPOCH - 1

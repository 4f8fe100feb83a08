"""Records of ``__transaction_state``: a transactional id and its state at the coordinator.

Version 1 of a value is written from ``transaction.version`` 1 on (KIP-890). A record without a
value means that the id has expired.
"""

from collections.abc import Iterable
from functools import lru_cache
from typing import Final, NamedTuple

from siltstone.protocol.coordinator import headed
from siltstone.protocol.messages import transaction_state as tables
from siltstone.protocol.messages.transaction_state import TRANSACTION_LOG_KEY, TRANSACTION_LOG_VALUE
from siltstone.protocol.parts import Buffer

NO_PRODUCER_ID: Final = -1
NEWEST: Final = TRANSACTION_LOG_VALUE.last

_EMPTY: Final = 0  # the state that writes null for its partitions
_NO_EPOCH: Final = -1  # no last epoch: the next producer id begins with 0
_FEW: Final = 100  # partitions; a thousand sets of so many may be kept


class TransactionLogValue(NamedTuple):
    """One value; partitions are pairs (topic, index), which are absent in the state Empty."""

    producer_id: int
    previous_producer_id: int
    next_producer_id: int
    producer_epoch: int
    timeout_ms: int
    status: int
    partitions: frozenset[tuple[str, int]]
    started_ms: int
    updated_ms: int
    client_version: int


def encode_key(transactional_id: str) -> bytes:
    """Return the key of a transactional id."""
    return headed.write_key(TRANSACTION_LOG_KEY, (transactional_id,))


def decode_key(key: Buffer) -> str | None:
    """Return the transactional id that a key names; None for a key of another kind.

    Raises:
        ProtocolError: The key is cut short, or the id is too long.
    """
    if headed.read_head(key) != TRANSACTION_LOG_KEY.key:
        return None
    (transactional_id,) = headed.read_body(TRANSACTION_LOG_KEY, 0, key)
    found: str = transactional_id
    return found


def encode_value(value: TransactionLogValue, version: int = NEWEST) -> bytes:
    """Return a value's bytes; version 0 lacks other producer ids and the client's version."""
    producer_id, previous_id, next_id, epoch, timeout_ms, status, partitions, *rest = value
    started_ms, updated_ms, client_version = rest
    topics = None if status == _EMPTY else _put_partitions(partitions)
    head = producer_id, previous_id, next_id, epoch, _NO_EPOCH, timeout_ms, status
    row = *head, topics, updated_ms, started_ms, client_version
    return headed.write_value(TRANSACTION_LOG_VALUE, version, row)


def decode_value(value: Buffer) -> TransactionLogValue:
    """Return the content of a value of version 0 or 1.

    Raises:
        ProtocolError: The value is cut short, or has an unknown version.
    """
    row: tables.TransactionLogValue = headed.read_value(TRANSACTION_LOG_VALUE, value)
    return TransactionLogValue(
        producer_id=row.producer_id,
        previous_producer_id=row.previous_producer_id,
        next_producer_id=row.next_producer_id,
        producer_epoch=row.producer_epoch,
        timeout_ms=row.transaction_timeout_ms,
        status=row.transaction_status,
        partitions=frozenset(
            (topic, index) for topic, each in row.transaction_partitions or () for index in each
        ),
        started_ms=row.transaction_start_timestamp_ms,
        updated_ms=row.transaction_last_update_timestamp_ms,
        client_version=row.client_transaction_version,
    )


def group_by_topic(partitions: Iterable[tuple[str, int]]) -> dict[str, list[int]]:
    """Return the indexes of each topic, both in order."""
    topics: dict[str, list[int]] = {}
    for topic, index in partitions:
        topics.setdefault(topic, []).append(index)
    return {topic: sorted(topics[topic]) for topic in sorted(topics)}


def _put_partitions(partitions: frozenset[tuple[str, int]]) -> tuple[tables.PartitionsSchema, ...]:
    """Return partitions as topics; cached, since a producer often uses the same partitions."""
    return (_group_few if len(partitions) <= _FEW else _group)(partitions)


def _group(partitions: frozenset[tuple[str, int]]) -> tuple[tables.PartitionsSchema, ...]:
    topics = group_by_topic(partitions).items()
    return tuple(tables.PartitionsSchema(topic, indexes) for topic, indexes in topics)


_group_few = lru_cache(maxsize=1024)(_group)

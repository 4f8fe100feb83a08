"""The meaning of the records of internal topics, for dumps."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any
from uuid import UUID

from siltstone.broker.share.state import DeliveryState
from siltstone.broker.transactions.transaction import TransactionState
from siltstone.protocol.coordinator import consumer_group_records as consumer_records
from siltstone.protocol.coordinator import (
    group_records,
    share_state_records,
    streams_group_records,
    transaction_records,
)
from siltstone.protocol.errors import ProtocolError
from siltstone.protocol.messages.consumer_offsets import OffsetCommitKey
from siltstone.protocol.names import OFFSETS_TOPIC, SHARE_STATE_TOPIC, TRANSACTIONS_TOPIC, uuid_text
from siltstone.storage.dump.line import plain

if TYPE_CHECKING:
    from pathlib import Path

    from siltstone.protocol.records.record import Record

    Facts = dict[str, object]


def describe_for(log: Path) -> Callable[[Record], Facts | None] | None:
    """Return the function that describes the records of a ``.log``; None for a topic of users."""
    describe = find_reader(log.absolute().parent.name.rpartition("-")[0])
    return None if describe is None else _safely(describe)


def find_reader(topic: str) -> Callable[[bytes, bytes | None], Facts | None] | None:
    """Return the function that reads the records of an internal topic; None for other topics.

    It returns None for a record of a kind that it does not know, and raises ProtocolError or
    ValueError for one that cannot be read.
    """
    readers = {
        OFFSETS_TOPIC: _describe_group,
        SHARE_STATE_TOPIC: _describe_queue,
        TRANSACTIONS_TOPIC: _describe_transaction,
    }
    return readers.get(topic)


def _safely(
    describe: Callable[[bytes, bytes | None], Facts | None],
) -> Callable[[Record], Facts | None]:
    """Return a function that shows a record as bytes if its value does not fit its key."""

    def one(record: Record) -> Facts | None:
        if record.key is None:
            return None
        try:
            return describe(record.key, record.value)
        except (ProtocolError, ValueError):
            return None

    return one


def _describe_group(key: bytes, value: bytes | None) -> Facts | None:
    classic = group_records.read_key(key)
    if isinstance(classic, OffsetCommitKey):
        facts: Facts = {
            "about": "offset",
            "group": classic.group,
            "topic": classic.topic,
            "partition": classic.partition,
        }
        return facts | _told(None if value is None else group_records.read_offset(value))
    if classic is not None:
        facts = {"about": "classic group", "group": classic.group}
        if value is None:
            return facts | _told(None)
        group = group_records.read_group(value)
        members = [each.client_id for each in group.members]
        return facts | {
            "generation": group.generation,
            "protocol": group.protocol,
            "leader": group.leader,
            "clients": members,
        }
    for records in (consumer_records, streams_group_records):
        known: Any = records.decode_key(key)
        if known is not None:
            facts = {"about": known.type.name.lower().replace("_", " "), "group": known.group_id}
            if known.name:
                facts["name"] = known.name
            decode: Any = records.decode_value
            return facts | _told(None if value is None else decode(known.type, value))
    return None


def _describe_transaction(key: bytes, value: bytes | None) -> Facts | None:
    transactional_id = transaction_records.decode_key(key)
    if transactional_id is None:
        return None
    facts: Facts = {"about": "transaction", "transactional_id": transactional_id}
    if value is None:
        return facts | _told(None)
    row = transaction_records.decode_value(value)
    partitions = [f"{topic}-{index}" for topic, index in sorted(row.partitions)]
    return facts | {
        "state": TransactionState(row.status).name,
        "producer_id": row.producer_id,
        "producer_epoch": row.producer_epoch,
        "timeout_ms": row.timeout_ms,
        "started_ms": row.started_ms,
        "partitions": partitions,
    }


def _describe_queue(key: bytes, value: bytes | None) -> Facts | None:
    known = share_state_records.decode_key(key)
    if known is None:
        return None
    facts: Facts = {
        "about": "update of a queue" if known.is_update else "snapshot of a queue",
        "group": known.group_id,
        "topic_id": uuid_text(known.topic_id),
        "partition": known.partition,
    }
    if value is None:
        return facts | _told(None)
    told = share_state_records.decode_value(known, value)
    batches = [
        {
            "offsets": f"{first}-{last}",
            "state": DeliveryState(state).name,
            "delivery_count": count,
        }
        for first, last, state, count in told.state_batches
    ]
    return facts | _told(told) | {"state_batches": batches}


def _told(value: Any) -> Facts:
    """Return the fields of a value; a record without a value deletes what its key names."""
    if value is None:
        return {"deleted": True}
    fields: Facts = value._asdict() if hasattr(value, "_asdict") else {"value": value}
    topic_id = fields.get("topic_id")
    if isinstance(topic_id, bytes):
        fields["topic_id"] = UUID(bytes=topic_id)
    return {name: plain(each) for name, each in fields.items()}

"""Records of `__consumer_offsets` that keep share groups (KIP-932).

This module turns the rows of `protocol.messages.share_group_offsets` into the values that groups
work with. A record without a value deletes the thing that its key names. Type 9 is of brokers
before 4.1, which never left their preview.

| type | name | second string of the key | value |
| --- | --- | --- | --- |
| 10 | MemberMetadata | member id | `MemberMetadata` |
| 11 | Metadata | - | `GroupMetadata` |
| 12 | TargetAssignmentMetadata | - | `TargetMetadata` |
| 13 | TargetAssignmentMember | member id | partitions by topic |
| 14 | CurrentMemberAssignment | member id | `CurrentAssignment` |
| 15 | StatePartitionMetadata | - | `StatePartitions` |
"""

from collections.abc import Iterable, Mapping
from enum import IntEnum
from typing import Any, Final, NamedTuple, TypeAlias
from uuid import UUID

from siltstone.protocol.coordinator import headed
from siltstone.protocol.coordinator.group_keys import GroupKey, GroupKeys
from siltstone.protocol.messages import share_group_offsets as tables
from siltstone.protocol.messages.share_group_offsets import (
    ShareGroupMemberMetadataValue as MemberMetadata,
)
from siltstone.protocol.messages.share_group_offsets import ShareGroupMetadataValue as GroupMetadata
from siltstone.protocol.messages.share_group_offsets import (
    ShareGroupTargetAssignmentMetadataValue as TargetMetadata,
)
from siltstone.protocol.messages.share_group_offsets import (
    TopicInfo,
    TopicPartition,
    TopicPartitions,
    TopicPartitionsInfo,
)
from siltstone.protocol.parts import Buffer

__all__ = [
    "KEYS", "NO_STATES", "CurrentAssignment", "GroupMetadata", "MemberMetadata", "Partitions",
    "RecordType", "ShareGroupKey", "StatePartitions", "StateTopic", "TargetMetadata", "Value",
    "decode_key", "decode_value", "encode_key", "encode_value",
]  # fmt: skip

Partitions: TypeAlias = Mapping[UUID, frozenset[int]]
"""Partitions by topic id."""

_VERSION: Final = 0


class RecordType(IntEnum):
    """The types of keys that belong to share groups."""

    MEMBER_METADATA = 10
    METADATA = 11
    TARGET_METADATA = 12
    TARGET_MEMBER = 13
    CURRENT_ASSIGNMENT = 14
    STATE_PARTITIONS = 15


ShareGroupKey: TypeAlias = GroupKey[RecordType]
"""The subject of a record of a share group."""


class CurrentAssignment(NamedTuple):
    """The partitions that a member has been given, and the epoch of the target that they are of."""

    member_epoch: int
    previous_member_epoch: int
    state: int
    assigned: Partitions


class StateTopic(NamedTuple):
    """Partitions of a topic that have a delivery state, or are about to get one.

    ``since_ms`` is when that began; no record has it.
    """

    name: str
    partitions: frozenset[int]
    since_ms: int = 0


class StatePartitions(NamedTuple):
    """The partitions whose delivery state is being made, exists, or is being deleted."""

    initializing: Mapping[UUID, StateTopic]
    initialized: Mapping[UUID, StateTopic]
    deleting: Mapping[UUID, str]


NO_STATES: Final = StatePartitions({}, {}, {})

Value: TypeAlias = (
    GroupMetadata
    | MemberMetadata
    | TargetMetadata
    | Partitions
    | CurrentAssignment
    | StatePartitions
)

KEYS: Final = GroupKeys(
    RecordType,
    {
        RecordType.MEMBER_METADATA: tables.SHARE_GROUP_MEMBER_METADATA_KEY,
        RecordType.METADATA: tables.SHARE_GROUP_METADATA_KEY,
        RecordType.TARGET_METADATA: tables.SHARE_GROUP_TARGET_ASSIGNMENT_METADATA_KEY,
        RecordType.TARGET_MEMBER: tables.SHARE_GROUP_TARGET_ASSIGNMENT_MEMBER_KEY,
        RecordType.CURRENT_ASSIGNMENT: tables.SHARE_GROUP_CURRENT_MEMBER_ASSIGNMENT_KEY,
        RecordType.STATE_PARTITIONS: tables.SHARE_GROUP_STATE_PARTITION_METADATA_KEY,
    },
)
_VALUES: Final = {
    RecordType.MEMBER_METADATA: tables.SHARE_GROUP_MEMBER_METADATA_VALUE,
    RecordType.METADATA: tables.SHARE_GROUP_METADATA_VALUE,
    RecordType.TARGET_METADATA: tables.SHARE_GROUP_TARGET_ASSIGNMENT_METADATA_VALUE,
    RecordType.TARGET_MEMBER: tables.SHARE_GROUP_TARGET_ASSIGNMENT_MEMBER_VALUE,
    RecordType.CURRENT_ASSIGNMENT: tables.SHARE_GROUP_CURRENT_MEMBER_ASSIGNMENT_VALUE,
    RecordType.STATE_PARTITIONS: tables.SHARE_GROUP_STATE_PARTITION_METADATA_VALUE,
}

encode_key = KEYS.encode
decode_key = KEYS.decode


def encode_value(kind: RecordType, value: Value) -> bytes:
    """Return the bytes of a value under a key of this type."""
    row: Any = value
    match value:
        case CurrentAssignment():
            assigned = [
                TopicPartitions(topic.bytes, sorted(each)) for topic, each in value.assigned.items()
            ]
            row = (*value[:3], assigned)
        case StatePartitions():
            row = (
                _put_topics(value.initializing),
                _put_topics(value.initialized),
                [TopicInfo(topic.bytes, name) for topic, name in value.deleting.items()],
            )
        case Mapping():
            row = ([TopicPartition(topic.bytes, sorted(each)) for topic, each in value.items()],)
    return headed.write_value(_VALUES[kind], _VERSION, row)


def decode_value(kind: RecordType, value: Buffer) -> Value:
    """Return the content of a value under a key of this type.

    Raises:
        ProtocolError: the value is cut short, of an unknown version, or has an epoch that is too
            high.
    """
    row: Any = headed.read_value(_VALUES[kind], value)
    match kind:
        case RecordType.METADATA | RecordType.TARGET_METADATA:
            headed.check_epoch(row[0])
        case RecordType.MEMBER_METADATA:
            row = row._replace(subscribed_topic_names=tuple(sorted(row.subscribed_topic_names)))
        case RecordType.TARGET_MEMBER:
            return _read_partitions(row.topic_partitions)
        case RecordType.CURRENT_ASSIGNMENT:
            epoch, previous, state, assigned = row
            headed.check_epoch(epoch)
            headed.check_epoch(previous)
            return CurrentAssignment(epoch, previous, state, _read_partitions(assigned))
        case RecordType.STATE_PARTITIONS:
            initializing, initialized, deleting = row
            return StatePartitions(
                _read_topics(initializing),
                _read_topics(initialized),
                {UUID(bytes=topic): name for topic, name in deleting},
            )
    read: Value = row
    return read


def _read_partitions(rows: Iterable[tuple[bytes, Iterable[int]]]) -> Partitions:
    return {UUID(bytes=topic): frozenset(each) for topic, each in rows}


def _put_topics(topics: Mapping[UUID, StateTopic]) -> list[TopicPartitionsInfo]:
    return [
        TopicPartitionsInfo(topic.bytes, each.name, sorted(each.partitions))
        for topic, each in topics.items()
    ]


def _read_topics(rows: Iterable[TopicPartitionsInfo]) -> dict[UUID, StateTopic]:
    return {
        UUID(bytes=topic): StateTopic(name, frozenset(partitions))
        for topic, name, partitions in rows
    }

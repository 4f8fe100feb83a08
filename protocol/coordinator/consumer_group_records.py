"""Records of `__consumer_offsets` that keep consumer groups of the consumer protocol (KIP-848).

This module turns the rows of `protocol.messages.consumer_offsets` into the values that groups work
with. A record without a value deletes the thing that its key names.

| type | name | second string of the key | value |
| --- | --- | --- | --- |
| 3 | Metadata | - | `GroupMetadata` |
| 4 | PartitionMetadata | - | of brokers before 4.1; only tombstones are written |
| 5 | MemberMetadata | member id | `MemberMetadata` |
| 6 | TargetAssignmentMetadata | - | `TargetMetadata` |
| 7 | TargetAssignmentMember | member id | partitions by topic |
| 8 | CurrentMemberAssignment | member id | `CurrentAssignment` |
| 16 | RegularExpression | the expression | `ResolvedRegex` |
"""

from collections.abc import Iterable, Mapping
from enum import IntEnum
from typing import Any, Final, NamedTuple, TypeAlias
from uuid import UUID

from siltstone.protocol.coordinator import headed
from siltstone.protocol.coordinator.group_keys import GroupKey, GroupKeys
from siltstone.protocol.messages import consumer_offsets as tables
from siltstone.protocol.messages.consumer_offsets import (
    ClassicMemberMetadata,
    ClassicProtocol,
    TopicPartition,
    TopicPartitions,
)
from siltstone.protocol.messages.consumer_offsets import (
    ConsumerGroupMemberMetadataValue as MemberMetadata,
)
from siltstone.protocol.messages.consumer_offsets import ConsumerGroupMetadataValue as GroupMetadata
from siltstone.protocol.messages.consumer_offsets import (
    ConsumerGroupPartitionMetadataValue as LegacyPartitionMetadata,
)
from siltstone.protocol.messages.consumer_offsets import (
    ConsumerGroupTargetAssignmentMetadataValue as TargetMetadata,
)
from siltstone.protocol.parts import Buffer

__all__ = [
    "KEYS", "ConsumerGroupKey", "CurrentAssignment", "GroupMetadata", "LegacyPartitionMetadata",
    "MemberMetadata", "OwnedPartitions", "Partitions", "RecordType", "ResolvedRegex",
    "TargetMetadata", "Value", "classic_metadata", "decode_key", "decode_value", "encode_key",
    "encode_value",
]  # fmt: skip

Partitions: TypeAlias = Mapping[UUID, frozenset[int]]
"""Partitions by topic id."""

OwnedPartitions: TypeAlias = Mapping[UUID, Mapping[int, int]]
"""Partitions by topic id, each with the member epoch in which its owner got it."""

_VERSION: Final = 0
_NOT_CLASSIC: Final = ClassicMemberMetadata()


class RecordType(IntEnum):
    """The types of keys that belong to consumer groups."""

    METADATA = 3
    PARTITION_METADATA = 4
    MEMBER_METADATA = 5
    TARGET_METADATA = 6
    TARGET_MEMBER = 7
    CURRENT_ASSIGNMENT = 8
    REGULAR_EXPRESSION = 16


ConsumerGroupKey: TypeAlias = GroupKey[RecordType]
"""The subject of a record of a consumer group."""


class CurrentAssignment(NamedTuple):
    """How far a member is on its way to its target assignment."""

    member_epoch: int
    previous_member_epoch: int
    state: int
    assigned: OwnedPartitions
    revoking: OwnedPartitions


class ResolvedRegex(NamedTuple):
    """The topics that an expression matched, the version of the topics, and the time."""

    topics: frozenset[str]
    version: int
    timestamp_ms: int


Value: TypeAlias = (
    GroupMetadata
    | LegacyPartitionMetadata
    | MemberMetadata
    | TargetMetadata
    | Partitions
    | CurrentAssignment
    | ResolvedRegex
)

KEYS: Final = GroupKeys(
    RecordType,
    {
        RecordType.METADATA: tables.CONSUMER_GROUP_METADATA_KEY,
        RecordType.PARTITION_METADATA: tables.CONSUMER_GROUP_PARTITION_METADATA_KEY,
        RecordType.MEMBER_METADATA: tables.CONSUMER_GROUP_MEMBER_METADATA_KEY,
        RecordType.TARGET_METADATA: tables.CONSUMER_GROUP_TARGET_ASSIGNMENT_METADATA_KEY,
        RecordType.TARGET_MEMBER: tables.CONSUMER_GROUP_TARGET_ASSIGNMENT_MEMBER_KEY,
        RecordType.CURRENT_ASSIGNMENT: tables.CONSUMER_GROUP_CURRENT_MEMBER_ASSIGNMENT_KEY,
        RecordType.REGULAR_EXPRESSION: tables.CONSUMER_GROUP_REGULAR_EXPRESSION_KEY,
    },
)
_VALUES: Final = {
    RecordType.METADATA: tables.CONSUMER_GROUP_METADATA_VALUE,
    RecordType.PARTITION_METADATA: tables.CONSUMER_GROUP_PARTITION_METADATA_VALUE,
    RecordType.MEMBER_METADATA: tables.CONSUMER_GROUP_MEMBER_METADATA_VALUE,
    RecordType.TARGET_METADATA: tables.CONSUMER_GROUP_TARGET_ASSIGNMENT_METADATA_VALUE,
    RecordType.TARGET_MEMBER: tables.CONSUMER_GROUP_TARGET_ASSIGNMENT_MEMBER_VALUE,
    RecordType.CURRENT_ASSIGNMENT: tables.CONSUMER_GROUP_CURRENT_MEMBER_ASSIGNMENT_VALUE,
    RecordType.REGULAR_EXPRESSION: tables.CONSUMER_GROUP_REGULAR_EXPRESSION_VALUE,
}

encode_key = KEYS.encode
decode_key = KEYS.decode


def classic_metadata(
    session_timeout_ms: int, protocols: Iterable[tuple[str, bytes]]
) -> ClassicMemberMetadata:
    """Return the JoinGroup metadata of a member that speaks the classic protocol."""
    return ClassicMemberMetadata(
        session_timeout_ms, tuple(ClassicProtocol(*each) for each in protocols)
    )


def encode_value(kind: RecordType, value: Value) -> bytes:
    """Return the bytes of a value under a key of this type."""
    row: Any = value
    match value:
        case CurrentAssignment():
            epochs = _put_owned(value.assigned), _put_owned(value.revoking)
            row = (*value[:3], *epochs)
        case ResolvedRegex():
            row = (sorted(value.topics), *value[1:])
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
            return _settle(row)
        case RecordType.TARGET_MEMBER:
            return {UUID(bytes=topic): frozenset(each) for topic, each in row.topic_partitions}
        case RecordType.CURRENT_ASSIGNMENT:
            epoch, previous, state, assigned, revoking = row
            headed.check_epoch(epoch)
            headed.check_epoch(previous)
            return CurrentAssignment(
                epoch, previous, state, _read_owned(assigned, epoch), _read_owned(revoking, epoch)
            )
        case RecordType.REGULAR_EXPRESSION:
            return ResolvedRegex(frozenset(row.topics), *row[1:])
    read: Value = row
    return read


def _settle(member: MemberMetadata) -> MemberMetadata:
    """Return a member in the form in which clients' requests are compared, with sorted topic names.

    For a member that is not classic, older versions of this broker wrote nothing where Kafka writes
    an empty entry.
    """
    classic = member.classic_member_metadata
    return member._replace(
        subscribed_topic_names=tuple(sorted(member.subscribed_topic_names)),
        classic_member_metadata=None
        if classic is None or classic == _NOT_CLASSIC
        else classic_metadata(*classic),
    )


def _put_owned(owned: OwnedPartitions) -> list[TopicPartitions]:
    rows = []
    for topic_id, epochs in owned.items():
        partitions = sorted(epochs)
        rows.append(
            TopicPartitions(topic_id.bytes, partitions, [epochs[each] for each in partitions])
        )
    return rows


def _read_owned(rows: Iterable[TopicPartitions], epoch: int) -> dict[UUID, dict[int, int]]:
    """Read partitions with epochs; brokers before 4.3 wrote none, so the member's epoch counts."""
    owned = {}
    for topic_id, partitions, said in rows:
        epochs = said if said and len(said) == len(partitions) else [epoch] * len(partitions)
        owned[UUID(bytes=topic_id)] = dict(zip(partitions, epochs, strict=True))
    return owned

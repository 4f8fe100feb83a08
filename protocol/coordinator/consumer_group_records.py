"""Records of `__consumer_offsets` that keep consumer groups of the consumer protocol (KIP-848).

Kafka's ConsumerGroup…Key and …Value, written as 4.3.1 writes them. A key is its type as an int16
and one or two strings with int16 lengths; a value is its version, 0, as an int16 and fields in the
compact encoding with tagged fields. No value: the thing is gone. The file is long because it is
the table of all of them.

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

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import IntEnum
from struct import Struct
from types import MappingProxyType
from typing import Final, NamedTuple, TypeAlias
from uuid import UUID

from protocol.coordinator.fields import FieldReader, put_array, put_bytes, put_tags
from protocol.errors import ProtocolError
from protocol.primitives import CLASSIC, COMPACT, Buffer

Partitions: TypeAlias = Mapping[UUID, frozenset[int]]
"""Partitions by topic id."""

OwnedPartitions: TypeAlias = Mapping[UUID, Mapping[int, int]]
"""Partitions by topic id, each with the member epoch in which its owner got it."""

_VALUE_VERSION: Final = 0
_INT8 = Struct(">b")
_INT16 = Struct(">h")
_INT32 = Struct(">i")
_INT64 = Struct(">q")


class RecordType(IntEnum):
    """The types of keys that are a consumer group's."""

    METADATA = 3
    PARTITION_METADATA = 4
    MEMBER_METADATA = 5
    TARGET_METADATA = 6
    TARGET_MEMBER = 7
    CURRENT_ASSIGNMENT = 8
    REGULAR_EXPRESSION = 16


_WITH_NAME: Final = frozenset(
    {
        RecordType.MEMBER_METADATA,
        RecordType.TARGET_MEMBER,
        RecordType.CURRENT_ASSIGNMENT,
        RecordType.REGULAR_EXPRESSION,
    }
)


class ConsumerGroupKey(NamedTuple):
    """What a record is about; ``name`` is a member id or an expression where the type has one."""

    type: RecordType
    group_id: str
    name: str = ""


class GroupMetadata(NamedTuple):
    """The group epoch, and the hash of the subscribed topics that it was bumped for."""

    epoch: int
    metadata_hash: int


class LegacyPartitionMetadata(NamedTuple):
    """There is a record of subscribed topics as brokers before 4.1 wrote it."""


class ClassicMetadata(NamedTuple):
    """What a member that speaks the classic protocol said when it joined."""

    session_timeout_ms: int
    protocols: tuple[tuple[str, bytes], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class MemberMetadata:
    """Who a member is and what it subscribes to; names of topics are in order."""

    instance_id: str | None
    rack_id: str | None
    client_id: str
    client_host: str
    subscribed_topic_names: tuple[str, ...]
    subscribed_topic_regex: str | None
    rebalance_timeout_ms: int
    server_assignor: str | None
    classic: ClassicMetadata | None


class TargetMetadata(NamedTuple):
    """The epoch of the target assignment, and when it was computed (0: unknown)."""

    epoch: int
    timestamp_ms: int


class CurrentAssignment(NamedTuple):
    """How far a member is on its way to its target assignment."""

    member_epoch: int
    previous_member_epoch: int
    state: int
    assigned: OwnedPartitions
    revoking: OwnedPartitions


class ResolvedRegex(NamedTuple):
    """The topics that an expression matched, by which version of the topics and when."""

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


def encode_key(key: ConsumerGroupKey) -> bytes:
    """Return the bytes of a key."""
    encoded = _INT16.pack(key.type) + CLASSIC.put_string(key.group_id)
    return encoded + CLASSIC.put_string(key.name) if key.type in _WITH_NAME else encoded


def decode_key(key: Buffer) -> ConsumerGroupKey | None:
    """Return what a key is about; None if it is of another type.

    Raises:
        ProtocolError: it is cut short, or a name is too long.
    """
    reader = FieldReader(key, CLASSIC)
    try:
        kind = RecordType(reader.number(_INT16))
    except ValueError:
        return None
    group_id = reader.string()
    return ConsumerGroupKey(kind, group_id, reader.string() if kind in _WITH_NAME else "")


def encode_value(value: Value) -> bytes:
    """Return the bytes of a value.

    Raises:
        TypeError: it is of a kind that is never written.
    """
    match value:
        case GroupMetadata():
            hashed = {0: _INT64.pack(value.metadata_hash)} if value.metadata_hash else {}
            body = _INT32.pack(value.epoch) + put_tags(hashed)
        case MemberMetadata():
            body = _encode_member(value)
        case TargetMetadata():
            computed = {0: _INT64.pack(value.timestamp_ms)} if value.timestamp_ms else {}
            body = _INT32.pack(value.epoch) + put_tags(computed)
        case CurrentAssignment():
            head = _INT32.pack(value.member_epoch) + _INT32.pack(value.previous_member_epoch)
            state = _INT8.pack(value.state)
            body = head + state + _encode_owned(value.assigned) + _encode_owned(value.revoking)
            body += COMPACT.no_tags
        case ResolvedRegex():
            topics = put_array(COMPACT.put_string(name) for name in sorted(value.topics))
            times = _INT64.pack(value.version) + _INT64.pack(value.timestamp_ms)
            body = topics + times + COMPACT.no_tags
        case Mapping():
            body = put_array(_encode_topic(*each) for each in value.items()) + COMPACT.no_tags
        case _:
            raise TypeError(f"{type(value).__name__} is never written")
    return _INT16.pack(_VALUE_VERSION) + body


def decode_value(kind: RecordType, value: Buffer) -> Value:
    """Return what a value under a key of this type says.

    Raises:
        ProtocolError: it is cut short, or of a version that nobody knows.
    """
    reader = FieldReader(value, COMPACT)
    version = reader.number(_INT16)
    if version != _VALUE_VERSION:
        raise ProtocolError(f"a value of record type {kind} has version {version}; 0 is known")
    return _READERS[kind](reader)


def _decode_group(reader: FieldReader) -> GroupMetadata:
    epoch = reader.epoch()
    return GroupMetadata(epoch, reader.tagged_number(0, _INT64))


def _decode_target(reader: FieldReader) -> TargetMetadata:
    epoch = reader.epoch()
    return TargetMetadata(epoch, reader.tagged_number(0, _INT64))


def _decode_regex(reader: FieldReader) -> ResolvedRegex:
    topics = frozenset(reader.array(FieldReader.string))
    return ResolvedRegex(topics, reader.number(_INT64), reader.number(_INT64))


def _encode_member(member: MemberMetadata) -> bytes:
    classic = {} if member.classic is None else {0: _encode_classic(member.classic)}
    return b"".join(
        (
            COMPACT.put_string(member.instance_id),
            COMPACT.put_string(member.rack_id),
            COMPACT.put_string(member.client_id),
            COMPACT.put_string(member.client_host),
            put_array(COMPACT.put_string(name) for name in member.subscribed_topic_names),
            COMPACT.put_string(member.subscribed_topic_regex),
            _INT32.pack(member.rebalance_timeout_ms),
            COMPACT.put_string(member.server_assignor),
            put_tags(classic),
        )
    )


def _encode_classic(classic: ClassicMetadata) -> bytes:
    """A nullable structure in a tagged field begins with 1, like every one that is not null."""
    protocols = put_array(
        COMPACT.put_string(name) + put_bytes(metadata) + COMPACT.no_tags
        for name, metadata in classic.protocols
    )
    return b"\1" + _INT32.pack(classic.session_timeout_ms) + protocols + COMPACT.no_tags


def _decode_member(reader: FieldReader) -> MemberMetadata:
    instance_id, rack_id = reader.nullable_string(), reader.nullable_string()
    client_id, client_host = reader.string(), reader.string()
    names = reader.array(FieldReader.string)
    regex = reader.nullable_string()
    rebalance_timeout_ms = reader.number(_INT32)
    server_assignor = reader.nullable_string()
    tagged = reader.tags().get(0)
    return MemberMetadata(
        instance_id=instance_id,
        rack_id=rack_id,
        client_id=client_id,
        client_host=client_host,
        subscribed_topic_names=tuple(sorted(names)),
        subscribed_topic_regex=regex,
        rebalance_timeout_ms=rebalance_timeout_ms,
        server_assignor=server_assignor,
        classic=None if tagged is None else _decode_classic(tagged),
    )


def _decode_classic(reader: FieldReader) -> ClassicMetadata | None:
    if reader.number(_INT8) < 0:
        return None
    session_timeout_ms = reader.number(_INT32)
    return ClassicMetadata(session_timeout_ms, tuple(reader.array(_decode_protocol)))


def _decode_protocol(reader: FieldReader) -> tuple[str, bytes]:
    protocol = reader.string(), reader.data()
    reader.tags()
    return protocol


def _encode_topic(topic_id: UUID, partitions: frozenset[int]) -> bytes:
    return topic_id.bytes + put_array(map(_INT32.pack, sorted(partitions))) + COMPACT.no_tags


def _decode_topic(reader: FieldReader) -> tuple[UUID, frozenset[int]]:
    topic = reader.uuid(), frozenset(reader.numbers(_INT32))
    reader.tags()
    return topic


def _encode_owned(owned: OwnedPartitions) -> bytes:
    topics = []
    for topic_id, epochs in owned.items():
        ordered = sorted(epochs.items())
        partitions = put_array(_INT32.pack(partition) for partition, _ in ordered)
        assigned_in = put_array(_INT32.pack(epoch) for _, epoch in ordered)
        topics.append(topic_id.bytes + partitions + put_tags({0: assigned_in}))
    return put_array(topics)


def _decode_current(reader: FieldReader) -> CurrentAssignment:
    epoch, previous = reader.epoch(), reader.epoch()
    state = reader.number(_INT8)

    def decode_owned(topic: FieldReader) -> tuple[UUID, dict[int, int]]:
        """Brokers before 4.3 kept no epochs of partitions; the member's then holds for all."""
        topic_id, partitions = topic.uuid(), topic.numbers(_INT32)
        tagged = topic.tags().get(0)
        epochs = [] if tagged is None else tagged.numbers(_INT32)
        if len(epochs) != len(partitions):
            epochs = [epoch] * len(partitions)
        return topic_id, dict(zip(partitions, epochs, strict=True))

    assigned = dict(reader.array(decode_owned))
    return CurrentAssignment(epoch, previous, state, assigned, dict(reader.array(decode_owned)))


_READERS: Final[Mapping[RecordType, Callable[[FieldReader], Value]]] = MappingProxyType(
    {
        RecordType.METADATA: _decode_group,
        RecordType.PARTITION_METADATA: lambda _: LegacyPartitionMetadata(),
        RecordType.MEMBER_METADATA: _decode_member,
        RecordType.TARGET_METADATA: _decode_target,
        RecordType.TARGET_MEMBER: lambda reader: dict(reader.array(_decode_topic)),
        RecordType.CURRENT_ASSIGNMENT: _decode_current,
        RecordType.REGULAR_EXPRESSION: _decode_regex,
    }
)

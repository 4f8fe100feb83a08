"""Records of `__consumer_offsets` that keep streams groups (KIP-1071).

This module turns the rows of `protocol.messages.streams_group_offsets` into the values that groups
work with. A record without a value deletes the thing that its key names.

| type | name | second string of the key | value |
| --- | --- | --- | --- |
| 17 | Metadata | - | `GroupMetadata` |
| 19 | MemberMetadata | member id | `MemberMetadata` |
| 20 | TargetAssignmentMetadata | - | `TargetMetadata` |
| 21 | TargetAssignmentMember | member id | `Tasks` |
| 22 | CurrentMemberAssignment | member id | `CurrentAssignment` |
| 23 | Topology | - | `Topology` |
"""

from collections.abc import Iterable, Mapping, Sequence
from enum import IntEnum
from types import MappingProxyType
from typing import Any, Final, NamedTuple, TypeAlias

from siltstone.protocol.coordinator import headed
from siltstone.protocol.messages import streams_group_offsets as tables
from siltstone.protocol.messages.streams_group_offsets import (
    CopartitionGroup,
    Endpoint,
    KeyValue,
    LastAssignmentConfig,
    Subtopology,
    TaskIds,
    TopicConfig,
    TopicInfo,
)
from siltstone.protocol.messages.streams_group_offsets import (
    StreamsGroupCurrentMemberAssignmentTaskIds as HeldTaskIds,
)
from siltstone.protocol.messages.streams_group_offsets import (
    StreamsGroupMemberMetadataValue as MemberMetadata,
)
from siltstone.protocol.messages.streams_group_offsets import (
    StreamsGroupMetadataValue as GroupMetadata,
)
from siltstone.protocol.messages.streams_group_offsets import (
    StreamsGroupTargetAssignmentMetadataValue as TargetMetadata,
)
from siltstone.protocol.messages.streams_group_offsets import (
    StreamsGroupTopologyValue as Topology,
)
from siltstone.protocol.parts import Buffer

__all__ = [
    "CopartitionGroup", "CurrentAssignment", "Endpoint", "GroupMetadata", "HeldTasks", "KeyValue",
    "LastAssignmentConfig", "MemberMetadata", "RecordType", "StreamsGroupKey", "Subtopology",
    "TargetMetadata", "TaskSet", "Tasks", "TopicConfig", "TopicInfo", "Topology", "Value",
    "decode_key", "decode_value", "encode_key", "encode_value", "settle_topology",
]  # fmt: skip

TaskSet: TypeAlias = Mapping[str, frozenset[int]]
"""Tasks: partitions by the id of the subtopology."""

_VERSION: Final = 0
_NONE: Final[Mapping[str, Any]] = MappingProxyType({})


class RecordType(IntEnum):
    """The types of keys that belong to streams groups."""

    METADATA = 17
    MEMBER_METADATA = 19
    TARGET_METADATA = 20
    TARGET_MEMBER = 21
    CURRENT_ASSIGNMENT = 22
    TOPOLOGY = 23


class StreamsGroupKey(NamedTuple):
    """The subject of a record; ``name`` is the member id, if the type has one."""

    type: RecordType
    group_id: str
    name: str = ""


class Tasks(NamedTuple):
    """The tasks of a member by their role."""

    active: TaskSet = _NONE
    standby: TaskSet = _NONE
    warmup: TaskSet = _NONE


class HeldTasks(NamedTuple):
    """The tasks that a member has; an active one with the member epoch in which it got it."""

    active: Mapping[str, Mapping[int, int]] = _NONE
    standby: TaskSet = _NONE
    warmup: TaskSet = _NONE


class CurrentAssignment(NamedTuple):
    """How far a member is on its way to its target assignment."""

    member_epoch: int
    previous_member_epoch: int
    state: int
    assigned: HeldTasks
    revoking: HeldTasks


Value: TypeAlias = (
    GroupMetadata | MemberMetadata | TargetMetadata | Tasks | CurrentAssignment | Topology
)

_KEYS: Final = {
    RecordType.METADATA: tables.STREAMS_GROUP_METADATA_KEY,
    RecordType.MEMBER_METADATA: tables.STREAMS_GROUP_MEMBER_METADATA_KEY,
    RecordType.TARGET_METADATA: tables.STREAMS_GROUP_TARGET_ASSIGNMENT_METADATA_KEY,
    RecordType.TARGET_MEMBER: tables.STREAMS_GROUP_TARGET_ASSIGNMENT_MEMBER_KEY,
    RecordType.CURRENT_ASSIGNMENT: tables.STREAMS_GROUP_CURRENT_MEMBER_ASSIGNMENT_KEY,
    RecordType.TOPOLOGY: tables.STREAMS_GROUP_TOPOLOGY_KEY,
}
_VALUES: Final = {
    RecordType.METADATA: tables.STREAMS_GROUP_METADATA_VALUE,
    RecordType.MEMBER_METADATA: tables.STREAMS_GROUP_MEMBER_METADATA_VALUE,
    RecordType.TARGET_METADATA: tables.STREAMS_GROUP_TARGET_ASSIGNMENT_METADATA_VALUE,
    RecordType.TARGET_MEMBER: tables.STREAMS_GROUP_TARGET_ASSIGNMENT_MEMBER_VALUE,
    RecordType.CURRENT_ASSIGNMENT: tables.STREAMS_GROUP_CURRENT_MEMBER_ASSIGNMENT_VALUE,
    RecordType.TOPOLOGY: tables.STREAMS_GROUP_TOPOLOGY_VALUE,
}


def encode_key(key: StreamsGroupKey) -> bytes:
    """Return the bytes of a key."""
    message = _KEYS[key.type]
    has_name = len(message.struct.__annotations__) > 1
    return headed.write_key(message, (key.group_id, key.name) if has_name else (key.group_id,))


def decode_key(key: Buffer) -> StreamsGroupKey | None:
    """Return the subject of a key; None if the key has another type.

    Raises:
        ProtocolError: the key is cut short, or a name is too long.
    """
    try:
        kind = RecordType(headed.read_head(key))
    except ValueError:
        return None
    return StreamsGroupKey(kind, *headed.read_body(_KEYS[kind], 0, key))


def encode_value(kind: RecordType, value: Value) -> bytes:
    """Return the bytes of a value under a key of this type."""
    row: Any = value
    match value:
        case CurrentAssignment():
            row = (*value[:3], *_put_held(value.assigned), *_put_held(value.revoking))
        case Tasks():
            row = tuple(
                [TaskIds(name, sorted(each)) for name, each in sorted(role.items())]
                for role in value
            )
    return headed.write_value(_VALUES[kind], _VERSION, row)


def decode_value(kind: RecordType, value: Buffer) -> Value:
    """Return the content of a value under a key of this type.

    Raises:
        ProtocolError: the value is cut short, of an unknown version, or has an epoch that is too
            high.
    """
    row: Any = headed.read_value(_VALUES[kind], value)
    match kind:
        case RecordType.METADATA:
            headed.check_epoch(row.epoch)
            return GroupMetadata(*row)._replace(
                last_assignment_configs=tuple(row.last_assignment_configs or ())
            )
        case RecordType.TARGET_METADATA:
            headed.check_epoch(row.assignment_epoch)
        case RecordType.MEMBER_METADATA:
            return MemberMetadata(*row)._replace(client_tags=tuple(sorted(row.client_tags)))
        case RecordType.TARGET_MEMBER:
            return Tasks(*map(_read_tasks, row))
        case RecordType.CURRENT_ASSIGNMENT:
            epoch, previous, state, *roles = row
            headed.check_epoch(epoch)
            headed.check_epoch(previous)
            return CurrentAssignment(
                epoch, previous, state, _read_held(roles[:3], epoch), _read_held(roles[3:], epoch)
            )
        case RecordType.TOPOLOGY:
            return settle_topology(row)
    read: Value = row
    return read


def settle_topology(row: Any) -> Topology:
    """Return a topology from a record or a request in the one form in which they are compared."""
    return Topology(
        row.epoch,
        tuple(
            Subtopology(
                each.subtopology_id,
                tuple(each.source_topics),
                tuple(each.source_topic_regex),
                _settle_topics(each.state_changelog_topics),
                tuple(each.repartition_sink_topics),
                _settle_topics(each.repartition_source_topics),
                tuple(CopartitionGroup(*map(tuple, some)) for some in each.copartition_groups),
            )
            for each in row.subtopologies
        ),
    )


def _settle_topics(topics: Iterable[Any]) -> tuple[TopicInfo, ...]:
    return tuple(
        TopicInfo(name, partitions, replicas, tuple(TopicConfig(*each) for each in configs))
        for name, partitions, replicas, configs in topics
    )


def _put_held(held: HeldTasks) -> list[list[HeldTaskIds]]:
    active = []
    for name, epochs in sorted(held.active.items()):
        partitions = sorted(epochs)
        active.append(HeldTaskIds(name, partitions, [epochs[each] for each in partitions]))
    return [active] + [
        [HeldTaskIds(name, sorted(each)) for name, each in sorted(role.items())]
        for role in (held.standby, held.warmup)
    ]


def _read_tasks(rows: Iterable[Any]) -> dict[str, frozenset[int]]:
    return {row[0]: frozenset(row[1]) for row in rows}


def _read_held(roles: Sequence[Iterable[HeldTaskIds]], epoch: int) -> HeldTasks:
    """Read tasks; where no epochs were written for active ones, the member's epoch counts."""
    active, standby, warmup = roles
    held = {}
    for name, partitions, said in active:
        epochs = said if said and len(said) == len(partitions) else [epoch] * len(partitions)
        held[name] = dict(zip(partitions, epochs, strict=True))
    return HeldTasks(held, _read_tasks(standby), _read_tasks(warmup))

"""A share group (KIP-932), as its records describe it (Kafka: ShareGroup).

The group does no I/O and has no clock. Only `apply` changes the group: it applies a record, which
comes from the journal at the start and from a transition later. The transitions are functions of
the modules beside this one; each writes through `broker.groups.share.changes`.
"""

from collections.abc import Mapping
from typing import Final
from uuid import UUID

from siltstone.broker.groups.epoch_group import DELETED_EPOCH, EpochGroup
from siltstone.broker.groups.member_bytes import bytes_of
from siltstone.broker.groups.share.member import GONE_ASSIGNMENT, Member
from siltstone.broker.groups.topic_image import ImageTopic, TopicImage
from siltstone.protocol.coordinator.share_group_records import (
    NO_STATES,
    CurrentAssignment,
    GroupMetadata,
    MemberMetadata,
    RecordType,
    ShareGroupKey,
    StatePartitions,
    StateTopic,
    TargetMetadata,
    Value,
)

PROTOCOL_TYPE: Final = "share"
_STATE_BYTES: Final = (400, 60)
"""The memory for a topic with delivery states, besides its name, and for a partition of it."""


class ShareGroup(EpochGroup[Member]):
    """One group (loop only).

    ``states`` says which partitions have a delivery state; members get no other partitions. A
    partition may be assigned to several members.
    """

    __slots__ = ("states",)

    protocol_type: Final = PROTOCOL_TYPE

    def __init__(self, group_id: str, partition: int) -> None:
        super().__init__(group_id, partition)
        self.states = NO_STATES

    @property
    def state(self) -> str:
        """The name of the state, as tools print it."""
        return "Stable" if self.members else "Empty"

    def subscribed_names(self) -> set[str]:
        """Return the topics that the members subscribe to."""
        names: set[str] = set()
        for member in self.members.values():
            names.update(member.metadata.subscribed_topic_names)
        return names

    def subscribed_topics(self, image: TopicImage) -> list[ImageTopic]:
        """Return the existing topics that the members subscribe to, in the order of their names."""
        found = map(image.find, sorted(self.subscribed_names()))
        return [topic for topic in found if topic is not None]

    def apply(self, key: ShareGroupKey, value: Value | None, user: str = "") -> None:
        """Apply a record, which deletes if it has no value; ``user`` is the user of its member."""
        match value:
            case GroupMetadata():
                self.epoch, self.metadata_hash = value
            case MemberMetadata():
                member = self.members.get(key.name, Member(key.name))
                self.keep(member._replace(metadata=value, user=user or member.user))
            case TargetMetadata():
                self.target_epoch, self.target_timestamp_ms = value
            case CurrentAssignment():
                member = self.members.get(key.name, Member(key.name))
                self.keep(member._replace(current=value))
            case StatePartitions():
                self._set_states(value)
            case None:
                self._delete(key)
            case _:
                self.aim(key.name, value)

    def value_of(self, key: ShareGroupKey) -> Value | None:
        """Return the value with which `apply` would restore what the group has now."""
        member = self.members.get(key.name)
        known: dict[RecordType, Value | None] = {
            RecordType.MEMBER_METADATA: None if member is None else member.metadata,
            RecordType.METADATA: GroupMetadata(self.epoch, self.metadata_hash),
            RecordType.TARGET_METADATA: TargetMetadata(self.target_epoch, self.target_timestamp_ms),
            RecordType.TARGET_MEMBER: self.targets.get(key.name),
            RecordType.CURRENT_ASSIGNMENT: None if member is None else member.current,
            RecordType.STATE_PARTITIONS: self.states,
        }
        return known[key.type]

    def _delete(self, key: ShareGroupKey) -> None:
        match key.type:
            case RecordType.MEMBER_METADATA:
                self.drop(key.name)
            case RecordType.TARGET_METADATA:
                self.target_epoch, self.target_timestamp_ms = DELETED_EPOCH, 0
            case RecordType.TARGET_MEMBER:
                self.aim(key.name, None)
            case RecordType.CURRENT_ASSIGNMENT:
                member = self.members.get(key.name)
                if member is not None:
                    self.keep(member._replace(current=GONE_ASSIGNMENT))
            case RecordType.STATE_PARTITIONS:
                self._set_states(NO_STATES)
            case RecordType.METADATA:
                pass  # the caller drops the group

    def _set_states(self, states: StatePartitions) -> None:
        self.size += _size_of(states) - _size_of(self.states)
        self.states = states


def _size_of(states: StatePartitions) -> int:
    size = bytes_of(states.deleting.values()) + len(states.deleting) * _STATE_BYTES[0]
    return size + _size_of_topics(states.initializing) + _size_of_topics(states.initialized)


def _size_of_topics(topics: Mapping[UUID, StateTopic]) -> int:
    topic_bytes, partition_bytes = _STATE_BYTES
    return sum(
        topic_bytes + bytes_of((each.name,)) + len(each.partitions) * partition_bytes
        for each in topics.values()
    )

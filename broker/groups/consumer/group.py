"""A group of the consumer protocol (KIP-848), as its records describe it.

Kafka's ConsumerGroup and ModernGroup. The group does no I/O and has no clock. Only `apply` changes
the group: it applies a record, which comes from the journal at the start and from a transition
later. The transitions are functions of the modules beside this one; each writes through
`broker.groups.consumer.changes`.
"""

from collections.abc import Iterable
from sys import getsizeof
from typing import Final
from uuid import UUID

from siltstone.broker.groups.consumer.member import GONE_ASSIGNMENT, Member
from siltstone.broker.groups.epoch_group import DELETED_EPOCH, EpochGroup
from siltstone.broker.groups.topic_image import TopicImage
from siltstone.protocol.coordinator.consumer_group_records import (
    ConsumerGroupKey,
    CurrentAssignment,
    GroupMetadata,
    LegacyPartitionMetadata,
    MemberMetadata,
    OwnedPartitions,
    RecordType,
    ResolvedRegex,
    TargetMetadata,
    Value,
)
from siltstone.protocol.coordinator.consumer_protocol import PROTOCOL_TYPE

_LEGACY: Final = LegacyPartitionMetadata()


class ConsumerGroup(EpochGroup[Member]):
    """One group (loop only).

    Invariants: a partition has at most one owner, the member to which it is assigned or that has
    yet to revoke it. ``topics_matched`` is the version of the topics with which the group's
    expressions were last compared. The journal does not have that version: after a start, the first
    heartbeat compares the topics again.
    """

    __slots__ = (
        "has_legacy_metadata", "owners", "regexes", "static_members", "subscribers",
        "topics_matched",
    )  # fmt: skip

    protocol_type: Final = PROTOCOL_TYPE

    def __init__(self, group_id: str, partition: int) -> None:
        super().__init__(group_id, partition)
        self.static_members: dict[str, str] = {}
        self.owners: dict[UUID, dict[int, str]] = {}
        self.regexes: dict[str, ResolvedRegex] = {}
        self.subscribers: dict[str, int] = {}  # how many members each expression has
        self.has_legacy_metadata = False
        self.topics_matched = -1

    @property
    def state(self) -> str:
        """The name of the state, as tools print it."""
        if not self.members:
            return "Empty"
        if self.epoch > self.target_epoch:
            return "Assigning"
        if all(member.is_reconciled(self.target_epoch) for member in self.members.values()):
            return "Stable"
        return "Reconciling"

    def find_static(self, instance_id: str | None) -> Member | None:
        """Return the member that has an instance id now."""
        if instance_id is None:
            return None
        member_id = self.static_members.get(instance_id)
        return None if member_id is None else self.members.get(member_id)

    def is_available(self, topic_id: UUID, partition: int, member_id: str) -> bool:
        """Tell whether no other member holds a partition."""
        return self.owners.get(topic_id, {}).get(partition, member_id) == member_id

    def subscribed_names(self, members: Iterable[Member]) -> set[str]:
        """Return the topics that these members subscribe to, by name or by expression."""
        names: set[str] = set()
        regexes = set()
        for member in members:
            names.update(member.metadata.subscribed_topic_names)
            regexes.add(member.regex)
        for regex in regexes:
            resolved = self.regexes.get(regex)
            if resolved is not None:
                names |= resolved.topics
        return names

    def subscribed_ids(self, member: Member, image: TopicImage) -> frozenset[UUID]:
        """Return the existing topics that a member subscribes to."""
        found = map(image.find, self.subscribed_names((member,)))
        return frozenset(topic.id for topic in found if topic is not None)

    def count_subscribers(self, regex: str) -> int:
        """Return how many members subscribe to an expression."""
        return self.subscribers.get(regex, 0)

    def is_subscribed(self, topic: str) -> bool:
        """Tell whether any member subscribes to a topic."""
        return topic in self.subscribed_names(self.members.values())

    def awaits_release(self, member: Member) -> bool:
        """Tell whether another member still holds partitions of the member's target."""
        return any(
            not self.is_available(topic_id, partition, member.id)
            for topic_id, partitions in self.target_of(member.id).items()
            for partition in partitions - member.current.assigned.get(topic_id, {}).keys()
        )

    def supports_classic(self, protocols: Iterable[str]) -> bool:
        """Tell whether one of a classic member's protocols is known to all classic members."""
        others = [
            {name for name, _ in member.classic.supported_protocols}
            for member in self.members.values()
            if member.classic is not None
        ]
        return any(all(name in known for known in others) for name in protocols)

    def apply(self, key: ConsumerGroupKey, value: Value | None, user: str = "") -> None:
        """Apply a record, which deletes if it has no value; ``user`` is the user of its member."""
        match value:
            case GroupMetadata():
                self.epoch, self.metadata_hash = value
            case LegacyPartitionMetadata():
                self.has_legacy_metadata = True
            case MemberMetadata():
                member = self.members.get(key.name, Member(key.name))
                self._put(member, member._replace(metadata=value, user=user or member.user))
            case TargetMetadata():
                self.target_epoch, self.target_timestamp_ms = value
            case CurrentAssignment():
                member = self.members.get(key.name, Member(key.name))
                self._put(member, member._replace(current=value))
            case ResolvedRegex():
                self._forget_regex(key.name)
                self.regexes[key.name] = value
                self.size += getsizeof(value.topics)
            case None:
                self._delete(key)
            case _:
                self.aim(key.name, value)

    def value_of(self, key: ConsumerGroupKey) -> Value | None:
        """Return the value with which `apply` would restore what the group has now."""
        member = self.members.get(key.name)
        known: dict[RecordType, Value | None] = {
            RecordType.METADATA: GroupMetadata(self.epoch, self.metadata_hash),
            RecordType.PARTITION_METADATA: _LEGACY if self.has_legacy_metadata else None,
            RecordType.MEMBER_METADATA: None if member is None else member.metadata,
            RecordType.TARGET_METADATA: TargetMetadata(self.target_epoch, self.target_timestamp_ms),
            RecordType.TARGET_MEMBER: self.targets.get(key.name),
            RecordType.CURRENT_ASSIGNMENT: None if member is None else member.current,
            RecordType.REGULAR_EXPRESSION: self.regexes.get(key.name),
        }
        return known[key.type]

    def _delete(self, key: ConsumerGroupKey) -> None:
        match key.type:
            case RecordType.PARTITION_METADATA:
                self.has_legacy_metadata = False
            case RecordType.MEMBER_METADATA:
                member = self.drop(key.name)
                if member is not None:
                    self._release(member.current, member.id)
                    self._forget_instance(member)
                    self._subscribe(member.regex, "")
            case RecordType.TARGET_METADATA:
                self.target_epoch, self.target_timestamp_ms = DELETED_EPOCH, 0
            case RecordType.TARGET_MEMBER:
                self.aim(key.name, None)
            case RecordType.CURRENT_ASSIGNMENT:
                member = self.members.get(key.name)
                if member is not None:
                    self._put(member, member._replace(current=GONE_ASSIGNMENT))
            case RecordType.REGULAR_EXPRESSION:
                self._forget_regex(key.name)
            case RecordType.METADATA:
                pass  # the caller drops the group

    def _put(self, before: Member, after: Member) -> None:
        self.keep(after)
        if before.current is not after.current:
            self._release(before.current, after.id)
            self._take(after.current.assigned, after.id)
            self._take(after.current.revoking, after.id)
        self._subscribe(before.regex, after.regex)
        if before.metadata.instance_id != after.metadata.instance_id:
            self._forget_instance(before)
        if after.metadata.instance_id is not None:
            self.static_members[after.metadata.instance_id] = after.id

    def _forget_regex(self, regex: str) -> None:
        resolved = self.regexes.pop(regex, None)
        if resolved is not None:
            self.size -= getsizeof(resolved.topics)

    def _subscribe(self, before: str, after: str) -> None:
        """Count a member as a subscriber of its new expression, no longer of the one before."""
        if before == after:
            return
        if before:
            self.subscribers[before] -= 1
            if not self.subscribers[before]:
                del self.subscribers[before]
        if after:
            self.subscribers[after] = self.subscribers.get(after, 0) + 1

    def _forget_instance(self, member: Member) -> None:
        """Forget a member's instance id, unless another has it: compaction may leave gaps."""
        instance_id = member.metadata.instance_id
        if instance_id is not None and self.static_members.get(instance_id) == member.id:
            del self.static_members[instance_id]

    def _take(self, partitions: OwnedPartitions, member_id: str) -> None:
        for topic_id, epochs in partitions.items():
            self.owners.setdefault(topic_id, {}).update(dict.fromkeys(epochs, member_id))

    def _release(self, current: CurrentAssignment, member_id: str) -> None:
        for partitions in (current.assigned, current.revoking):
            for topic_id, epochs in partitions.items():
                owners = self.owners.get(topic_id, {})
                for partition in epochs:
                    if owners.get(partition) == member_id:
                        del owners[partition]
                if not owners:
                    self.owners.pop(topic_id, None)

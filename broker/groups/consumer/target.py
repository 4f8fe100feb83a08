"""The epoch of a consumer group and its target assignment: when and how they change.

The epoch rises when a member comes, goes or subscribes to something else, and when a subscribed
topic comes, grows or goes. The target is computed at a later heartbeat, at most once in
group.consumer.assignment.interval.ms (KIP-1263), so that many members that join together are
assigned once.
"""

from collections.abc import Sequence
from operator import attrgetter
from uuid import UUID

from siltstone.broker.groups.consumer.assignors import ASSIGNORS, MemberSpec
from siltstone.broker.groups.consumer.changes import Changes
from siltstone.broker.groups.consumer.group import ConsumerGroup
from siltstone.broker.groups.consumer.policy import World
from siltstone.broker.groups.topic_image import TopicImage, hash_topics
from siltstone.protocol.coordinator.consumer_group_records import (
    GroupMetadata,
    RecordType,
    TargetMetadata,
)

_NUMBER = attrgetter("int")
"""The order of topics: that of a set follows the names' hashes, which differ in each process."""


def follow_topics(changes: Changes, world: World) -> None:
    """Raise the epoch if a subscribed topic has changed."""
    group = changes.group
    if group.topics_seen == world.image.version:
        return
    if not is_hash_current(group, world.image):
        bump_epoch(changes, world)
    group.topics_seen = world.image.version


def is_hash_current(group: ConsumerGroup, image: TopicImage) -> bool:
    """Tell whether the subscribed topics are the same as when the epoch last rose."""
    return _hash(group, image) == group.metadata_hash


def bump_epoch(changes: Changes, world: World) -> None:
    """Raise the group's epoch, and note the topics as they are now."""
    group = changes.group
    metadata = GroupMetadata(group.epoch + 1, _hash(group, world.image))
    changes.put_group(RecordType.METADATA, metadata)
    if group.has_legacy_metadata:
        changes.put_group(RecordType.PARTITION_METADATA, None)


def follow_epoch(changes: Changes, world: World) -> None:
    """Compute the target assignment for the group's epoch, if it is due."""
    group = changes.group
    if group.target_epoch >= group.epoch or not group.may_assign(
        world.now_ms, world.policy.assignment_interval_ms
    ):
        return
    alike: dict[tuple[str, Sequence[str]], frozenset[UUID]] = {}
    specs = {}
    for member in group.members.values():
        said = member.regex, member.metadata.subscribed_topic_names
        if said not in alike:
            alike[said] = group.subscribed_ids(member, world.image)
        specs[member.id] = MemberSpec(
            alike[said], group.target_of(member.id), member.metadata.instance_id
        )
    counts = {}
    for topic_id in sorted(frozenset().union(*alike.values()), key=_NUMBER):
        topic = world.image.find_id(topic_id)
        if topic is not None:
            counts[topic_id] = topic.partitions
    assigned = ASSIGNORS[preferred_assignor(group, world.policy.assignors)](specs, counts)
    for member_id, target in assigned.items():
        if group.targets.get(member_id) != target:
            changes.put(RecordType.TARGET_MEMBER, member_id, target)
    changes.put_group(RecordType.TARGET_METADATA, TargetMetadata(group.epoch, world.now_ms))


def preferred_assignor(group: ConsumerGroup, assignors: tuple[str, ...]) -> str:
    """Return the assignor that most members ask for, or the default if no member asks for one."""
    asked = [member.metadata.server_assignor for member in group.members.values()]
    return max(assignors, key=asked.count) if asked else assignors[0]


def _hash(group: ConsumerGroup, image: TopicImage) -> int:
    return hash_topics(group.subscribed_names(group.members.values()), image)

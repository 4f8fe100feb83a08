"""How members join a consumer group, change and leave, whichever protocol they speak.

Each function writes through `Changes` and may raise a KafkaError half way; the caller then undoes
the changes.
"""

from collections.abc import Iterable

from siltstone.broker.groups.consumer.changes import Changes
from siltstone.broker.groups.consumer.group import ConsumerGroup
from siltstone.broker.groups.consumer.member import Member, MemberState
from siltstone.broker.groups.consumer.policy import World
from siltstone.broker.groups.consumer.reconcile import Goal, reconcile
from siltstone.broker.groups.consumer.target import bump_epoch, follow_epoch, follow_topics
from siltstone.broker.groups.deadlines import Deadline
from siltstone.broker.groups.epoch_group import MAX_NAMES
from siltstone.protocol.coordinator import group_errors
from siltstone.protocol.coordinator.consumer_group_records import (
    MemberMetadata,
    Partitions,
    RecordType,
)


def check_room(group: ConsumerGroup, member_id: str, world: World) -> None:
    """Refuse a new member where the group is full.

    Raises:
        GroupMaxSizeReached: The group has group.consumer.max.size members.
    """
    if len(group.members) >= world.policy.max_size and member_id not in group.members:
        raise group_errors.GroupMaxSizeReached(
            "The consumer group has reached its maximum capacity of "
            f"{world.policy.max_size} members."
        )


def get_member(group: ConsumerGroup, member_id: str, instance_id: str | None) -> Member:
    """Return the member that sent a request: by its instance id if it has one, else by member id.

    Raises:
        UnknownMemberId: No member has the id, or the instance id.
        FencedInstanceId: Another member has the instance id now.
    """
    if instance_id is None:
        return group.get(member_id)
    member = group.find_static(instance_id)
    if member is None:
        raise group_errors.UnknownMemberId(f"Instance id {instance_id} is unknown.")
    if member.id != member_id:
        raise group_errors.FencedInstanceId(
            f"Static member {member_id} with instance id {instance_id} was fenced by member "
            f"{member.id}."
        )
    return member


def replace_static(changes: Changes, member: Member, member_id: str) -> Member:
    """Let a new member take the place of a static member, and its assignment."""
    target = changes.group.target_of(member.id)
    remove(changes, member)
    current = member.current._replace(member_epoch=0, previous_member_epoch=0)
    changes.put(RecordType.MEMBER_METADATA, member_id, member.metadata)
    changes.put(RecordType.TARGET_MEMBER, member_id, target)
    changes.put(RecordType.CURRENT_ASSIGNMENT, member_id, current)
    return changes.group.get(member_id)


def remove(changes: Changes, member: Member) -> None:
    """Write that a member is removed; its partitions are free at once."""
    for kind in (
        RecordType.CURRENT_ASSIGNMENT,
        RecordType.TARGET_MEMBER,
        RecordType.MEMBER_METADATA,
    ):
        changes.put(kind, member.id, None)


def fence(changes: Changes, members: Iterable[Member], world: World) -> None:
    """Remove members for good, and assign again."""
    regexes = set()
    for member in members:
        remove(changes, member)
        regexes.add(member.regex)
    for regex in regexes:
        _drop_regex(changes, regex)
    bump_epoch(changes, world)


def update(
    changes: Changes,
    member: Member,
    metadata: MemberMetadata,
    owned: Partitions | None,
    world: World,
) -> Member:
    """Note a member's metadata, and move it one step towards its target assignment.

    Raises:
        InvalidRegularExpression: RE2 refuses the expression that the member subscribes to.
    """
    subscription_changed = subscribe(changes, member, metadata, world)
    follow_epoch(changes, world)
    return advance(changes, member.id, owned, world, subscription_changed=subscription_changed)


def subscribe(changes: Changes, member: Member, metadata: MemberMetadata, world: World) -> bool:
    """Note a member's metadata; return whether it subscribes to something else now.

    The epoch rises at once if the new topics are known. For a new expression, it rises after the
    matching.

    Raises:
        InvalidRegularExpression: RE2 refuses the expression that the member subscribes to.
        GroupMaxSizeReached: The members would name very many topics.
    """
    group = changes.group
    regex = metadata.subscribed_topic_regex or ""
    regex_changed = regex != member.regex
    if regex_changed and regex and not group.count_subscribers(regex):
        changes.note(regex)
        world.regexes.check(regex, changes.user)
    if metadata != member.metadata or member.id not in group.members:
        before = group.name_count
        changes.put(RecordType.MEMBER_METADATA, member.id, metadata)
        if before < group.name_count > MAX_NAMES:
            raise group_errors.GroupMaxSizeReached(
                f"the members of a group would name {group.name_count} topics, and {MAX_NAMES} is "
                "the most"
            )
    if regex_changed:
        _drop_regex(changes, member.regex)
    names_changed = metadata.subscribed_topic_names != member.metadata.subscribed_topic_names
    if names_changed or (regex_changed and (not regex or regex in group.regexes)):
        bump_epoch(changes, world)
    else:
        follow_topics(changes, world)
    return names_changed or regex_changed


def advance(
    changes: Changes,
    member_id: str,
    owned: Partitions | None,
    world: World,
    *,
    subscription_changed: bool,
) -> Member:
    """Move a member one step towards the group's target assignment."""
    group = changes.group
    member = group.get(member_id)
    if member.is_reconciled(group.target_epoch) and not subscription_changed:
        return member
    goal = Goal(
        group.target_epoch,
        group.target_of(member.id),
        group.subscribed_ids(member, world.image),
        lambda topic_id, partition: group.is_available(topic_id, partition, member.id),
    )
    current = reconcile(member, goal, owned, subscription_changed=subscription_changed)
    if current == member.current:
        return member
    changes.put(RecordType.CURRENT_ASSIGNMENT, member.id, current)
    if member.classic is None:
        if current.state == MemberState.UNREVOKED_PARTITIONS:
            timeout_ms = member.metadata.rebalance_timeout_ms
            changes.start(member.id, Deadline.REBALANCE, timeout_ms)
        else:
            changes.cancel(member.id, Deadline.REBALANCE)
    return group.get(member_id)


def _drop_regex(changes: Changes, regex: str) -> None:
    """Forget an expression without subscribers, and the topics that it has matched."""
    changes.note(regex)
    if regex in changes.group.regexes and not changes.group.count_subscribers(regex):
        changes.put(RecordType.REGULAR_EXPRESSION, regex, None)

"""Moving a group from one protocol to the other while it has members (KIP-848, migration).

Up: the first heartbeat of the consumer protocol turns a classic group into a consumer group; the
classic members keep their assignments. Down: when the last member of the consumer protocol leaves,
the classic members form a classic group again, and rebalance.
"""

from collections.abc import Collection, Iterable

from siltstone.broker.groups.classic.group import ClassicGroup, ClassicServices
from siltstone.broker.groups.classic.members import Member as ClassicMember
from siltstone.broker.groups.classic.messages import JoinRequest
from siltstone.broker.groups.consumer.changes import Changes
from siltstone.broker.groups.consumer.classic import by_id, by_name
from siltstone.broker.groups.consumer.group import ConsumerGroup
from siltstone.broker.groups.consumer.member import Member, MemberState
from siltstone.broker.groups.consumer.policy import Policy
from siltstone.broker.groups.topic_image import TopicImage, hash_topics
from siltstone.protocol.coordinator.consumer_group_records import (
    CurrentAssignment,
    GroupMetadata,
    MemberMetadata,
    RecordType,
    TargetMetadata,
    classic_metadata,
)
from siltstone.protocol.coordinator.consumer_protocol import (
    PROTOCOL_TYPE,
    Assignment,
    decode_assignment,
    decode_subscription,
    encode_assignment,
    read_version,
)
from siltstone.protocol.coordinator.group_errors import GroupIdNotFound
from siltstone.protocol.errors import ProtocolError
from siltstone.protocol.messages.consumer_offsets import ClassicMemberMetadata


def check_upgrade(group: ClassicGroup, policy: Policy) -> None:
    """Refuse to turn a classic group with members into a consumer group, if that is not allowed.

    Raises:
        GroupIdNotFound: The policy or the members' protocol forbids it, or there are too many
            members.
    """
    reason = None
    if not policy.may_upgrade:
        reason = "online upgrade is disabled"
    elif not group.is_of_consumers:
        reason = "the group does not use the consumer embedded protocol"
    elif len(group.members) > policy.max_size:
        reason = "the group size exceeds the consumer group maximum size"
    if reason is not None:
        raise GroupIdNotFound(
            f"Cannot upgrade classic group {group.group_id} to consumer group because {reason}."
        )


def upgrade(group: ClassicGroup, image: TopicImage) -> Changes:
    """Return the consumer group that a classic group becomes, with its records.

    If topics have changed since the leader's assignment, the next heartbeat raises the epoch.

    Raises:
        GroupIdNotFound: The metadata of a member, or the leader's assignment, is not in the format
            of consumers.
    """
    machine = ConsumerGroup(group.group_id, group.partition)
    changes = Changes(machine)
    try:
        members = [_Upgraded(member, group.protocol_name, image) for member in group.members]
    except ProtocolError as error:
        raise GroupIdNotFound(
            f"Cannot upgrade classic group {group.group_id} to consumer group because the embedded "
            "consumer protocol is malformed."
        ) from error
    if any(member.user_data for member in members):
        raise GroupIdNotFound(
            f"Cannot upgrade classic group {group.group_id} to consumer group because an "
            "unsupported custom assignor is in use. Please refer to the documentation or switch to "
            "a default assignor before re-attempting the upgrade."
        )
    for member in members:
        changes.user = member.user
        changes.put(RecordType.MEMBER_METADATA, member.id, member.metadata)
    epoch = group.generation
    topics = machine.subscribed_names(machine.members.values())
    seen = hash_topics(topics, image) if _have_all(members, topics, image) else 0
    changes.put_group(RecordType.METADATA, GroupMetadata(epoch, seen))
    for member in members:
        changes.put(RecordType.TARGET_MEMBER, member.id, member.assigned)
    changes.put_group(RecordType.TARGET_METADATA, TargetMetadata(epoch, 0))
    for member in members:
        assigned = {topic: dict.fromkeys(each, epoch) for topic, each in member.assigned.items()}
        current = CurrentAssignment(epoch, epoch, MemberState.STABLE, assigned, {})
        changes.put(RecordType.CURRENT_ASSIGNMENT, member.id, current)
    return changes


def _have_all(members: Iterable["_Upgraded"], names: Iterable[str], image: TopicImage) -> bool:
    """Tell whether the members have all partitions of topics, each as the topic is now."""
    topics = (topic for topic in map(image.find, names) if topic is not None)
    there = {(topic.id, number) for topic in topics for number in range(topic.partitions)}
    assigned = (each for member in members for each in member.assigned.items())
    return there == {(topic_id, number) for topic_id, numbers in assigned for number in numbers}


class _Upgraded:
    """A classic member, translated for the consumer group."""

    def __init__(self, member: ClassicMember, protocol: str | None, image: TopicImage) -> None:
        subscription = decode_subscription(member.metadata_of(protocol))
        given = decode_assignment(member.assignment) if member.assignment else Assignment({})
        self.id = member.member_id
        self.user = member.user
        self.user_data = given.user_data
        self.assigned = by_id(given.partitions, image)
        self.metadata = MemberMetadata(
            instance_id=member.instance_id,
            rack_id=subscription.rack_id or None,
            client_id=member.client_id,
            client_host=member.client_host,
            subscribed_topic_names=tuple(sorted(set(subscription.topics))),
            subscribed_topic_regex="",
            rebalance_timeout_ms=member.rebalance_timeout_ms,
            server_assignor=None,
            classic_member_metadata=classic_metadata(member.session_timeout_ms, member.protocols),
        )


def may_downgrade(group: ConsumerGroup, leaving: Collection[Member], policy: Policy) -> bool:
    """Tell whether a consumer group becomes a classic one when these members leave."""
    staying = _are_classic_but(group, leaving)
    return policy.may_downgrade and 0 < staying <= policy.classic_max_size


def may_replace_last(group: ConsumerGroup, replaced: Member, policy: Policy) -> bool:
    """Tell whether a group becomes a classic one when a classic member replaces this one."""
    staying = _are_classic_but(group, (replaced,))
    is_last = replaced.classic is None and 0 <= staying < policy.classic_max_size
    return policy.may_downgrade and is_last


def _are_classic_but(group: ConsumerGroup, leaving: Collection[Member]) -> int:
    """Return how many members stay if all of them are classic; else -1."""
    gone = {member.id for member in leaving}
    staying = [member for member in group.members.values() if member.id not in gone]
    return len(staying) if all(member.classic is not None for member in staying) else -1


def downgrade(
    group: ConsumerGroup, leaving: Iterable[Member], image: TopicImage, services: ClassicServices
) -> ClassicGroup:
    """Return the classic group of the classic members; nothing is written yet.

    Raises:
        GroupIdNotFound: The metadata of a member is not in the format of consumers.
    """
    gone = {member.id for member in leaving}
    classic = ClassicGroup(group.group_id, group.partition, services)
    requests = [
        _request_of(member, member.classic)
        for member in group.members.values()
        if member.id not in gone and member.classic is not None
    ]
    classic.take_over(PROTOCOL_TYPE, group.epoch, requests)
    try:
        for member in classic.members:
            target = by_name(group.target_of(member.member_id), image)
            version = read_version(member.metadata_of(classic.protocol_name))
            classic.members.assign(member, encode_assignment(target, version))
    except ProtocolError as error:
        classic.close()
        raise GroupIdNotFound(f"Cannot downgrade group {group.group_id}: {error}") from error
    return classic


def _request_of(member: Member, classic: ClassicMemberMetadata) -> JoinRequest:
    metadata = member.metadata
    return JoinRequest(
        member_id=member.id,
        instance_id=metadata.instance_id,
        client_id=metadata.client_id,
        client_host=metadata.client_host,
        protocol_type=PROTOCOL_TYPE,
        protocols=tuple(classic.supported_protocols),
        rebalance_timeout_ms=metadata.rebalance_timeout_ms,
        session_timeout_ms=classic.session_timeout_ms,
        user=member.user,
    )

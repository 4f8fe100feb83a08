"""ShareGroupHeartbeat: how a member joins, stays and leaves (KIP-932).

Kafka's GroupMetadataManager.shareGroupHeartbeat. A member sends epoch 0 to join and -1 to leave;
any other epoch is its own. A member gets a new target at once, since it shares its partitions and
has nothing to give up first.
"""

from collections.abc import Iterable
from operator import attrgetter
from typing import Any, NamedTuple
from uuid import UUID

from siltstone.broker.groups.deadlines import Deadline
from siltstone.broker.groups.epoch_group import MAX_NAMES
from siltstone.broker.groups.share import states
from siltstone.broker.groups.share.assignor import MemberSpec, assign
from siltstone.broker.groups.share.changes import Changes
from siltstone.broker.groups.share.group import ShareGroup
from siltstone.broker.groups.share.member import (
    JOIN_EPOCH,
    LEAVE_EPOCH,
    STABLE,
    Member,
)
from siltstone.broker.groups.share.policy import World
from siltstone.broker.groups.topic_image import TopicImage, hash_topics
from siltstone.protocol.coordinator import group_errors
from siltstone.protocol.coordinator.share_group_records import (
    CurrentAssignment,
    GroupMetadata,
    MemberMetadata,
    Partitions,
    RecordType,
    TargetMetadata,
)
from siltstone.protocol.errors import InvalidRequest

_NUMBER = attrgetter("int")


class HeartbeatRequest(NamedTuple):
    """One heartbeat. None means that nothing has changed.

    ``user`` is the principal that has logged in; it is empty without a login.
    """

    group_id: str
    member_id: str
    member_epoch: int
    client_id: str
    client_host: str
    rack_id: str | None = None
    subscribed_topic_names: tuple[str, ...] | None = None
    user: str = ""


class HeartbeatResult(NamedTuple):
    """The answer; an assignment of None means that the member knows its assignment already."""

    member_id: str
    member_epoch: int
    heartbeat_interval_ms: int = 0
    assignment: Partitions | None = None


def check_request(request: HeartbeatRequest) -> None:
    """Refuse a request that contradicts itself, in any state of the group.

    Raises:
        InvalidRequest: Something is missing, empty or out of place.
    """
    faults = {
        "MemberId can't be empty.": not request.member_id.strip(),
        "GroupId can't be empty.": not request.group_id.strip(),
        "RackId can't be empty.": request.rack_id is not None and not request.rack_id.strip(),
        "SubscribedTopicNames must be set in first request.": request.member_epoch == JOIN_EPOCH
        and not request.subscribed_topic_names,
        "MemberEpoch is invalid.": request.member_epoch < LEAVE_EPOCH,
    }
    if True in faults.values():
        raise InvalidRequest(next(message for message, is_there in faults.items() if is_there))


def heartbeat(changes: Changes, request: HeartbeatRequest, world: World) -> HeartbeatResult:
    """Keep a member alive, or let it join, and return its assignment.

    Raises:
        KafkaError: The member is refused; the caller undoes the changes.
    """
    group = changes.group
    _check_room(group, request.member_id, world)
    is_joining = request.member_epoch == JOIN_EPOCH
    member = group.members.get(request.member_id, Member(request.member_id))
    if not is_joining:
        member = group.get(request.member_id)
        _check_epoch(member, request.member_epoch)
    before = member.current.assigned
    must_bump = _subscribe(changes, member, _merge(member.metadata, request))
    if group.target_epoch >= group.epoch:
        must_bump |= _is_pending(group, world.image)
    must_bump = _follow(changes, world, must_bump=must_bump)
    _follow_epoch(changes, world)
    after = _advance(changes, request.member_id, world, has_changed=must_bump)
    changes.start(after.id, Deadline.SESSION, world.policy.session_timeout_ms)
    is_told = (
        is_joining or request.subscribed_topic_names is not None or after.current.assigned != before
    )
    return HeartbeatResult(
        after.id,
        after.epoch,
        world.policy.heartbeat_interval_ms,
        after.current.assigned if is_told else None,
    )


def fence(changes: Changes, members: Iterable[Member], world: World) -> None:
    """Remove members for good, and assign again."""
    group = changes.group
    for member in members:
        for kind in (
            RecordType.CURRENT_ASSIGNMENT,
            RecordType.TARGET_MEMBER,
            RecordType.MEMBER_METADATA,
        ):
            changes.put(kind, member.id, None)
        _bump(changes, world)
        if group.is_empty:
            changes.put_group(RecordType.TARGET_METADATA, TargetMetadata(group.epoch, 0))


def _check_room(group: ShareGroup, member_id: str, world: World) -> None:
    if len(group.members) >= world.policy.max_size and member_id not in group.members:
        raise group_errors.GroupMaxSizeReached(
            f"The share group has reached its maximum capacity of {world.policy.max_size} members."
        )


def _check_epoch(member: Member, received: int) -> None:
    """Fence a member of another epoch; the one before is allowed, since an answer may be lost."""
    known, previous = member.epoch, member.current.previous_member_epoch
    if received > known:
        raise group_errors.FencedMemberEpoch(
            f"The share group member has a greater member epoch ({received}) than the one known by "
            f"the group coordinator ({known}). The member must abandon all its partitions and "
            "rejoin."
        )
    if received not in (known, previous):
        raise group_errors.FencedMemberEpoch(
            f"The share group member has a smaller member epoch ({received}) than the one known by "
            f"the group coordinator ({known}), and it does not match the previous member epoch "
            f"({previous}). The member must abandon all its partitions and rejoin."
        )


def _merge(metadata: MemberMetadata, request: HeartbeatRequest) -> MemberMetadata:
    """Return the metadata of a member after its heartbeat."""
    said: dict[str, Any] = {
        "rack_id": request.rack_id,
        "client_id": request.client_id,
        "client_host": request.client_host,
        "subscribed_topic_names": request.subscribed_topic_names,
    }
    changed = {
        name: value
        for name, value in said.items()
        if value is not None and value != getattr(metadata, name)
    }
    return metadata._replace(**changed) if changed else metadata


def _subscribe(changes: Changes, member: Member, metadata: MemberMetadata) -> bool:
    """Note a member's metadata; return whether it subscribes to something else now."""
    group = changes.group
    if metadata != member.metadata or member.id not in group.members:
        before = group.name_count
        changes.put(RecordType.MEMBER_METADATA, member.id, metadata)
        if before < group.name_count > MAX_NAMES:
            raise group_errors.GroupMaxSizeReached(
                f"the members of a group would name {group.name_count} topics, and {MAX_NAMES} is "
                "the most"
            )
    return metadata.subscribed_topic_names != member.metadata.subscribed_topic_names


def _is_pending(group: ShareGroup, image: TopicImage) -> bool:
    """Tell whether partitions with a state are not the ones that are assigned."""
    initialized = group.states.initialized
    if not initialized or group.is_empty:
        return False
    assigned: dict[UUID, set[int]] = {}
    for target in group.targets.values():
        for topic_id, partitions in target.items():
            assigned.setdefault(topic_id, set()).update(partitions)
    for topic in group.subscribed_topics(image):
        known = initialized.get(topic.id)
        if known is not None and assigned.get(topic.id, set()) != known.partitions:
            return True
    return False


def _follow(changes: Changes, world: World, *, must_bump: bool) -> bool:
    """Raise the epoch if it must rise or a subscribed topic has changed; tell whether it has."""
    group = changes.group
    if not must_bump and group.topics_seen == world.image.version:
        return False
    group.topics_seen = world.image.version
    must_bump |= hash_topics(group.subscribed_names(), world.image) != group.metadata_hash
    if must_bump:
        _bump(changes, world)
    return must_bump


def _bump(changes: Changes, world: World) -> None:
    """Raise the group's epoch, and note the topics as they are now."""
    group = changes.group
    topics = hash_topics(group.subscribed_names(), world.image)
    changes.put_group(RecordType.METADATA, GroupMetadata(group.epoch + 1, topics))


def _follow_epoch(changes: Changes, world: World) -> None:
    """Compute the target assignment for the group's epoch, if it is due."""
    group = changes.group
    if group.target_epoch >= group.epoch or not group.may_assign(
        world.now_ms, world.policy.assignment_interval_ms
    ):
        return
    alike: dict[tuple[str, ...], frozenset[UUID]] = {}
    specs = {}
    for member in group.members.values():
        names = tuple(member.metadata.subscribed_topic_names)
        if names not in alike:
            alike[names] = _ids(names, world.image)
        specs[member.id] = MemberSpec(alike[names], group.target_of(member.id))
    initialized = group.states.initialized
    assignable = {
        topic_id: initialized[topic_id].partitions
        for topic_id in sorted(frozenset().union(*alike.values()), key=_NUMBER)
        if topic_id in initialized
    }
    for member_id, target in assign(specs, assignable).items():
        if group.targets.get(member_id) != target:
            changes.put(RecordType.TARGET_MEMBER, member_id, target)
    changes.put_group(RecordType.TARGET_METADATA, TargetMetadata(group.epoch, world.now_ms))


def _advance(changes: Changes, member_id: str, world: World, *, has_changed: bool) -> Member:
    """Give a member the target, as far as it subscribes to the topics."""
    group = changes.group
    member = group.get(member_id)
    current, epoch = member.current, group.target_epoch
    if member.epoch == epoch and not has_changed:
        return member
    topic_ids = _ids(member.metadata.subscribed_topic_names, world.image)
    assigned = {
        topic: each for topic, each in group.target_of(member_id).items() if topic in topic_ids
    }
    after = current._replace(assigned=assigned)
    if member.epoch != epoch:
        after = CurrentAssignment(epoch, member.epoch, STABLE, assigned)
    if after != current:
        changes.put(RecordType.CURRENT_ASSIGNMENT, member_id, after)
    return group.get(member_id)


def _ids(names: Iterable[str], image: TopicImage) -> frozenset[UUID]:
    return frozenset(topic.id for topic in map(image.find, names) if topic is not None)


def begin_states(changes: Changes, world: World) -> dict[tuple[UUID, int], int]:
    """Note the subscribed partitions that have no state yet; return where their queues begin."""
    group = changes.group
    found = states.find_new(group, group.subscribed_topics(world.image), world)
    starts = {
        (topic_id, partition): states.start_of_new(group, topic_id)
        for topic_id, partitions in found.items()
        for partition in sorted(partitions)
    }
    if found:
        states.begin(changes, found, world)
    return starts

"""ConsumerGroupHeartbeat: how a member joins, stays and leaves (KIP-848).

Kafka's GroupMetadataManager.consumerGroupHeartbeat. A member sends epoch 0 to join, -1 to leave, -2
to leave for a while (static members); any other epoch is its own.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

from siltstone.broker.groups.consumer import membership
from siltstone.broker.groups.consumer.changes import Changes
from siltstone.broker.groups.consumer.member import (
    JOIN_EPOCH,
    LEAVE_EPOCH,
    STATIC_LEAVE_EPOCH,
    Member,
)
from siltstone.broker.groups.consumer.policy import World
from siltstone.broker.groups.deadlines import Deadline
from siltstone.protocol.coordinator import group_errors
from siltstone.protocol.coordinator.consumer_group_records import (
    MemberMetadata,
    OwnedPartitions,
    Partitions,
    RecordType,
)
from siltstone.protocol.errors import InvalidRequest

NOT_GIVEN = -1


class HeartbeatRequest(NamedTuple):
    """One heartbeat. None, or a rebalance timeout of -1, means that nothing has changed.

    ``sees`` tells whether the client may see a topic that its expression matches; None means that
    it may see all topics. ``user`` is the principal that has logged in; it is empty without a
    login.
    """

    member_id: str
    member_epoch: int
    client_id: str
    client_host: str
    instance_id: str | None = None
    rack_id: str | None = None
    rebalance_timeout_ms: int = NOT_GIVEN
    subscribed_topic_names: tuple[str, ...] | None = None
    subscribed_topic_regex: str | None = None
    server_assignor: str | None = None
    owned: Partitions | None = None
    sees: Callable[[str], bool] | None = None
    user: str = ""

    def named(self, member_id: str) -> "HeartbeatRequest":
        """Return the same request with this member id."""
        return self._replace(member_id=member_id)

    @property
    def is_leaving(self) -> bool:
        """Whether the member leaves."""
        return self.member_epoch in {LEAVE_EPOCH, STATIC_LEAVE_EPOCH}

    @property
    def is_full(self) -> bool:
        """Whether all fields are set, as after an error; then the answer has all fields, too."""
        has_subscription = (
            self.subscribed_topic_names is not None or self.subscribed_topic_regex is not None
        )
        return (
            self.rebalance_timeout_ms != NOT_GIVEN and has_subscription and self.owned is not None
        )


class HeartbeatResult(NamedTuple):
    """The answer; an assignment of None means that the member knows its assignment already."""

    member_id: str
    member_epoch: int
    heartbeat_interval_ms: int = 0
    assignment: OwnedPartitions | None = None


def check_request(
    request: HeartbeatRequest, assignors: tuple[str, ...], *, needs_member_id: bool
) -> None:
    """Refuse a request that contradicts itself, in any state of the group.

    Raises:
        InvalidRequest: Something is missing, empty or out of place.
        UnsupportedAssignor: group.consumer.assignors does not name the assignor.
    """
    epoch = request.member_epoch
    needs_member_id = needs_member_id or epoch > JOIN_EPOCH or epoch == LEAVE_EPOCH
    faults = {
        "MemberId can't be empty.": needs_member_id and _is_blank(request.member_id),
        "InstanceId can't be empty.": _is_blank(request.instance_id),
        "RackId can't be empty.": _is_blank(request.rack_id),
        "MemberEpoch is invalid.": epoch < STATIC_LEAVE_EPOCH,
        "InstanceId can't be null.": epoch == STATIC_LEAVE_EPOCH and request.instance_id is None,
    }
    if epoch == JOIN_EPOCH:
        faults |= {
            "RebalanceTimeoutMs must be provided in first request.": (
                request.rebalance_timeout_ms == NOT_GIVEN
            ),
            "TopicPartitions must be empty when (re-)joining.": request.owned is None
            or bool(request.owned),
            "Either SubscribedTopicNames or SubscribedTopicRegex must be non-null when "
            "(re-)joining.": request.subscribed_topic_names is None
            and request.subscribed_topic_regex is None,
        }
    if True in faults.values():
        raise InvalidRequest(next(message for message, is_there in faults.items() if is_there))
    if request.server_assignor is not None and request.server_assignor not in assignors:
        raise group_errors.UnsupportedAssignor(
            f"ServerAssignor {request.server_assignor} is not supported. Supported assignors: "
            f"{', '.join(assignors)}."
        )


def heartbeat(changes: Changes, request: HeartbeatRequest, world: World) -> HeartbeatResult:
    """Keep a member alive, or let it join, and return its assignment.

    Raises:
        KafkaError: The member is refused; the caller undoes the changes.
    """
    group = changes.group
    membership.check_room(group, request.member_id, world)
    before = _find_or_join(changes, request)
    after = membership.update(
        changes, before, _merge(before.metadata, request), request.owned, world
    )
    if before.classic is not None:
        changes.cancel(after.id, Deadline.JOIN, Deadline.SYNC)
    changes.start(after.id, Deadline.SESSION, world.policy.session_timeout_ms)
    assigned = after.current.assigned
    is_told = (
        request.member_epoch == JOIN_EPOCH or request.is_full or assigned != before.current.assigned
    )
    return HeartbeatResult(
        after.id, after.epoch, world.policy.heartbeat_interval_ms, assigned if is_told else None
    )


def leave(changes: Changes, request: HeartbeatRequest, world: World) -> HeartbeatResult:
    """Remove a member, for good or until its session ends.

    Raises:
        KafkaError: The member is not in the group, or another member has taken its place.
    """
    member = membership.get_member(changes.group, request.member_id, request.instance_id)
    if request.member_epoch == STATIC_LEAVE_EPOCH:
        kept = {
            topic_id: dict.fromkeys(partitions, 0)
            for topic_id, partitions in member.current.assigned.items()
        }
        current = member.current._replace(
            member_epoch=STATIC_LEAVE_EPOCH, assigned=kept, revoking={}
        )
        changes.put(RecordType.CURRENT_ASSIGNMENT, member.id, current)
    else:
        membership.fence(changes, (member,), world)
    return HeartbeatResult(member.id, request.member_epoch)


def _find_or_join(changes: Changes, request: HeartbeatRequest) -> Member:
    """Return the sender as it was before this heartbeat; a new member has no record yet."""
    group = changes.group
    if request.member_epoch != JOIN_EPOCH:
        member = membership.get_member(group, request.member_id, request.instance_id)
        _check_epoch(member, request)
        return member
    static = group.find_static(request.instance_id)
    if static is None:
        return group.members.get(request.member_id, Member(request.member_id))
    if static.classic is None and static.epoch != STATIC_LEAVE_EPOCH:
        raise group_errors.UnreleasedInstanceId(
            f"Static member {request.member_id} with instance id {request.instance_id} cannot join "
            f"the group because the instance id is owned by {static.id} member."
        )
    return membership.replace_static(changes, static, request.member_id)


def _check_epoch(member: Member, request: HeartbeatRequest) -> None:
    """Fence a member of another epoch; the one before is allowed, since an answer may be lost."""
    received, known = request.member_epoch, member.epoch
    is_the_one_before = (
        received == member.current.previous_member_epoch
        and request.owned is not None
        and _is_subset(request.owned, member.current.assigned)
    )
    if received > known or (received < known and not is_the_one_before):
        raise group_errors.FencedMemberEpoch(
            f"The consumer group member has a {'greater' if received > known else 'smaller'} "
            f"member epoch ({received}) than the one known by the group coordinator ({known}). The "
            "member must abandon all its partitions and rejoin."
        )


def _is_blank(text: str | None) -> bool:
    """Tell whether a string is given and blank."""
    return text is not None and not text.strip()


def _is_subset(owned: Partitions, assigned: OwnedPartitions) -> bool:
    return all(
        partitions <= assigned.get(topic_id, {}).keys() for topic_id, partitions in owned.items()
    )


def _merge(metadata: MemberMetadata, request: HeartbeatRequest) -> MemberMetadata:
    """Return the metadata of a member after its heartbeat."""
    said: dict[str, Any] = {
        "instance_id": request.instance_id,
        "rack_id": request.rack_id,
        "subscribed_topic_names": request.subscribed_topic_names,
        "subscribed_topic_regex": request.subscribed_topic_regex,
        "server_assignor": request.server_assignor,
        "client_id": request.client_id,
        "client_host": request.client_host,
    }
    if request.rebalance_timeout_ms != NOT_GIVEN:
        said["rebalance_timeout_ms"] = request.rebalance_timeout_ms
    changed = {
        name: value
        for name, value in said.items()
        if value is not None and value != getattr(metadata, name)
    }
    if metadata.classic_member_metadata is not None:
        changed["classic_member_metadata"] = None
    return metadata._replace(**changed) if changed else metadata

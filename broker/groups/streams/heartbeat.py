"""StreamsGroupHeartbeat: how a member joins, stays and leaves (KIP-1071).

Kafka's GroupMetadataManager.streamsGroupHeartbeat. A member sends epoch 0 to join, -1 to leave, -2
to leave for a while (static members); any other epoch is its own. A member that joins sends the
topology; the first one founds the group's.
"""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from siltstone.broker.groups.deadlines import Deadline
from siltstone.broker.groups.streams.assignor import TaskId
from siltstone.broker.groups.streams.changes import Changes
from siltstone.broker.groups.streams.endpoints import EndpointPartitions, find_partitions
from siltstone.broker.groups.streams.group import StreamsGroup
from siltstone.broker.groups.streams.member import (
    JOIN_EPOCH,
    LEAVE_EPOCH,
    NO_TASKS,
    STATIC_LEAVE_EPOCH,
    Member,
    MemberState,
)
from siltstone.broker.groups.streams.policy import (
    ACCEPTABLE_RECOVERY_LAG,
    TASK_OFFSET_INTERVAL_MS,
    World,
)
from siltstone.broker.groups.streams.reconcile import reconcile
from siltstone.broker.groups.streams.target import follow_epoch
from siltstone.broker.groups.streams.topology import (
    ConfiguredTopology,
    Status,
    StatusCode,
    configure,
    required_topics,
    same_topology,
)
from siltstone.broker.groups.topic_image import hash_topics
from siltstone.protocol.coordinator import group_errors
from siltstone.protocol.coordinator.streams_group_records import (
    Endpoint,
    HeldTasks,
    KeyValue,
    MemberMetadata,
    RecordType,
    TargetMetadata,
    Tasks,
    TaskSet,
    Topology,
)
from siltstone.protocol.errors import InvalidRequest, UnknownServerError

NOT_GIVEN = -1
_NOT_VALIDATED = -1


class HeartbeatRequest(NamedTuple):
    """One heartbeat. None, or a rebalance timeout of -1, means that nothing has changed.

    ``user`` is the principal that has logged in; it is empty without a login. ``knows_tags`` says
    whether the client understands that its tags are missing.
    """

    member_id: str
    member_epoch: int
    client_id: str
    client_host: str
    endpoint_epoch: int = 0
    instance_id: str | None = None
    rack_id: str | None = None
    rebalance_timeout_ms: int = NOT_GIVEN
    topology: Topology | None = None
    active: TaskSet | None = None
    standby: TaskSet | None = None
    warmup: TaskSet | None = None
    process_id: str | None = None
    user_endpoint: Endpoint | None = None
    client_tags: tuple[KeyValue, ...] | None = None
    offsets: Mapping[TaskId, int] | None = None
    end_offsets: Mapping[TaskId, int] | None = None
    shuts_down: bool = False
    knows_tags: bool = True
    user: str = ""

    @property
    def is_leaving(self) -> bool:
        """Whether the member leaves."""
        return self.member_epoch in {LEAVE_EPOCH, STATIC_LEAVE_EPOCH}

    @property
    def joins(self) -> bool:
        """Whether the member joins, for the first time or again."""
        return self.member_epoch == JOIN_EPOCH

    @property
    def owned(self) -> Tasks | None:
        """The tasks that the member has, if it says so."""
        if self.active is None or self.standby is None or self.warmup is None:
            return None
        return Tasks(self.active, self.standby, self.warmup)


class HeartbeatResult(NamedTuple):
    """The answer; tasks or endpoints of None mean that the member knows them already.

    ``configured`` has the internal topics that the caller has to create.
    """

    member_id: str
    member_epoch: int
    heartbeat_interval_ms: int = 0
    task_offset_interval_ms: int = 0
    acceptable_recovery_lag: int = -1
    status: Sequence[Status] = ()
    tasks: HeldTasks | None = None
    endpoint_epoch: int = 0
    endpoints: Sequence[EndpointPartitions] | None = None
    configured: ConfiguredTopology | None = None


def check_request(request: HeartbeatRequest, group_id: str) -> None:
    """Refuse a request that contradicts itself, in any state of the group.

    Raises:
        InvalidRequest: Something is missing, empty or out of place.
        StreamsInvalidTopology: A changelog topic has a number of partitions.
    """
    epoch, topology = request.member_epoch, request.topology
    subtopologies = () if topology is None else topology.subtopologies
    joins = epoch == JOIN_EPOCH
    given = [each is not None for each in (request.active, request.standby, request.warmup)]
    faults: dict[str, Any] = {
        "Regular expressions for source topics are not supported yet.": any(
            each.source_topic_regex for each in subtopologies
        ),
        "MemberId can't be empty.": not request.member_id.strip(),
        "GroupId can't be empty.": not group_id.strip(),
        "InstanceId can't be empty.": _is_blank(request.instance_id),
        "RackId can't be empty.": _is_blank(request.rack_id),
        "RebalanceTimeoutMs must be provided in first request.": (
            joins and request.rebalance_timeout_ms == NOT_GIVEN
        ),
        "ActiveTasks must be empty when (re-)joining.": joins and request.active != {},
        "StandbyTasks must be empty when (re-)joining.": joins and request.standby != {},
        "WarmupTasks must be empty when (re-)joining.": joins and request.warmup != {},
        "Topology must be non-null when (re-)joining.": joins and topology is None,
    }
    _raise_first(faults)
    for each in subtopologies if joins else ():
        for topic in each.state_changelog_topics:
            if topic.partitions:
                raise group_errors.StreamsInvalidTopology(
                    f"Changelog topic {topic.name} must have an undefined partition count, but it "
                    f"is set to {topic.partitions}."
                )
    _raise_first(
        {
            "InstanceId can't be null.": (
                epoch == STATIC_LEAVE_EPOCH and request.instance_id is None
            ),
            f"MemberEpoch is {epoch}, but must be greater than or equal to -2.": (
                epoch < STATIC_LEAVE_EPOCH
            ),
            "If one task-type is non-null, all must be non-null.": any(given) and not all(given),
            "Topology can only be provided when (re-)joining.": not joins and topology is not None,
        }
    )


def _raise_first(faults: Mapping[str, Any]) -> None:
    for message, is_there in faults.items():
        if is_there:
            raise InvalidRequest(message)


def heartbeat(changes: Changes, request: HeartbeatRequest, world: World) -> HeartbeatResult:
    """Keep a member alive, or let it join, and return its tasks.

    Raises:
        KafkaError: The member is refused; the caller undoes the changes.
    """
    group = changes.group
    was_empty = not group.members
    if request.joins:
        check_room(group, request, world)
    before = _find_or_join(changes, request)
    status: list[Status] = []
    must_assign = _note_member(changes, before, request)
    topology = _settle_topology(changes, request)
    said = group.get(before.id).metadata.topology_epoch
    if said < topology.epoch:
        detail = (
            f"The member's topology epoch {said} is behind the group's topology epoch "
            f"{topology.epoch}."
        )
        status.append(Status(StatusCode.STALE_TOPOLOGY, detail))
    configured, topics_hash = _compare_topics(group, topology, world)
    if configured.is_ready:
        _check_tasks(request, configured)
    _note_offsets(changes, request)
    validated = topology.epoch if configured.is_ready else _NOT_VALIDATED
    if (
        must_assign
        or topics_hash != group.metadata.metadata_hash
        or validated != group.metadata.validated_topology_epoch
        or dict(world.policy.configs) != group.configs
    ):
        metadata = group.with_metadata(
            group.epoch + 1, topics_hash, validated, world.policy.configs
        )
        changes.put(RecordType.METADATA, "", metadata)
    if was_empty and not group.is_delayed and world.policy.initial_rebalance_delay_ms:
        group.is_delayed = True
        changes.delay_ms = world.policy.initial_rebalance_delay_ms
    status += follow_epoch(changes, configured, world)
    after = _advance(changes, before.id, request)
    changes.start(after.id, Deadline.SESSION, world.policy.session_timeout_ms)
    if request.shuts_down and group.shutdown_by is None:
        group.shutdown_by = after.id
    return _answer(group, request, before, after, status, configured, world)


def leave(changes: Changes, request: HeartbeatRequest) -> HeartbeatResult:
    """Remove a member, for good or until its session ends.

    Raises:
        KafkaError: The member is not in the group, or another member has taken its place.
    """
    group = changes.group
    if request.shuts_down and group.shutdown_by is None:
        group.shutdown_by = request.member_id
    member = get_member(group, request.member_id, request.instance_id)
    if request.member_epoch == STATIC_LEAVE_EPOCH:
        assigned = member.current.assigned
        active = {name: dict.fromkeys(each, 0) for name, each in assigned.active.items()}
        current = member.current._replace(
            member_epoch=STATIC_LEAVE_EPOCH,
            assigned=assigned._replace(active=active),
            revoking=NO_TASKS,
        )
        changes.put(RecordType.CURRENT_ASSIGNMENT, member.id, current)
    else:
        fence(changes, member)
    return HeartbeatResult(request.member_id, request.member_epoch)


def fence(changes: Changes, member: Member) -> None:
    """Remove a member for good, and assign again."""
    group = changes.group
    _remove(changes, member)
    changes.put(RecordType.METADATA, "", group.metadata._replace(epoch=group.epoch + 1))
    if not group.members:
        changes.put(RecordType.TARGET_METADATA, "", TargetMetadata(group.epoch, 0))


def check_room(group: StreamsGroup, request: HeartbeatRequest, world: World) -> None:
    """Refuse a new member where the group is full.

    Raises:
        GroupMaxSizeReached: The group has group.streams.max.size members.
    """
    is_known = request.instance_id in group.static_members or request.member_id in group.members
    if len(group.members) >= world.policy.max_size and not is_known:
        raise group_errors.GroupMaxSizeReached(
            f"The streams group has reached its maximum capacity of {world.policy.max_size} "
            "members."
        )


def get_member(group: StreamsGroup, member_id: str, instance_id: str | None) -> Member:
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


def _find_or_join(changes: Changes, request: HeartbeatRequest) -> Member:
    """Return the sender as it was before this heartbeat; a new member has no record yet."""
    group = changes.group
    if not request.joins:
        member = get_member(group, request.member_id, request.instance_id)
        _check_epoch(member, request)
        return member
    static = group.find_static(request.instance_id)
    if static is None:
        return group.members.get(request.member_id, Member(request.member_id))
    if static.epoch != STATIC_LEAVE_EPOCH:
        raise group_errors.UnreleasedInstanceId(
            f"Static member {request.member_id} with instance id {request.instance_id} cannot join "
            f"the group because the instance id is owned by {static.id} member."
        )
    return _replace_static(changes, static, request.member_id)


def _replace_static(changes: Changes, member: Member, member_id: str) -> Member:
    """Let a new member take the place of a static member, and its tasks."""
    target = changes.group.target_of(member.id)
    _remove(changes, member)
    current = member.current._replace(member_epoch=0, previous_member_epoch=0)
    changes.put(RecordType.MEMBER_METADATA, member_id, member.metadata)
    changes.put(RecordType.TARGET_MEMBER, member_id, target)
    changes.put(RecordType.CURRENT_ASSIGNMENT, member_id, current)
    return changes.group.get(member_id)


def _remove(changes: Changes, member: Member) -> None:
    """Write that a member is removed; its tasks are free at once."""
    for kind in (
        RecordType.CURRENT_ASSIGNMENT,
        RecordType.TARGET_MEMBER,
        RecordType.MEMBER_METADATA,
    ):
        changes.put(kind, member.id, None)


def _check_epoch(member: Member, request: HeartbeatRequest) -> None:
    """Fence a member of another epoch; the one before is allowed, since an answer may be lost."""
    received, known = request.member_epoch, member.epoch
    owned, assigned = request.owned, member.current.assigned
    is_the_one_before = (
        received == member.current.previous_member_epoch
        and owned is not None
        and all(each <= assigned.active.get(name, {}).keys() for name, each in owned.active.items())
        and _is_subset(owned.standby, assigned.standby)
        and _is_subset(owned.warmup, assigned.warmup)
    )
    if received > known or (received < known and not is_the_one_before):
        raise group_errors.FencedMemberEpoch(
            f"The streams group member has a {'greater' if received > known else 'smaller'} "
            f"member epoch ({received}) than the one known by the group coordinator ({known}). The "
            "member must abandon all its partitions and rejoin."
        )


def _is_subset(owned: TaskSet, assigned: TaskSet) -> bool:
    return all(each <= assigned.get(name, frozenset()) for name, each in owned.items())


def _is_blank(text: str | None) -> bool:
    """Tell whether a string is given and blank."""
    return text is not None and not text.strip()


def _note_member(changes: Changes, before: Member, request: HeartbeatRequest) -> bool:
    """Note a member's metadata; return whether tasks have to be assigned again."""
    metadata = _merge(before.metadata, request)
    if metadata == before.metadata and before.id in changes.group.members:
        return False
    changes.put(RecordType.MEMBER_METADATA, before.id, metadata)
    return request.instance_id is None or any(
        getattr(metadata, name) != getattr(before.metadata, name)
        for name in ("topology_epoch", "rack_id", "client_tags", "process_id")
    )


def _merge(metadata: MemberMetadata, request: HeartbeatRequest) -> MemberMetadata:
    """Return the metadata of a member after its heartbeat."""
    said: dict[str, Any] = {
        "instance_id": request.instance_id,
        "rack_id": request.rack_id,
        "client_id": request.client_id,
        "client_host": request.client_host,
        "topology_epoch": None if request.topology is None else request.topology.epoch,
        "process_id": request.process_id,
        "user_endpoint": request.user_endpoint,
        "client_tags": request.client_tags,
    }
    if request.rebalance_timeout_ms != NOT_GIVEN:
        said["rebalance_timeout_ms"] = request.rebalance_timeout_ms
    changed = {name: value for name, value in said.items() if value is not None}
    if request.joins:
        changed["user_endpoint"] = request.user_endpoint
    return metadata._replace(**changed)


def _settle_topology(changes: Changes, request: HeartbeatRequest) -> Topology:
    """Return the group's topology; the first one that a member sends becomes it.

    Raises:
        InvalidRequest: The member has another topology.
    """
    known, sent = changes.group.topology, request.topology
    if known is None:
        if sent is None:
            raise UnknownServerError
        changes.put(RecordType.TOPOLOGY, "", sent)
        return sent
    if sent is not None and known.epoch <= sent.epoch and not same_topology(known, sent):
        raise InvalidRequest("Topology updates are not supported yet.")
    return known


def _compare_topics(
    group: StreamsGroup, topology: Topology, world: World
) -> tuple[ConfiguredTopology, int]:
    """Return the topology beside the topics as they are, and the hash of these topics."""
    configured = group.configured
    topics_hash = group.metadata.metadata_hash
    if configured is None or group.topics_seen != world.image.version:
        topics_hash = hash_topics(required_topics(topology), world.image)
        if configured is None or topics_hash != group.metadata.metadata_hash:
            configured = configure(topology, world.image)
        group.configured = configured
        group.topics_seen = world.image.version
    return configured, topics_hash


def _check_tasks(request: HeartbeatRequest, configured: ConfiguredTopology) -> None:
    """Refuse tasks that the topology does not have.

    Raises:
        InvalidRequest: A task, or its subtopology, does not exist.
    """
    for role in (request.active, request.standby, request.warmup):
        for name, partitions in (role or {}).items():
            subtopology = configured.subtopologies.get(name)
            if subtopology is None:
                raise InvalidRequest(f"Subtopology {name} does not exist in the topology.")
            for partition in sorted(partitions):
                if not 0 <= partition < subtopology.tasks:
                    raise InvalidRequest(
                        f"Task {partition} for subtopology {name} is invalid. Number of tasks for "
                        f"this subtopology: {subtopology.tasks}"
                    )


def _note_offsets(changes: Changes, request: HeartbeatRequest) -> None:
    if request.offsets is not None or request.end_offsets is not None:
        offsets, ends = changes.group.offsets.get(request.member_id, ({}, {}))
        changes.set_offsets(
            request.member_id,
            (
                offsets if request.offsets is None else request.offsets,
                ends if request.end_offsets is None else request.end_offsets,
            ),
        )


def _advance(changes: Changes, member_id: str, request: HeartbeatRequest) -> Member:
    """Move a member one step towards the group's target assignment."""
    group = changes.group
    member = group.get(member_id)
    if member.is_reconciled(group.target_epoch):
        return member
    target = Tasks() if group.is_delayed else group.target_of(member_id)
    current = reconcile(group, member, group.target_epoch, target, request.owned)
    if current == member.current:
        return member
    changes.put(RecordType.CURRENT_ASSIGNMENT, member_id, current)
    if current.state == MemberState.UNREVOKED_TASKS:
        changes.start(member_id, Deadline.REBALANCE, member.metadata.rebalance_timeout_ms)
    else:
        changes.cancel(member_id, Deadline.REBALANCE)
    return group.get(member_id)


def _answer(
    group: StreamsGroup,
    request: HeartbeatRequest,
    before: Member,
    after: Member,
    status: list[Status],
    configured: ConfiguredTopology,
    world: World,
) -> HeartbeatResult:
    policy = world.policy
    assigned = after.current.assigned
    has_moved = assigned != before.current.assigned
    endpoint = after.metadata.user_endpoint
    if endpoint != before.metadata.user_endpoint or (has_moved and endpoint is not None):
        group.endpoint_epoch += 1
    if configured.fault is not None:
        status.append(configured.fault)
    if group.shutdown_by is not None:
        detail = (
            f"Streams group member {group.shutdown_by} encountered a fatal error and requested a "
            "shutdown for the entire application."
        )
        status.append(Status(StatusCode.SHUTDOWN_APPLICATION, detail))
    tags = {each.key for each in after.metadata.client_tags}
    lacking = [each for each in policy.rack_tags if each not in tags]
    if request.knows_tags and lacking:
        detail = (
            f"Missing required client tags for rack-aware standby assignment: "
            f"[{', '.join(lacking)}]. Configure them via 'client.tag.<tagKey>' in your Streams "
            "config."
        )
        status.append(Status(StatusCode.MISSING_CLIENT_TAGS, detail))
    return HeartbeatResult(
        after.id,
        after.epoch,
        policy.heartbeat_interval_ms,
        TASK_OFFSET_INTERVAL_MS,
        ACCEPTABLE_RECOVERY_LAG,
        status,
        assigned if request.joins or has_moved else None,
        group.endpoint_epoch,
        None
        if group.endpoint_epoch == request.endpoint_epoch
        else find_partitions(group, after, configured, world.image),
        configured,
    )

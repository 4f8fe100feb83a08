"""A group of a Kafka Streams application (KIP-1071), as its records describe it.

Kafka's StreamsGroup. The group does no I/O and has no clock. Only `apply` changes what records
describe: it applies a record, which comes from the journal at the start and from a transition
later. The transitions are functions of the modules beside this one; each writes through
`broker.groups.streams.changes`.
"""

from collections.abc import Iterator, Mapping
from typing import Final

from siltstone.broker.groups.member_bytes import bytes_of
from siltstone.broker.groups.streams.assignor import TaskId
from siltstone.broker.groups.streams.member import GONE_ASSIGNMENT, Member
from siltstone.broker.groups.streams.topology import ConfiguredTopology
from siltstone.protocol.coordinator.group_errors import UnknownMemberId
from siltstone.protocol.coordinator.streams_group_records import (
    CurrentAssignment,
    GroupMetadata,
    HeldTasks,
    LastAssignmentConfig,
    MemberMetadata,
    RecordType,
    StreamsGroupKey,
    TargetMetadata,
    Tasks,
    Topology,
    Value,
)

_NO_TARGET: Final = Tasks()
_FIRST: Final = GroupMetadata(epoch=1)  # 0 is the epoch of a member that joins
_FIRST_TARGET: Final = TargetMetadata(1, 0)
_DELETED_TARGET: Final = TargetMetadata(-1, 0)
_TASK_BYTES: Final = 400
"""The memory for a task of a member, of its target, or an offset that it reported."""
_ELEMENT_BYTES: Final = 100

Offsets = Mapping[TaskId, int]
"""Offsets that a member reported, by task."""


class StreamsGroup:
    """One group (loop only).

    Invariants: an active task has at most one owner, the member to which it is assigned or that has
    yet to revoke it; a process has at most one copy of a task. The epochs of the group and of its
    target only rise.

    No record has these: ``configured``, the topology beside the topics of version ``topics_seen``;
    ``offsets``, by member, of its tasks and their ends;
    ``endpoint_epoch``, which rises when members have to learn endpoints again;
    ``shutdown_by``, the member that asked the application to end; ``is_delayed``, while the first
    assignment waits for more members.
    """

    __slots__ = (
        "configured", "endpoint_epoch", "group_id", "is_delayed", "members", "metadata", "of_users",
        "offsets", "owners", "partition", "shutdown_by", "size", "standby", "static_members",
        "target", "targets", "topics_seen", "topology", "warmup",
    )  # fmt: skip

    protocol_type: Final = "streams"

    def __init__(self, group_id: str, partition: int) -> None:
        self.group_id = group_id
        self.partition = partition  # the partition of __consumer_offsets
        self.metadata = _FIRST
        self.target = _FIRST_TARGET
        self.topology: Topology | None = None
        self.members: dict[str, Member] = {}
        self.static_members: dict[str, str] = {}
        self.targets: dict[str, Tasks] = {}
        self.owners: dict[TaskId, str] = {}
        self.standby: dict[TaskId, set[str]] = {}
        self.warmup: dict[TaskId, set[str]] = {}
        self.size = 0
        self.of_users: dict[str, int] = {}
        self.is_delayed = False
        self.forget_unwritten()

    def forget_unwritten(self) -> None:
        """Forget what no record has, as Kafka does after the heartbeat that founds a group."""
        self.configured: ConfiguredTopology | None = None
        self.topics_seen = -1
        self.offsets: dict[str, tuple[Offsets, Offsets]] = {}
        self.endpoint_epoch = 0
        self.shutdown_by: str | None = None

    @property
    def epoch(self) -> int:
        """The epoch of the group."""
        return self.metadata.epoch

    @property
    def target_epoch(self) -> int:
        """The epoch of the target."""
        return self.target.assignment_epoch

    @property
    def configs(self) -> dict[str, str]:
        """The settings with which the target was computed."""
        return {each.key: each.value for each in self.metadata.last_assignment_configs or ()}

    @property
    def state(self) -> str:
        """The name of the state, as tools print it."""
        if not self.members:
            return "Empty"
        validated = self.metadata.validated_topology_epoch
        if self.topology is None or self.topology.epoch != validated:
            return "NotReady"
        if self.epoch > self.target_epoch:
            return "Assigning"
        if all(member.is_reconciled(self.target_epoch) for member in self.members.values()):
            return "Stable"
        return "Reconciling"

    def get(self, member_id: str) -> Member:
        """Return a member.

        Raises:
            UnknownMemberId: No member has that id.
        """
        member = self.members.get(member_id)
        if member is None:
            raise UnknownMemberId(f"Member {member_id} is not a member of group {self.group_id}.")
        return member

    def find_static(self, instance_id: str | None) -> Member | None:
        """Return the member that has an instance id now."""
        member_id = None if instance_id is None else self.static_members.get(instance_id)
        return None if member_id is None else self.members.get(member_id)

    def target_of(self, member_id: str) -> Tasks:
        """Return the target of a member."""
        return self.targets.get(member_id, _NO_TARGET)

    def with_metadata(
        self, epoch: int, topics_hash: int, validated: int, configs: Mapping[str, str]
    ) -> GroupMetadata:
        """Return the record of the group with other values."""
        return self.metadata._replace(
            epoch=epoch,
            metadata_hash=topics_hash,
            validated_topology_epoch=validated,
            last_assignment_configs=tuple(LastAssignmentConfig(*each) for each in configs.items()),
        )

    def apply(self, key: StreamsGroupKey, value: Value | None, user: str = "") -> None:
        """Apply a record, which deletes if it has no value; ``user`` is the user of its member."""
        match value:
            case GroupMetadata():
                self.metadata = value
            case MemberMetadata():
                member = self.members.get(key.name, Member(key.name))
                self._put(member._replace(metadata=value, user=user or member.user))
            case TargetMetadata():
                self.target = value
            case Tasks():
                self._forget_target(key.name)
                self.targets[key.name] = value
                self.size += _size_of_tasks(value)
            case CurrentAssignment():
                self._put(self.members.get(key.name, Member(key.name))._replace(current=value))
            case Topology():
                self._set_topology(value)
            case None:
                self._delete(key)

    def value_of(self, key: StreamsGroupKey) -> Value | None:
        """Return the value with which `apply` would restore what the group has now."""
        member = self.members.get(key.name)
        known: dict[RecordType, Value | None] = {
            RecordType.METADATA: self.metadata,
            RecordType.MEMBER_METADATA: None if member is None else member.metadata,
            RecordType.TARGET_METADATA: self.target,
            RecordType.TARGET_MEMBER: self.targets.get(key.name),
            RecordType.CURRENT_ASSIGNMENT: None if member is None else member.current,
            RecordType.TOPOLOGY: self.topology,
        }
        return known[key.type]

    def claim(self, member_id: str, user: str) -> None:
        """Note the user of a member that was read from the journal."""
        member = self.members.get(member_id)
        if user and member is not None and not member.user:
            self.members[member_id] = member = member._replace(user=user)
            self._count_user(member, 1)

    def set_offsets(self, member_id: str, offsets: tuple[Offsets, Offsets]) -> None:
        """Keep the offsets that a member reported."""
        before = self.offsets.get(member_id, ({}, {}))
        self.offsets[member_id] = offsets
        self.size += _TASK_BYTES * (sum(map(len, offsets)) - sum(map(len, before)))

    def _set_topology(self, topology: Topology | None) -> None:
        if self.topology is not None:
            self.size -= _size_of_topology(self.topology)
        if topology is not None:
            self.size += _size_of_topology(topology)
        self.topology = topology
        self.configured = None

    def _delete(self, key: StreamsGroupKey) -> None:
        match key.type:
            case RecordType.MEMBER_METADATA:
                member = self.members.pop(key.name, None)
                if member is not None:
                    self.size -= member.size
                    self._count_user(member, -1)
                    self._release(member)
                    self._forget_instance(member)
                    self.set_offsets(member.id, ({}, {}))
                    del self.offsets[member.id]
                if not self.members:
                    self.shutdown_by = None
            case RecordType.TARGET_METADATA:
                self.target = _DELETED_TARGET
            case RecordType.TARGET_MEMBER:
                self._forget_target(key.name)
            case RecordType.CURRENT_ASSIGNMENT:
                member = self.members.get(key.name)
                if member is not None:
                    self._put(member._replace(current=GONE_ASSIGNMENT))
            case RecordType.TOPOLOGY:
                self._set_topology(None)
            case RecordType.METADATA:
                pass  # the caller drops the group

    def _put(self, after: Member) -> None:
        before = self.members.get(after.id)
        if before is not None:
            self.size -= before.size
            self._count_user(before, -1)
            self._release(before)
            if before.metadata.instance_id != after.metadata.instance_id:
                self._forget_instance(before)
        self.members[after.id] = after
        self.size += after.size
        self._count_user(after, 1)
        self._take(after)
        if after.metadata.instance_id is not None:
            self.static_members[after.metadata.instance_id] = after.id

    def _count_user(self, member: Member, sign: int) -> None:
        if member.user:
            size = self.of_users.get(member.user, 0) + sign * member.size
            self.of_users[member.user] = size
            if not size:
                del self.of_users[member.user]

    def _forget_target(self, member_id: str) -> None:
        target = self.targets.pop(member_id, None)
        if target is not None:
            self.size -= _size_of_tasks(target)

    def _forget_instance(self, member: Member) -> None:
        """Forget a member's instance id, unless another has it: compaction may leave gaps."""
        instance_id = member.metadata.instance_id
        if instance_id is not None and self.static_members.get(instance_id) == member.id:
            del self.static_members[instance_id]

    def _take(self, member: Member) -> None:
        for held in (member.current.assigned, member.current.revoking):
            self.size += _size_of_tasks(held)
            for task in task_ids(held.active):
                self.owners[task] = member.id
            for role, holders in ((held.standby, self.standby), (held.warmup, self.warmup)):
                for task in task_ids(role):
                    holders.setdefault(task, set()).add(member.id)

    def _release(self, member: Member) -> None:
        for held in (member.current.assigned, member.current.revoking):
            self.size -= _size_of_tasks(held)
            for task in task_ids(held.active):
                if self.owners.get(task) == member.id:
                    del self.owners[task]
            for role, holders in ((held.standby, self.standby), (held.warmup, self.warmup)):
                for task in task_ids(role):
                    some = holders.get(task, set())
                    some.discard(member.id)
                    if not some:
                        holders.pop(task, None)


def task_ids(tasks: Mapping[str, Mapping[int, int] | frozenset[int]]) -> Iterator[TaskId]:
    """Yield the tasks of a role."""
    for subtopology, partitions in tasks.items():
        for partition in partitions:
            yield TaskId(subtopology, partition)


def _size_of_tasks(tasks: Tasks | HeldTasks) -> int:
    return _TASK_BYTES * sum(len(each) for role in tasks for each in role.values())


def _size_of_topology(topology: Topology) -> int:
    size = 0
    for each in topology.subtopologies:
        size += bytes_of((each.subtopology_id, *each.source_topics, *each.repartition_sink_topics))
        for topic in (*each.state_changelog_topics, *each.repartition_source_topics):
            size += _ELEMENT_BYTES + bytes_of((topic.name,))
            size += sum(map(bytes_of, topic.topic_configs))
        size += _ELEMENT_BYTES * sum(sum(map(len, group)) for group in each.copartition_groups)
    return size

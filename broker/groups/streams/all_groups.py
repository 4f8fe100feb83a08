"""All streams groups: their transitions run here, and the records are written here.

The modules beside this one decide what changes. This module writes their records into the journal
before any client sees the change. It also creates and deletes groups, removes members that miss a
deadline, and makes the first assignment of a group when its delay is over. The coordinator sees a
group as a `HostedStreamsGroup`.
"""

import logging
from collections.abc import Callable, Sequence
from functools import partial
from typing import Final, NoReturn, TypeVar

from siltstone.broker.coordination.timers import Timer
from siltstone.broker.groups.classic import messages
from siltstone.broker.groups.classic.group import ClassicGroup
from siltstone.broker.groups.consumer.checks import PartitionCheck
from siltstone.broker.groups.coordinator import GroupCoordinator
from siltstone.broker.groups.deadlines import Deadline, Deadlines
from siltstone.broker.groups.member_bytes import GroupBytes, size_of_group
from siltstone.broker.groups.streams import checks
from siltstone.broker.groups.streams.changes import Changes, tombstones
from siltstone.broker.groups.streams.group import StreamsGroup
from siltstone.broker.groups.streams.heartbeat import (
    HeartbeatRequest,
    HeartbeatResult,
    fence,
    heartbeat,
    leave,
)
from siltstone.broker.groups.streams.member import LEAVE_EPOCH, MemberState
from siltstone.broker.groups.streams.policy import GroupPolicies, World
from siltstone.broker.groups.streams.target import assign
from siltstone.broker.groups.streams.topology import input_topics
from siltstone.broker.groups.topic_image import TopicImage
from siltstone.protocol.coordinator import group_errors
from siltstone.protocol.coordinator.streams_group_records import (
    RecordType,
    StreamsGroupKey,
    decode_value,
)
from siltstone.protocol.errors import ErrorCode, KafkaError
from siltstone.protocol.messages.consumer_offsets import OffsetCommitValue
from siltstone.protocol.records.journal import Row

_logger = logging.getLogger(__name__)

T = TypeVar("T")

_RETRY_MS = 500
"""When a missed deadline is tried again after a write that failed."""
_SAID = frozenset({RecordType.MEMBER_METADATA, RecordType.TOPOLOGY})
"""Bytes of members' requests, which may be refused; assignments are not: members would give up."""


class HostedStreamsGroup:
    """A `Group` of Kafka Streams (loop only). ``machine`` is its state from the records.

    Members of the classic protocol are not let in, unless the group is empty.
    """

    type: Final = "streams"

    def __init__(self, machine: StreamsGroup, groups: "StreamsGroups") -> None:
        self.machine = machine
        self.group_id = machine.group_id
        self.partition = machine.partition
        timers = groups.coordinator.timers
        self.deadlines = Deadlines(timers, partial(groups.missed, self))
        self.first_assignment = Timer(timers)
        self._bytes = GroupBytes(groups.coordinator.member_bytes)
        self._own_bytes = 0
        self._coordinator = groups.coordinator

    @property
    def state(self) -> str:
        """The state by the name that tools print."""
        return self.machine.state

    @property
    def protocol_type(self) -> str:
        """The type of its members."""
        return self.machine.protocol_type

    @property
    def is_empty(self) -> bool:
        """Whether no member is left."""
        return not self.machine.members

    def count_name(self) -> None:
        """Count the memory that the group takes, with its name and its members."""
        self._own_bytes = size_of_group(self.group_id)
        self.count_bytes()

    def count_bytes(self) -> None:
        """Count the memory that the members take now."""
        self._bytes.add(self._own_bytes + self.machine.size - self._bytes.size)
        self._bytes.set_shares(self.machine.of_users)

    # The interface for the coordinator

    def check_commit(
        self, member_id: str, instance_id: str | None, generation: int, version: int | None
    ) -> None:
        """Refuse a commit if the sender may not commit now."""
        checks.check_commit(self.machine, member_id, instance_id, generation, version)

    def find_partition_check(self, member_id: str, generation: int) -> PartitionCheck | None:
        """Return the check for each partition of a commit, or None if there is nothing to check."""
        return checks.find_partition_check(self.machine, member_id, generation)

    def check_fetch(self, member_id: str | None, member_epoch: int) -> None:
        """Refuse an OffsetFetch of a sender that is no longer a member."""
        checks.check_fetch(self.machine, member_id, member_epoch)

    def check_offset_delete(self) -> None:
        """Allow offsets to be deleted: this group knows which topics are in use."""

    def check_delete(self) -> None:
        """Allow an empty group to be deleted.

        Raises:
            NonEmptyGroup: The group has members.
        """
        if not self.is_empty:
            raise group_errors.NonEmptyGroup

    def is_subscribed_to(self, topic: str) -> bool:
        """Tell whether members read a topic."""
        topology = self.machine.topology
        if self.is_empty or topology is None:
            return False
        return any(topic in input_topics(each) for each in topology.subtopologies)

    def expiry_base(self, topic: str, committed: OffsetCommitValue) -> int | None:
        """Return the time in ms since which an offset is unused; None if it is in use."""
        return None if self.is_subscribed_to(topic) else committed.commit_timestamp

    def touch(self, member_id: str) -> None:
        """Do nothing: a commit is no heartbeat in this protocol."""

    def tombstones(self) -> list[Row]:
        """Return the records that delete the group, without those of its offsets."""
        return tombstones(self.machine)

    def close(self, error: ErrorCode = ErrorCode.none) -> None:
        """Cancel all deadlines; requests of this protocol never wait."""
        del error
        self.deadlines.close()
        self.first_assignment.cancel()
        self._bytes.close()

    # Members of the classic protocol

    def join(self, request: messages.JoinRequest, reply: messages.JoinReply) -> None:
        """Replace this group with a classic group if it is empty, and let the member join that.

        Raises:
            UnknownMemberId: The member claims to be in the group.
            KafkaError: The journal did not take it.
        """
        if not self.is_empty:
            reply(messages.JoinResult(ErrorCode.inconsistent_group_protocol, ""))
            return
        if request.member_id:
            raise group_errors.UnknownMemberId
        group = ClassicGroup(self.group_id, self.partition, self._coordinator.classic_services)
        self._coordinator.write(self, [*self.tombstones(), group.record()])
        self.close()
        self._coordinator.add(group)
        group.join(request, reply)

    def sync(self, request: messages.SyncRequest, reply: messages.SyncReply) -> NoReturn:
        """Refuse a member of the classic protocol.

        Raises:
            UnknownMemberId: In any case.
        """
        del request, reply
        raise group_errors.UnknownMemberId

    def heartbeat(self, member_id: str, instance_id: str | None, generation: int) -> NoReturn:
        """Refuse a member of the classic protocol.

        Raises:
            UnknownMemberId: In any case.
        """
        del member_id, instance_id, generation
        raise group_errors.UnknownMemberId

    def leave(self, leaving: Sequence[tuple[str, str | None]]) -> list[ErrorCode]:
        """Refuse members of the classic protocol."""
        return [ErrorCode.unknown_member_id] * len(leaving)


class StreamsGroups:
    """The streams groups of one coordinator (loop only), which the coordinator lists with others.

    While the journal is read, the groups only apply its records and requests are refused.
    """

    def __init__(self, coordinator: GroupCoordinator) -> None:
        self.coordinator = coordinator
        self.policies = GroupPolicies(coordinator.settings)
        self.image: TopicImage = coordinator.topics
        self._loading: dict[int, dict[str, StreamsGroup]] = {}

    def get(self, group_id: str) -> HostedStreamsGroup:
        """Return a streams group.

        Raises:
            GroupIdNotFound: No group has that id.
        """
        group = self.coordinator.find(group_id)
        if group is None:
            raise group_errors.GroupIdNotFound(f"Group {group_id} not found.")
        if not isinstance(group, HostedStreamsGroup):
            raise group_errors.GroupIdNotFound(f"Group {group_id} is not a streams group.")
        return group

    def heartbeat(self, group_id: str, request: HeartbeatRequest) -> HeartbeatResult:
        """Keep a member alive, add it, or remove it.

        Raises:
            GroupIdNotFound: There is no such streams group, and none can be created.
            KafkaError: The member is refused, or the journal did not take it.
        """
        group = self.coordinator.find(group_id)
        if not isinstance(group, HostedStreamsGroup):
            is_free = group is None or (isinstance(group, ClassicGroup) and group.is_empty)
            if request.joins and is_free:
                return self._found(group_id, group, request)
            if group is None and not request.is_leaving:
                raise group_errors.GroupIdNotFound(f"Streams group {group_id} not found.")
            group = self.get(group_id)
        group.machine.claim(request.member_id, request.user)
        if request.is_leaving:
            result = self._run(group, lambda changes: leave(changes, request))
            if request.member_epoch == LEAVE_EPOCH:
                group.deadlines.cancel(request.member_id)
            return result
        world = self._world(group_id)
        return self._run(group, lambda changes: heartbeat(changes, request, world), request.user)

    def missed(self, group: HostedStreamsGroup, member_id: str, deadline: Deadline) -> None:
        """Remove a member that missed a deadline; try again later if the journal refuses it."""
        member = group.machine.members.get(member_id)
        if member is None:
            return
        line = "member is fenced group=%s member=%s reason=it %s"
        _logger.info(line, group.group_id, member_id, deadline.value)
        try:
            self._run(group, lambda changes: fence(changes, member))
            group.deadlines.cancel(member_id)
        except KafkaError as error:
            line = "member not fenced group=%s reason=%s"
            self.coordinator.unwritten.warn(_logger, line, group.group_id, error)
            group.deadlines.start(member_id, deadline, _RETRY_MS)

    def _world(self, group_id: str) -> World:
        return World(self.policies.of(group_id), self.image, self.coordinator.clock.now_ms())

    def _run(
        self, group: HostedStreamsGroup, transition: Callable[[Changes], T], user: str = ""
    ) -> T:
        """Run a transition for a user and write its records; after a failure nothing has changed.

        Raises:
            KafkaError: The transition is refused, or the journal did not take it.
        """
        machine = group.machine
        changes = Changes(machine, user)
        before, share = machine.size, machine.of_users.get(user, 0)
        try:
            result = transition(changes)
            says = any(key.type in _SAID and value is not None for key, value in changes.records)
            if says or changes.has_offsets:
                member_bytes = self.coordinator.member_bytes
                member_bytes.check(machine.size - before)
                member_bytes.check_share(machine.of_users.get(user, 0) - share, user)
            if changes.records:
                self.coordinator.write(group, changes.encode())
        except BaseException:
            changes.undo()
            raise
        finally:
            changes.settle(group.deadlines)
        self._delay(group, changes)
        group.count_bytes()
        return result

    def _found(self, group_id: str, old: object, request: HeartbeatRequest) -> HeartbeatResult:
        """Create a streams group: a new one, or one that replaces an empty classic group."""
        self.coordinator.check_room(group_id)
        machine = StreamsGroup(group_id, self.coordinator.journal.partition_for(group_id))
        changes = Changes(machine, request.user)
        world = self._world(group_id)
        result = heartbeat(changes, request, world)
        self.coordinator.member_bytes.check(machine.size, request.user)
        rows = old.tombstones() if isinstance(old, ClassicGroup) else []
        self.coordinator.write(machine, rows + changes.encode())
        machine.forget_unwritten()
        if isinstance(old, ClassicGroup):
            old.close(ErrorCode.unknown_member_id)
        group = HostedStreamsGroup(machine, self)
        changes.settle(group.deadlines)
        self.coordinator.add(group)
        self._delay(group, changes)
        return result._replace(endpoint_epoch=0)

    def _delay(self, group: HostedStreamsGroup, changes: Changes) -> None:
        """Let the first assignment wait, if the changes say so."""
        if changes.delay_ms:
            group.first_assignment.start(changes.delay_ms, partial(self._assign_first, group))

    def _assign_first(self, group: HostedStreamsGroup) -> None:
        """Assign tasks for the first time; if that fails, a heartbeat does it later."""
        machine = group.machine
        machine.is_delayed = False
        configured = machine.configured
        if not machine.members or configured is None or machine.epoch <= machine.target_epoch:
            return
        world = self._world(group.group_id)
        try:
            self._run(group, lambda changes: assign(changes, configured, world))
        except KafkaError as error:
            line = "tasks not assigned group=%s reason=%s"
            self.coordinator.unwritten.warn(_logger, line, group.group_id, error)

    # Reading the journal back

    def replay(self, partition: int, key: StreamsGroupKey, value: bytes | None) -> str | None:
        """Apply a record, and return the id of a group that it deletes.

        Raises:
            ProtocolError: The record cannot be read, or a newer Kafka has written it.
        """
        content = None if value is None else decode_value(key.type, value)
        groups = self._loading.setdefault(partition, {})
        group = groups.get(key.group_id)
        if content is None and (group is None or key.type is RecordType.METADATA):
            groups.pop(key.group_id, None)
            return key.group_id if key.type is RecordType.METADATA else None
        if group is None:
            group = groups[key.group_id] = StreamsGroup(key.group_id, partition)
        group.apply(key, content)
        return None

    def finish(self, partition: int) -> None:
        """Begin to serve the groups of a partition that was read to its end."""
        for machine in self._loading.pop(partition, {}).values():
            group = HostedStreamsGroup(machine, self)
            self.coordinator.add(group)
            timeout_ms = self.policies.of(group.group_id).session_timeout_ms
            for member in machine.members.values():
                group.deadlines.start(member.id, Deadline.SESSION, timeout_ms)
                if member.state is MemberState.UNREVOKED_TASKS:
                    rebalance_ms = member.metadata.rebalance_timeout_ms
                    group.deadlines.start(member.id, Deadline.REBALANCE, rebalance_ms)

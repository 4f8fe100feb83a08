"""All consumer groups: their transitions run here, and the records are written here.

The modules beside this one decide what changes. This module writes their records into the journal
before any client sees the change. It also creates and deletes groups, moves them to the other
protocol, and removes members that miss a deadline. The coordinator sees a group as a
`HostedConsumerGroup`.
"""

import asyncio
import logging
from collections.abc import Callable, Collection, Sequence
from functools import partial
from itertools import compress
from sys import getsizeof
from typing import Final, TypeVar

from siltstone.broker.groups.classic import messages
from siltstone.broker.groups.classic.group import ClassicGroup
from siltstone.broker.groups.consumer import checks, classic
from siltstone.broker.groups.consumer.changes import Changes, tombstones
from siltstone.broker.groups.consumer.checks import PartitionCheck
from siltstone.broker.groups.consumer.group import ConsumerGroup
from siltstone.broker.groups.consumer.heartbeat import (
    HeartbeatRequest,
    HeartbeatResult,
    heartbeat,
    leave,
)
from siltstone.broker.groups.consumer.member import JOIN_EPOCH, LEAVE_EPOCH, Member, MemberState
from siltstone.broker.groups.consumer.membership import check_room, fence, get_member
from siltstone.broker.groups.consumer.migration import (
    check_upgrade,
    downgrade,
    may_downgrade,
    may_replace_last,
    upgrade,
)
from siltstone.broker.groups.consumer.policy import GroupPolicies, World
from siltstone.broker.groups.consumer.regex_refresh import (
    find_stale,
    last_resolved_ms,
    take_matches,
)
from siltstone.broker.groups.consumer.regexes import Regexes
from siltstone.broker.groups.coordinator import GroupCoordinator
from siltstone.broker.groups.deadlines import Deadline
from siltstone.broker.groups.hosted import Hosted
from siltstone.broker.groups.loading import Loading
from siltstone.broker.groups.topic_image import TopicImage
from siltstone.broker.process.loop_share import LoopShare
from siltstone.protocol.coordinator import group_errors
from siltstone.protocol.coordinator.consumer_group_records import (
    KEYS,
    RecordType,
    decode_value,
)
from siltstone.protocol.errors import ErrorCode, KafkaError
from siltstone.protocol.messages.consumer_offsets import OffsetCommitValue
from siltstone.protocol.names import uuid_text
from siltstone.protocol.records.journal import Row
from siltstone.storage.randomness import random_uuid

_logger = logging.getLogger(__name__)

T = TypeVar("T")

_MATCHES_AT_A_TIME = 8
"""How many groups have their expressions matched at once: RE2 may take a megabyte for each."""
_RETRY_MS = 500
"""When a missed deadline is tried again after a write that failed."""


class HostedConsumerGroup(Hosted[ConsumerGroup]):
    """A `Group` of the consumer protocol (loop only).

    `join`, `sync`, `heartbeat` and `leave` are for
    members of the classic protocol; the host serves members of the consumer protocol. ``sees``
    comes from the last heartbeat.
    """

    type: Final = "consumer"

    def __init__(self, machine: ConsumerGroup, groups: "ConsumerGroups") -> None:
        super().__init__(machine, groups.coordinator, partial(groups.missed, self))
        self.sees: Callable[[str], bool] | None = None
        self._groups = groups

    @property
    def state(self) -> str:
        """The state by the name that tools print."""
        return self.machine.state

    @property
    def protocol_type(self) -> str:
        """The type of its members."""
        return self.machine.protocol_type

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
        if not self.machine.is_empty:
            raise group_errors.NonEmptyGroup

    def is_subscribed_to(self, topic: str) -> bool:
        """Tell whether members read a topic, or may read it."""
        return self.machine.is_subscribed(topic)

    def expiry_base(self, topic: str, committed: OffsetCommitValue) -> int | None:
        """Return the time in ms since which an offset is unused; None if it is in use."""
        return None if self.is_subscribed_to(topic) else committed.commit_timestamp

    def tombstones(self) -> list[Row]:
        """Return the records that delete the group, without those of its offsets."""
        return tombstones(self.machine)

    def close(self, error: ErrorCode = ErrorCode.none) -> None:
        """Cancel all deadlines; requests of this protocol never wait."""
        super().close(error)
        for regex in self.machine.subscribers:
            self._groups.regexes.forget(regex, self.group_id)

    def settle(self, changes: Changes) -> None:
        """Change what hangs on the records of a transition, when all is written or undone."""
        changes.settle_all(self.deadlines, self._groups.regexes)

    # Members of the classic protocol

    def join(self, request: messages.JoinRequest, reply: messages.JoinReply) -> None:
        """Let a classic member join; an empty group becomes a classic group first.

        Raises:
            KafkaError: The classic group refuses the member, or the journal did not take it.
        """
        if self.is_empty:
            self._give_way(request, reply)
            return
        try:
            result = self._join(request)
        except KafkaError as error:
            result = messages.JoinResult(error.code, "")
        reply(result)

    def _join(self, request: messages.JoinRequest) -> messages.JoinResult:
        """Let a classic member join."""
        world = self._groups.world(self.group_id)
        if not world.policy.may_mix:
            raise group_errors.InconsistentGroupProtocol(
                f"Cannot join the consumer group {self.group_id} with the classic protocol because "
                "the group migration is disabled."
            )
        member_id = request.member_id or uuid_text(random_uuid())
        check_room(self.machine, member_id, world)
        classic.check_protocols(self.machine, request, member_id)
        if not request.member_id and request.instance_id is None and request.requires_known_id:
            return messages.JoinResult(ErrorCode.member_id_required, member_id)
        replaced = self.machine.find_static(request.instance_id)
        if replaced is not None and may_replace_last(self.machine, replaced, world.policy):
            return self._join_last(request, member_id)
        return self._groups.run_and_match(
            self,
            lambda changes: classic.join(changes, request, member_id, world),
            world,
            request.user,
        )

    def sync(self, request: messages.SyncRequest, reply: messages.SyncReply) -> None:
        """Answer with a classic member's assignment.

        Raises:
            KafkaError: The member is not in the group, is of another generation, or has to rejoin.
        """
        reply(classic.sync(self.machine, request, self._groups.image, self.deadlines))

    def heartbeat(self, member_id: str, instance_id: str | None, generation: int) -> None:
        """Keep a classic member alive.

        Raises:
            KafkaError: The member is not in the group, is of another generation, or has to rejoin.
        """
        classic.heartbeat(self.machine, member_id, instance_id, generation, self.deadlines)

    def leave(self, leaving: Sequence[tuple[str, str | None]]) -> list[ErrorCode]:
        """Remove members, named by member id and instance id, and return an error code for each.

        Raises:
            KafkaError: The journal did not take it.
        """
        codes: list[ErrorCode] = []
        members: dict[str, Member] = {}
        for member_id, instance_id in leaving:
            try:
                member = classic.find_leaving(self.machine, member_id, instance_id)
            except KafkaError as error:
                codes.append(error.code)
            else:
                members[member.id] = member
                codes.append(ErrorCode.none)
        if members:
            self._groups.remove(self, members.values())
        return codes

    def _join_last(self, request: messages.JoinRequest, member_id: str) -> messages.JoinResult:
        """Let a static classic member replace the last member of the consumer protocol."""
        changes = Changes(self.machine, request.user)
        world = self._groups.world(self.group_id)
        before = self.machine.size
        try:
            joining = classic.JoiningMember(changes, request, member_id)
            changed = joining.subscribe(world)
            self._groups.coordinator.member_bytes.check(self.machine.size - before, request.user)
            must_rebalance = self.machine.target_epoch < self.machine.epoch
            if not must_rebalance:
                joining.advance(world, subscription_changed=changed)
            group = self._groups.become_classic(self, (), changes.encode())
        except BaseException:
            changes.undo()
            changes.settle_all(self.deadlines, self._groups.regexes)
            raise
        changes.settle_all(None, self._groups.regexes)
        if must_rebalance:
            group.rebalance()
        return joining.answer()

    def _give_way(self, request: messages.JoinRequest, reply: messages.JoinReply) -> None:
        """Replace this empty group with a classic group, and let the member join that."""
        if request.member_id:
            raise group_errors.UnknownMemberId
        coordinator = self._groups.coordinator
        group = ClassicGroup(self.group_id, self.partition, coordinator.classic_services)
        coordinator.write(self, [*self.tombstones(), group.record()])
        self.close()
        coordinator.add(group)
        group.join(request, reply)


class ConsumerGroups:
    """The consumer groups of one coordinator (loop only), which the coordinator lists with others.

    While the journal is read, the groups only apply its records and requests are refused.
    """

    def __init__(self, coordinator: GroupCoordinator) -> None:
        self.coordinator = coordinator
        self.policies = GroupPolicies(coordinator.settings)
        self.image: TopicImage = coordinator.topics
        self.regexes = Regexes(coordinator.member_bytes)
        self._matching: set[str] = set()  # groups whose expressions are being matched
        self._slots = asyncio.Semaphore(_MATCHES_AT_A_TIME)
        self.loading = Loading(ConsumerGroup, KEYS, decode_value, RecordType.METADATA)

    def get(self, group_id: str) -> HostedConsumerGroup:
        """Return a consumer group.

        Raises:
            GroupIdNotFound: No group has that id.
        """
        group = self.coordinator.find(group_id)
        if group is None:
            raise group_errors.GroupIdNotFound(f"Group {group_id} not found.")
        if not isinstance(group, HostedConsumerGroup):
            raise group_errors.GroupIdNotFound(f"Group {group_id} is not a consumer group.")
        return group

    @property
    def matching_count(self) -> int:
        """How many groups have expressions that are being matched."""
        return len(self._matching)

    def world(self, group_id: str) -> World:
        """Return the settings, topics and time for a transition of a group."""
        return World(
            policy=self.policies.of(group_id),
            image=self.image,
            regexes=self.regexes,
            now_ms=self.coordinator.clock.now_ms(),
        )

    def run(
        self, group: HostedConsumerGroup, transition: Callable[[Changes], T], user: str = ""
    ) -> T:
        """Run a transition for a user and write its records; after a failure nothing has changed.

        Raises:
            KafkaError: The transition is refused, or the journal did not take it.
        """
        return group.run(Changes(group.machine, user), transition)

    def run_and_match(
        self,
        group: HostedConsumerGroup,
        transition: Callable[[Changes], T],
        world: World,
        user: str,
    ) -> T:
        """Run a transition; if the group's expressions are due to be matched, start that for later.

        Raises:
            KafkaError: See `run`.
        """
        last_ms = last_resolved_ms(group.machine)
        result = self.run(group, transition, user)
        self._match_later(group, last_ms, world)
        return result

    def heartbeat(self, group_id: str, request: HeartbeatRequest) -> HeartbeatResult:
        """Keep a member alive, add it, or remove it.

        Raises:
            GroupIdNotFound: There is no such consumer group, and none can be created.
            KafkaError: The member is refused, or the journal did not take it.
        """
        group = self.coordinator.find(group_id)
        if not isinstance(group, HostedConsumerGroup):
            if request.member_epoch == JOIN_EPOCH and (group is None or group.type == "classic"):
                return self._found(group_id, group, request)
            if group is None and not request.is_leaving:
                raise group_errors.GroupIdNotFound(f"Consumer group {group_id} not found.")
            group = self.get(group_id)
        world = self.world(group_id)
        group.sees = request.sees
        group.machine.claim(request.member_id, request.user)
        if not request.is_leaving:
            return self.run_and_match(
                group, lambda changes: heartbeat(changes, request, world), world, request.user
            )
        member = get_member(group.machine, request.member_id, request.instance_id)
        if request.member_epoch == LEAVE_EPOCH and may_downgrade(
            group.machine, (member,), world.policy
        ):
            self._go_back(group, (member,))
            return HeartbeatResult(member.id, LEAVE_EPOCH)
        result = self.run(group, lambda changes: leave(changes, request, world))
        if request.member_epoch == LEAVE_EPOCH:
            group.deadlines.cancel(member.id)
        return result

    def remove(self, group: HostedConsumerGroup, members: Collection[Member]) -> None:
        """Remove members for good; if only classic ones are left, it becomes a classic group.

        Raises:
            KafkaError: The journal did not take it.
        """
        world = self.world(group.group_id)
        if may_downgrade(group.machine, members, world.policy):
            self._go_back(group, members)
        else:
            self.run(group, lambda changes: fence(changes, members, world))
            for member in members:
                group.deadlines.cancel(member.id)

    def missed(self, group: HostedConsumerGroup, member_id: str, deadline: Deadline) -> None:
        """Remove a member that missed a deadline; try again later if the journal refuses it."""
        member = group.machine.members.get(member_id)
        if member is None:
            return
        _logger.info(
            "member is fenced group=%s member=%s reason=it %s",
            group.group_id,
            member_id,
            deadline.value,
        )
        try:
            self.remove(group, (member,))
        except KafkaError as error:
            line = "member not fenced group=%s reason=%s"
            self.coordinator.unwritten.warn(_logger, line, group.group_id, error)
            group.deadlines.start(member_id, deadline, _RETRY_MS)

    def become_classic(
        self, group: HostedConsumerGroup, leaving: Collection[Member], written: list[Row]
    ) -> ClassicGroup:
        """Write the rows ``written``, then the group as a classic one of the members that stay.

        Raises:
            KafkaError: The journal did not take it; the group is as it was.
        """
        coordinator = self.coordinator
        successor = downgrade(group.machine, leaving, self.image, coordinator.classic_services)
        try:
            rows = [*written, *tombstones(group.machine), successor.record()]
            coordinator.write(group, rows)
        except BaseException:
            successor.close()
            raise
        group.close()
        coordinator.add(successor)
        successor.resume()
        _logger.info("consumer group is a classic group now group=%s", group.group_id)
        return successor

    def _go_back(self, group: HostedConsumerGroup, leaving: Collection[Member]) -> None:
        self.become_classic(group, leaving, []).rebalance()

    def _found(self, group_id: str, old: object, request: HeartbeatRequest) -> HeartbeatResult:
        """Create a consumer group: a new one, or one that replaces a classic group."""
        self.coordinator.check_room(group_id)
        rows: list[Row] = []
        changes = Changes(ConsumerGroup(group_id, self.coordinator.journal.partition_for(group_id)))
        if isinstance(old, ClassicGroup):
            rows = old.tombstones()
            if not old.is_empty:
                changes = self._upgraded(old)
        machine = changes.group
        changes.user = request.user
        world = self.world(group_id)
        try:
            result = heartbeat(changes, request, world)
            self.coordinator.member_bytes.check(
                machine.size - (old.members.bytes.size if isinstance(old, ClassicGroup) else 0),
                "" if isinstance(old, ClassicGroup) else request.user,
            )
            self.coordinator.write(machine, rows + changes.encode())
        except BaseException:
            changes.undo()
            changes.settle_all(None, self.regexes)
            raise
        group = HostedConsumerGroup(machine, self)
        group.sees = request.sees
        changes.settle_all(group.deadlines, self.regexes)
        self.coordinator.add(group)
        self._match_later(group, None, world)
        self._start_sessions(group, except_for=result.member_id)
        if isinstance(old, ClassicGroup):
            old.close(ErrorCode.rebalance_in_progress)
            _logger.info("classic group is a consumer group now group=%s", group_id)
        return result

    def _upgraded(self, group: ClassicGroup) -> Changes:
        try:
            check_upgrade(group, self.policies.of(group.group_id))
            return upgrade(group, self.image)
        except group_errors.GroupIdNotFound as error:
            _logger.info("classic group stays one group=%s reason=%s", group.group_id, error)
            raise

    def _start_sessions(self, group: HostedConsumerGroup, except_for: str = "") -> None:
        """Begin the members' sessions."""
        timeout_ms = self.policies.of(group.group_id).session_timeout_ms
        for member in group.machine.members.values():
            if member.id == except_for:
                continue
            metadata = member.classic
            session_ms = timeout_ms if metadata is None else metadata.session_timeout_ms
            group.deadlines.start(member.id, Deadline.SESSION, session_ms)
            if metadata is None and member.state is MemberState.UNREVOKED_PARTITIONS:
                rebalance_ms = member.metadata.rebalance_timeout_ms
                group.deadlines.start(member.id, Deadline.REBALANCE, rebalance_ms)

    # Expressions

    def _match_later(self, group: HostedConsumerGroup, last_ms: int | None, world: World) -> None:
        """Start to match the group's expressions if they need that and no matching is under way."""
        if group.group_id in self._matching:
            return
        regexes = find_stale(group.machine, last_ms, world)
        if regexes:
            self._matching.add(group.group_id)
            self.coordinator.start_task(
                self._match(group.group_id, regexes, group.sees), "expressions"
            )

    async def _match(
        self, group_id: str, regexes: Collection[str], sees: Callable[[str], bool] | None
    ) -> None:
        """Match expressions while others are served, and write the topics that they match.

        A topic does not match if the client whose heartbeat began this may not see it.
        """
        try:
            matches: dict[str, frozenset[str]] = {}
            size = 0
            async with self._slots:
                version = self.image.version
                for regex in regexes:
                    matches[regex] = await self._find(regex, sees)
                    size += getsizeof(matches[regex])
                    self.coordinator.member_bytes.check(size)
            group = self.coordinator.groups.get(group_id)
            if isinstance(group, HostedConsumerGroup):
                world = self.world(group_id)
                self.run(group, lambda changes: take_matches(changes, matches, version, world))
        except KafkaError as error:
            _logger.warning("expressions not matched group=%s reason=%s", group_id, error)
        finally:
            self._matching.discard(group_id)
            group = self.coordinator.groups.get(group_id)
            for regex in regexes:
                if isinstance(group, HostedConsumerGroup):
                    self.regexes.settle(regex, group.machine)
                else:
                    self.regexes.forget(regex, group_id)

    async def _find(self, regex: str, sees: Callable[[str], bool] | None) -> frozenset[str]:
        """Return the topics that an expression matches, among those that a client sees."""
        share = LoopShare()
        found = await self.regexes.match(regex, self.image, share)
        return found if sees is None else frozenset(compress(found, await share.each(found, sees)))

    def finish(self, partition: int) -> None:
        """Begin to serve the groups of a partition that was read to its end."""
        for machine in self.loading.take(partition):
            group = HostedConsumerGroup(machine, self)
            self.coordinator.add(group)
            self._start_sessions(group)

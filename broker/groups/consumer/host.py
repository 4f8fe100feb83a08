"""A consumer group as one of the coordinator's groups."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Final, Protocol, TypeVar

from siltstone.broker.groups.classic.group import ClassicGroup
from siltstone.broker.groups.classic.messages import JoinResult
from siltstone.broker.groups.consumer import classic
from siltstone.broker.groups.consumer.changes import Changes, tombstones
from siltstone.broker.groups.consumer.checks import (
    check_commit,
    check_fetch,
    find_partition_check,
)
from siltstone.broker.groups.consumer.deadlines import Deadlines
from siltstone.broker.groups.consumer.membership import check_room
from siltstone.broker.groups.consumer.migration import may_replace_last
from siltstone.broker.groups.member_bytes import GroupBytes, size_of_group
from siltstone.protocol.coordinator.group_errors import (
    InconsistentGroupProtocol,
    NonEmptyGroup,
    UnknownMemberId,
)
from siltstone.protocol.errors import ErrorCode, KafkaError
from siltstone.protocol.names import uuid_text
from siltstone.storage.randomness import random_uuid

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Sequence

    from siltstone.broker.groups.classic.messages import (
        JoinReply,
        JoinRequest,
        SyncReply,
        SyncRequest,
    )
    from siltstone.broker.groups.consumer.checks import PartitionCheck
    from siltstone.broker.groups.consumer.deadlines import Deadline
    from siltstone.broker.groups.consumer.group import ConsumerGroup
    from siltstone.broker.groups.consumer.member import Member
    from siltstone.broker.groups.consumer.policy import World
    from siltstone.broker.groups.consumer.regexes import Regexes
    from siltstone.broker.groups.owner import Owner
    from siltstone.broker.groups.topic_image import TopicImage
    from siltstone.protocol.messages.consumer_offsets import OffsetCommitValue
    from siltstone.protocol.records.journal import Row


T = TypeVar("T")


class Host(Protocol):
    """The interface that runs a group's transitions; `broker.groups.consumer.all_groups` has it."""

    coordinator: Owner
    image: TopicImage
    regexes: Regexes

    def world(self, group_id: str) -> World:
        """Return the settings, topics and time for a transition of a group."""

    def run_and_match(
        self,
        group: HostedConsumerGroup,
        transition: Callable[[Changes], T],
        world: World,
        user: str,
    ) -> T:
        """Run a transition for a member of a user, and write its records."""

    def remove(self, group: HostedConsumerGroup, members: Collection[Member]) -> None:
        """Remove members for good."""

    def missed(self, group: HostedConsumerGroup, member_id: str, deadline: Deadline) -> None:
        """Remove a member whose time is up."""

    def become_classic(
        self, group: HostedConsumerGroup, leaving: Collection[Member], written: list[Row]
    ) -> ClassicGroup:
        """Write that the group is a classic one of the members that stay."""


class HostedConsumerGroup:
    """A `Group` of the consumer protocol (loop only).

    ``machine`` is its state from the records. `join`, `sync`, `heartbeat` and `leave` are for
    members of the classic protocol; the host serves members of the consumer protocol. ``sees``
    comes from the last heartbeat.
    """

    type: Final = "consumer"

    def __init__(self, machine: ConsumerGroup, groups: Host) -> None:
        self.machine = machine
        self.group_id = machine.group_id
        self.partition = machine.partition
        self.sees: Callable[[str], bool] | None = None
        self.deadlines = Deadlines(groups.coordinator.timers, partial(groups.missed, self))
        self._bytes = GroupBytes(groups.coordinator.member_bytes)
        self._own_bytes = 0
        self._groups = groups

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
        return self.machine.is_empty

    def count_name(self) -> None:
        """Count the memory that the group takes, with its name and its members."""
        self._own_bytes = size_of_group(self.group_id)
        self.count_bytes()

    def count_bytes(self) -> None:
        """Count the memory that the members take now."""
        self._bytes.add(self._own_bytes + self.machine.size - self._bytes.size)
        self._bytes.set_shares(self.machine.of_users)

    # What the coordinator asks of a group

    def check_commit(
        self,
        member_id: str,
        instance_id: str | None,
        generation: int,
        version: int | None,
    ) -> None:
        """Refuse a commit if the sender may not commit now."""
        check_commit(self.machine, member_id, instance_id, generation, version)

    def find_partition_check(self, member_id: str, generation: int) -> PartitionCheck | None:
        """Return the check for each partition of a commit, or None if there is nothing to check."""
        return find_partition_check(self.machine, member_id, generation)

    def check_fetch(self, member_id: str | None, member_epoch: int) -> None:
        """Refuse an OffsetFetch of a sender that is no longer a member."""
        check_fetch(self.machine, member_id, member_epoch)

    def check_offset_delete(self) -> None:
        """Allow offsets to be deleted: this group knows which topics are in use."""

    def check_delete(self) -> None:
        """Allow an empty group to be deleted.

        Raises:
            NonEmptyGroup: The group has members.
        """
        if not self.machine.is_empty:
            raise NonEmptyGroup

    def is_subscribed_to(self, topic: str) -> bool:
        """Tell whether members read a topic, or may read it."""
        return self.machine.is_subscribed(topic)

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
        for regex in self.machine.subscribers:
            self._groups.regexes.forget(regex, self.group_id)
        self._bytes.close()

    # Members of the classic protocol

    def join(self, request: JoinRequest, reply: JoinReply) -> None:
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
            result = JoinResult(error.code, "")
        reply(result)

    def _join(self, request: JoinRequest) -> JoinResult:
        """Let a classic member join.

        Raises:
            KafkaError: The member is refused, or the journal did not take the records.
        """
        world = self._groups.world(self.group_id)
        if not world.policy.may_mix:
            raise InconsistentGroupProtocol(
                f"Cannot join the consumer group {self.group_id} with the classic protocol because "
                "the group migration is disabled."
            )
        member_id = request.member_id or uuid_text(random_uuid())
        check_room(self.machine, member_id, world)
        classic.check_protocols(self.machine, request, member_id)
        if not request.member_id and request.instance_id is None and request.requires_known_id:
            return JoinResult(ErrorCode.member_id_required, member_id)
        replaced = self.machine.find_static(request.instance_id)
        if replaced is not None and may_replace_last(self.machine, replaced, world.policy):
            return self._join_last(request, member_id)
        return self._groups.run_and_match(
            self,
            lambda changes: classic.join(changes, request, member_id, world),
            world,
            request.user,
        )

    def sync(self, request: SyncRequest, reply: SyncReply) -> None:
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

    def _join_last(self, request: JoinRequest, member_id: str) -> JoinResult:
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
            changes.settle(self.deadlines, self._groups.regexes)
            raise
        changes.settle(None, self._groups.regexes)
        if must_rebalance:
            group.rebalance()
        return joining.answer()

    def _give_way(self, request: JoinRequest, reply: JoinReply) -> None:
        """Replace this empty group with a classic group, and let the member join that."""
        if request.member_id:
            raise UnknownMemberId
        coordinator = self._groups.coordinator
        group = ClassicGroup(self.group_id, self.partition, coordinator.classic_services)
        coordinator.write(self, [*self.tombstones(), group.record()])
        self.close()
        coordinator.add(group)
        group.join(request, reply)

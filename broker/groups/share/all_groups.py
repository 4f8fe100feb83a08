"""All share groups: their transitions run here, and the records are written here.

The modules beside this one decide what changes. This module writes their records into the journal
before any client sees the change. It also creates and deletes groups, removes members whose session
has ended, and has the share coordinator make and delete the delivery states of their partitions.
"""

import logging
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Final, NoReturn, TypeVar
from uuid import UUID

from siltstone.broker.groups.classic import messages
from siltstone.broker.groups.coordinator import GroupCoordinator
from siltstone.broker.groups.deadlines import Deadline
from siltstone.broker.groups.hosted import Hosted
from siltstone.broker.groups.loading import Loading
from siltstone.broker.groups.share import states
from siltstone.broker.groups.share.changes import Changes, tombstones
from siltstone.broker.groups.share.group import ShareGroup
from siltstone.broker.groups.share.heartbeat import (
    HeartbeatRequest,
    HeartbeatResult,
    begin_states,
    fence,
    heartbeat,
)
from siltstone.broker.groups.share.member import JOIN_EPOCH, LEAVE_EPOCH, Member
from siltstone.broker.groups.share.policy import Policy, World
from siltstone.broker.groups.topic_image import TopicImage
from siltstone.broker.process.loop_share import LoopShare
from siltstone.broker.share.key import ShareKey
from siltstone.broker.topics.topic import Topic
from siltstone.protocol.coordinator import group_errors
from siltstone.protocol.coordinator.share_group_records import (
    KEYS,
    NO_STATES,
    Partitions,
    RecordType,
    decode_value,
)
from siltstone.protocol.errors import ErrorCode, KafkaError
from siltstone.protocol.messages.consumer_offsets import OffsetCommitValue
from siltstone.protocol.records.journal import Row
from siltstone.storage.log.log import Log

if TYPE_CHECKING:
    from siltstone.broker.share.states import ShareStates

_logger = logging.getLogger(__name__)

T = TypeVar("T")

_RETRY_MS: Final = 500
"""When a session that has ended is tried again after a write that failed."""


class HostedShareGroup(Hosted[ShareGroup]):
    """A `Group` of the share protocol (loop only): it has no offsets, and no classic members."""

    type: Final = "share"

    def __init__(self, machine: ShareGroup, groups: "ShareGroups") -> None:
        super().__init__(machine, groups.coordinator, partial(groups.missed, self))

    @property
    def state(self) -> str:
        """The state by the name that tools print."""
        return self.machine.state

    @property
    def protocol_type(self) -> str:
        """The type of its members."""
        return self.machine.protocol_type

    def join(self, request: messages.JoinRequest, reply: messages.JoinReply) -> None:
        """Refuse a classic member."""
        del request
        reply(messages.JoinResult(ErrorCode.inconsistent_group_protocol, ""))

    def sync(self, request: messages.SyncRequest, reply: messages.SyncReply) -> None:
        """Refuse a classic member.

        Raises:
            UnknownMemberId: Always.
        """
        del request, reply
        raise group_errors.UnknownMemberId

    def heartbeat(self, member_id: str, instance_id: str | None, generation: int) -> None:
        """Refuse a classic member.

        Raises:
            UnknownMemberId: Always.
        """
        del member_id, instance_id, generation
        raise group_errors.UnknownMemberId

    def leave(self, leaving: Sequence[tuple[str, str | None]]) -> list[ErrorCode]:
        """Refuse classic members: none of them is in this group."""
        return [ErrorCode.unknown_member_id] * len(leaving)

    def check_commit(
        self, member_id: str, instance_id: str | None, generation: int, version: int | None
    ) -> None:
        """Refuse a commit: a queue has no offsets of members.

        Raises:
            GroupIdNotFound: Always.
        """
        del member_id, instance_id, generation, version
        self._refuse()

    def find_partition_check(self, member_id: str, generation: int) -> None:
        """Return None: no commit gets here."""

    def check_fetch(self, member_id: str | None, member_epoch: int) -> None:
        """Refuse an OffsetFetch.

        Raises:
            GroupIdNotFound: Always.
        """
        del member_id, member_epoch
        self._refuse()

    def check_offset_delete(self) -> None:
        """Refuse an OffsetDelete.

        Raises:
            GroupIdNotFound: Always.
        """
        self._refuse()

    def check_delete(self) -> None:
        """Allow an empty group to be deleted.

        Raises:
            NonEmptyGroup: The group has members.
        """
        if not self.is_empty:
            raise group_errors.NonEmptyGroup

    def is_subscribed_to(self, topic: str) -> bool:
        """Tell whether members read a topic."""
        return topic in self.machine.subscribed_names()

    def expiry_base(self, topic: str, committed: OffsetCommitValue) -> int | None:
        """Return the time in ms of an offset, which another broker may have left here."""
        del topic
        return committed.commit_timestamp

    def tombstones(self) -> list[Row]:
        """Return the records that delete the group."""
        return tombstones(self.machine)

    def _refuse(self) -> NoReturn:
        raise group_errors.GroupIdNotFound(f"Group {self.group_id} is not a consumer group.")


class ShareGroups:
    """The share groups of one coordinator (loop only), which the coordinator lists with others.

    While the journal is read, the groups only apply its records and requests are refused.
    ``forget`` ends the use of a queue whose state was made again or deleted.
    """

    def __init__(
        self,
        coordinator: GroupCoordinator,
        delivery: "ShareStates",
        forget: Callable[[ShareKey], None],
    ) -> None:
        self.coordinator = coordinator
        self.image: TopicImage = coordinator.topics
        self._delivery = delivery
        self._forget = forget
        self.loading = Loading(ShareGroup, KEYS, decode_value, RecordType.METADATA)
        coordinator.topics.on_delete(self._topic_deleted)

    def get(self, group_id: str) -> HostedShareGroup:
        """Return a share group.

        Raises:
            GroupIdNotFound: No group has that id.
        """
        group = self.coordinator.find(group_id)
        if group is None:
            raise group_errors.GroupIdNotFound(f"Group {group_id} not found.")
        if not isinstance(group, HostedShareGroup):
            raise group_errors.GroupIdNotFound(f"Group {group_id} is not a share group.")
        return group

    def find(self, group_id: str) -> HostedShareGroup | None:
        """Return a share group, or None if no group has the name.

        Raises:
            GroupIdNotFound: A group of another type has the name.
        """
        return None if self.coordinator.find(group_id) is None else self.get(group_id)

    def find_machine(self, group_id: str) -> ShareGroup | None:
        """Return the state of a share group, if a share group has the name."""
        group = self.coordinator.find(group_id)
        return group.machine if isinstance(group, HostedShareGroup) else None

    def world(self, group_id: str) -> World:
        """Return the settings, topics and time for a transition of a group."""
        policy = Policy.of(self.coordinator.settings, group_id)
        return World(policy, self.image, self.coordinator.clock.now_ms())

    def run(self, group: HostedShareGroup, transition: Callable[[Changes], T], user: str = "") -> T:
        """Run a transition for a user and write its records; after a failure nothing has changed.

        Raises:
            KafkaError: The transition is refused, or the journal did not take it.
        """
        return group.run(Changes(group.machine, user), transition)

    def heartbeat(self, request: HeartbeatRequest) -> HeartbeatResult:
        """Keep a member alive, add it, or remove it.

        The delivery states of new partitions are made afterwards; a later heartbeat assigns them.

        Raises:
            GroupIdNotFound: There is no such share group, and none can be created.
            KafkaError: The member is refused, or the journal did not take it.
        """
        group_id = request.group_id
        if request.member_epoch == LEAVE_EPOCH:
            group = self.get(group_id)
            self.remove(group, group.machine.get(request.member_id))
            return HeartbeatResult(request.member_id, LEAVE_EPOCH)
        world = self.world(group_id)

        def beat(changes: Changes) -> tuple[HeartbeatResult, dict[tuple[UUID, int], int]]:
            return heartbeat(changes, request, world), begin_states(changes, world)

        known = self.find(group_id)
        if known is None and request.member_epoch != JOIN_EPOCH:
            raise group_errors.GroupIdNotFound(f"Share group {group_id} not found.")
        if known is not None:
            known.machine.claim(request.member_id, request.user)
        group, (result, starts) = self.run_or_found(group_id, beat, request.user)
        if starts:
            work = self._make_later(group, starts)
            self.coordinator.start_task(work, "states of queues")
        return result

    def run_or_found(
        self, group_id: str, transition: Callable[[Changes], T], user: str = ""
    ) -> tuple[HostedShareGroup, T]:
        """Run a transition of a group, which is created first if it does not exist.

        Raises:
            KafkaError: The transition is refused, or the journal did not take it.
        """
        group = self.find(group_id)
        if group is not None:
            return group, self.run(group, transition, user)
        self.coordinator.check_room(group_id)
        partition = self.coordinator.journal.partition_for(group_id)
        group = HostedShareGroup(ShareGroup(group_id, partition), self)
        try:
            result = self.run(group, transition, user)
        except BaseException:
            group.close()
            raise
        self.coordinator.add(group)
        return group, result

    def remove(self, group: HostedShareGroup, member: Member) -> None:
        """Remove a member for good.

        Raises:
            KafkaError: The journal did not take it.
        """
        world = self.world(group.group_id)
        self.run(group, lambda changes: fence(changes, (member,), world))
        group.deadlines.cancel(member.id)

    def missed(self, group: HostedShareGroup, member_id: str, deadline: Deadline) -> None:
        """Remove a member whose session has ended; try again later if the journal refuses it."""
        member = group.machine.members.get(member_id)
        if member is None:
            return
        line = "member is fenced group=%s member=%s reason=it %s"
        _logger.info(line, group.group_id, member_id, deadline.value)
        try:
            self.remove(group, member)
        except KafkaError as error:
            line = "member not fenced group=%s reason=%s"
            self.coordinator.unwritten.warn(_logger, line, group.group_id, error)
            group.deadlines.start(member_id, deadline, _RETRY_MS)

    # Delivery states

    async def alter(
        self, group_id: str, starts: Mapping[tuple[UUID, int], int]
    ) -> dict[tuple[UUID, int], KafkaError]:
        """Let queues of a group without members begin at these offsets; the group may be new.

        Returns:
            The errors of partitions whose queues are as they were.

        Raises:
            GroupIdNotFound: A group of another type has the name.
            NonEmptyGroup: The group has members.
            KafkaError: The journal did not take it.
        """
        world = self.world(group_id)
        known = self.find(group_id)
        if known is not None:
            known.check_delete()
        if not starts:
            return {}
        group, _ = self.run_or_found(
            group_id, lambda changes: states.begin(changes, _by_topic(starts), world)
        )
        return await self._make(group, starts)

    async def delete_topics(
        self, group_id: str, topic_ids: Sequence[UUID]
    ) -> dict[UUID, KafkaError | None] | None:
        """Delete the queues of topics of a group without members.

        Returns:
            For each topic, the error if it has one; a topic without queues is left out. None for a
            group that never had queues.

        Raises:
            GroupIdNotFound: The group does not exist, or is of another type.
            NonEmptyGroup: The group has members.
            KafkaError: The journal did not take it.
        """
        group = self.get(group_id)
        group.check_delete()
        known = group.machine.states
        if known is NO_STATES:
            return None
        found = [each for each in topic_ids if each in known.initialized or each in known.deleting]
        world = self.world(group_id)
        partitions = self.run(group, lambda changes: states.begin_delete(changes, found, world))
        refused = await self._delete(group, partitions)
        gone = [topic_id for topic_id in found if topic_id not in refused]
        if gone and self.coordinator.groups.get(group_id) is group:
            self.run(group, lambda changes: states.end_delete(changes, gone, world))
        return {topic_id: refused.get(topic_id) for topic_id in found}

    async def empty(self, group: HostedShareGroup) -> None:
        """Delete all queues of a group, which has no members, before it is deleted.

        Raises:
            NonEmptyGroup: The group has members.
            KafkaError: The journal or the share coordinator refuses.
        """
        group.check_delete()
        if any(group.machine.states):
            world = self.world(group.group_id)
            partitions = self.run(group, lambda changes: states.begin_delete_all(changes, world))
            for error in (await self._delete(group, partitions)).values():
                raise error

    async def _make(
        self, group: HostedShareGroup, starts: Mapping[tuple[UUID, int], int]
    ) -> dict[tuple[UUID, int], KafkaError]:
        """Make the delivery states of partitions that were noted as initializing.

        If one of them cannot be made, none is noted as initialized, as in Kafka. Of a group that
        was deleted meanwhile nothing stays.
        """
        epoch = group.machine.epoch

        def initialize(key: ShareKey) -> None:
            self._delivery.initialize(key, epoch, starts[key.topic_id, key.partition])

        refused = await self._for_each(group, starts, initialize)
        if self.coordinator.groups.get(group.group_id) is group:
            settle = states.give_up if refused else states.complete
            world = self.world(group.group_id)
            self.run(group, lambda changes: settle(changes, _by_topic(starts), world))
        else:
            await self._for_each(group, starts, self._delivery.delete)
        return refused

    async def _make_later(
        self, group: HostedShareGroup, starts: Mapping[tuple[UUID, int], int]
    ) -> None:
        try:
            refused = await self._make(group, starts)
        except KafkaError as error:
            refused = dict.fromkeys(starts, error)
        if refused:
            line = "queues not made group=%s partitions=%d reason=%s"
            _logger.warning(line, group.group_id, len(refused), next(iter(refused.values())))

    async def _delete(
        self, group: HostedShareGroup, partitions: Partitions
    ) -> dict[UUID, KafkaError]:
        """Delete delivery states, and return an error for each topic with a state that is left."""
        places = [
            (topic, each) for topic, indexes in partitions.items() for each in sorted(indexes)
        ]
        refused = await self._for_each(group, places, self._delivery.delete)
        return {topic_id: error for (topic_id, _), error in refused.items()}

    async def _for_each(
        self,
        group: HostedShareGroup,
        places: Collection[tuple[UUID, int]],
        act: Callable[[ShareKey], None],
    ) -> dict[tuple[UUID, int], KafkaError]:
        """Do something with the delivery state of each partition, and return the errors."""
        share = LoopShare()
        refused: dict[tuple[UUID, int], KafkaError] = {}
        due: dict[Log, None] = {}
        try:
            await self._delivery.ensure_created()
            for topic_id, partition in places:
                key = ShareKey(group.group_id, topic_id, partition)
                try:
                    act(key)
                    self._forget(key)
                    due |= self._delivery.find_unwritten(key)
                except KafkaError as error:
                    refused[topic_id, partition] = error
                await share.rest()
            if due:
                await self._delivery.flush(due)
        except KafkaError as error:
            refused = dict.fromkeys(places, error)
        return refused

    def _topic_deleted(self, topic: Topic) -> None:
        """Drop a deleted topic from the groups that have states of it."""
        for group in list(self.coordinator.groups.values()):
            if isinstance(group, HostedShareGroup):
                try:
                    self.run(group, lambda changes: states.forget(changes, topic.id))
                except KafkaError as error:
                    line = "queues of a deleted topic not dropped group=%s reason=%s"
                    self.coordinator.unwritten.warn(_logger, line, group.group_id, error)

    def finish(self, partition: int) -> None:
        """Begin to serve the groups of a partition that was read to its end."""
        for machine in self.loading.take(partition):
            group = HostedShareGroup(machine, self)
            self.coordinator.add(group)
            timeout_ms = self.world(group.group_id).policy.session_timeout_ms
            for member_id in machine.members:
                group.deadlines.start(member_id, Deadline.SESSION, timeout_ms)


def _by_topic(places: Iterable[tuple[UUID, int]]) -> Partitions:
    found: dict[UUID, set[int]] = {}
    for topic_id, partition in places:
        found.setdefault(topic_id, set()).add(partition)
    return {topic_id: frozenset(each) for topic_id, each in found.items()}

"""All groups of this broker, their committed offsets and their journal (Kafka: group coordinator).

The groups' state machines do no I/O. The coordinator writes their records to
``__consumer_offsets``, reads them back at the start, and runs the timers.
"""

import asyncio
import logging
from collections.abc import Coroutine, Sequence
from typing import Any

from siltstone.broker.coordination.journal import CoordinatorLog
from siltstone.broker.coordination.timers import Timers
from siltstone.broker.groups.classic.group import ClassicGroup, ClassicServices
from siltstone.broker.groups.group import Group, InJournal
from siltstone.broker.groups.group_offsets import NewOffsets
from siltstone.broker.groups.member_bytes import MemberBytes, size_of_group
from siltstone.broker.groups.offset_metadata import MAX_CHARACTERS
from siltstone.broker.groups.offsets import TOMBSTONES_AT_A_TIME, Offsets
from siltstone.broker.process.bounded_lines import BoundedLines
from siltstone.broker.process.client_limits import Limit
from siltstone.broker.process.io import IoThreads
from siltstone.broker.process.loop_share import LoopShare
from siltstone.broker.process.tasks import Tasks
from siltstone.broker.topics.registry import TopicRegistry
from siltstone.broker.topics.settings.in_force import BrokerSettings
from siltstone.broker.topics.topic import Topic
from siltstone.protocol.coordinator import group_errors
from siltstone.protocol.errors import KafkaError, NotCoordinator
from siltstone.protocol.messages.heartbeat import HeartbeatRequest
from siltstone.protocol.names import OFFSETS_TOPIC
from siltstone.protocol.records.journal import Row
from siltstone.storage.clock import Clock

_logger = logging.getLogger(__name__)

_TIMERS_AT_A_TIME = 500


class GroupCoordinator:
    """Owner of groups, offsets and timers (loop only).

    A group is kept in the partition of the journal that its id hashes to; while that partition is
    being read, requests for the group are refused. ``groups`` has every group with members or with
    a record of the group itself. For a group that has only committed offsets, `find` creates the
    object.
    """

    def __init__(
        self, topics: TopicRegistry, settings: BrokerSettings, io: IoThreads, clock: Clock
    ) -> None:
        self.settings = settings
        self.topics = topics
        self.clock = clock
        self.groups: dict[str, Group] = {}
        self.journal = CoordinatorLog(OFFSETS_TOPIC, topics, settings, io, clock)
        self.offsets = Offsets(self.journal.append, self._find_room, topics.retired)
        self.timers = Timers(clock, self._wake_at)
        self.member_bytes = MemberBytes.of(settings.limits)
        self.unwritten = BoundedLines(clock.monotonic)
        self.classic_services = ClassicServices(
            clock=clock,
            timers=self.timers,
            settings=lambda: settings.server,
            write=self.journal.append,
            max_batch_bytes=self.journal.max_batch_bytes,
            member_bytes=self.member_bytes,
            unwritten=self.unwritten,
        )
        self.loaded = asyncio.Event()
        self._wake: asyncio.TimerHandle | None = None
        self._wake_time = 0.0
        self._is_closed = False
        self._tasks = Tasks()
        topics.on_delete(self._topic_deleted)

    async def fire_timers(self) -> None:
        """Fire at once the timers that are due."""
        share = LoopShare()
        while self.timers.next_ms is not None and self.timers.next_ms <= self.timers.now_ms():
            self._run_timers()
            await share.rest()

    def release(self) -> None:
        """Answer all parked requests because the broker stops; clients ask again after a start."""
        for group in self.groups.values():
            group.close(NotCoordinator.code)

    async def close(self) -> None:
        """Stop the timers."""
        self._is_closed = True
        if self._wake is not None:
            self._wake.cancel()
        await self._tasks.cancel()
        await self.journal.close()

    def list_ids(self) -> list[str]:
        """Return the names of all groups, including groups that have only committed offsets."""
        known = self.groups
        others = [group_id for group_id in self.offsets if group_id not in known]
        if self.journal.loading_count:
            others = [each for each in others if not self.journal.is_loading(each)]
        return [*known, *others]

    def check(self, group_id: str) -> None:
        """Refuse a request for a group whose state is not known.

        Raises:
            CoordinatorLoadInProgress: Its partition of the journal is being read.
            NotCoordinator: That partition could not be read.
            InvalidGroupId: No record can hold the name.
        """
        if len(group_id) > MAX_CHARACTERS:
            raise group_errors.InvalidGroupId(f"a group id has at most {MAX_CHARACTERS} characters")
        if not self.journal.is_settled:
            self.journal.check(self.journal.partition_for(group_id))

    def find(self, group_id: str) -> Group | None:
        """Return a group that exists, if only because of its committed offsets.

        A group is not found while its partition of the journal is being read.
        """
        group = self.groups.get(group_id)
        if group is None and group_id in self.offsets and not self.journal.is_loading(group_id):
            group = self._admit_classic(group_id)
            self.add(group)
        return group

    def get(self, group_id: str, missing: type[KafkaError]) -> Group:
        """Return the group that a request names.

        Raises:
            InvalidGroupId: The group has no name, or one that no record can hold.
            KafkaError: The group's state is not known yet, or ``missing``: there is no such group.
        """
        if not group_id:
            raise group_errors.InvalidGroupId
        self.check(group_id)
        group = self.groups.get(group_id) or self.find(group_id)
        if group is None:
            raise missing
        return group

    def keep(self, group: Group) -> None:
        """Keep a group that `check_commit` has created, since it has now committed offsets."""
        if group.group_id not in self.groups:
            self.add(group)

    def add(self, group: Group) -> None:
        """Keep a group, and count its name until it is closed."""
        self.groups[group.group_id] = group
        group.count_name()

    def check_commit(
        self,
        group_id: str,
        generation: int,
        member_id: str,
        instance_id: str | None,
        version: int | None,
        offsets: NewOffsets,
        *,
        has_epochs: bool = False,
    ) -> Group:
        """Return the group that commits offsets; a new one is kept only if the caller calls `keep`.

        ``version`` is that of an OffsetCommit; it is None for a TxnOffsetCommit. ``has_epochs``
        says whether the request has the errors of epochs: OffsetCommit from v9 on, TxnOffsetCommit
        from v6 on.

        Raises:
            GroupIdNotFound: A member names a group that does not exist.
            StaleMemberEpoch: A member names an epoch that is not its own.
            IllegalGeneration: The same two, in a request without the errors of epochs.
            KafkaError: The group refuses for another reason.
        """
        group = self.groups.get(group_id) or self.find(group_id)
        if group is None:
            if generation >= 0:
                if has_epochs:
                    raise group_errors.GroupIdNotFound(f"group {group_id} was not found")
                raise group_errors.IllegalGeneration
            group = self._admit_classic(group_id)
        try:
            group.check_commit(member_id, instance_id, generation, version)
            check = group.find_partition_check(member_id, generation)
            if check is not None:
                for name, partition in offsets.named():
                    topic = self.topics.find(name)
                    check(name, None if topic is None else topic.id, partition)
        except group_errors.StaleMemberEpoch:
            if has_epochs:
                raise
            raise group_errors.IllegalGeneration from None
        return group

    def heartbeat(self, request: HeartbeatRequest) -> None:
        """Keep a member alive.

        Raises:
            UnknownMemberId: There is no such group, or no such member of it.
            KafkaError: The group refuses, or see `get`.
        """
        group_id, generation, member_id, instance_id = request
        self.get(group_id, group_errors.UnknownMemberId).heartbeat(
            member_id, instance_id, generation
        )

    def add_classic(self, group_id: str) -> ClassicGroup:
        """Add a group that the journal does not have yet, or has only offsets of."""
        group = self._make_classic_group(group_id)
        self.add(group)
        return group

    def check_room(self, group_id: str) -> None:
        """Refuse a new group if there are too many groups, or their names take too much memory.

        Raises:
            GroupMaxSizeReached: groups.max.count would be exceeded.
            CoordinatorLoadInProgress: group.members.max.bytes would be exceeded.
        """
        if group_id not in self.groups and group_id not in self.offsets:
            count = max(len(self.groups), self.offsets.group_count) + 1
            self.settings.limits.check(Limit.GROUPS, count, group_errors.GroupMaxSizeReached)
            self.member_bytes.check(size_of_group(group_id))

    def _find_room(self, size: int, growth: int) -> int:
        """Refuse offsets if all of them would take too many bytes; return how many are left."""
        if growth > 0:
            self.settings.limits.check(
                Limit.OFFSET_BYTES, size + growth, group_errors.InvalidCommitOffsetSize
            )
        return self.settings.server.group_offsets_max_bytes - size - growth

    def _admit_classic(self, group_id: str) -> ClassicGroup:
        """Create a group that has offsets or is about to get some."""
        self.check_room(group_id)
        return self._make_classic_group(group_id)

    def _make_classic_group(self, group_id: str) -> ClassicGroup:
        return ClassicGroup(group_id, self.journal.partition_for(group_id), self.classic_services)

    def find_or_create_classic(self, group_id: str, member_id: str) -> Group:
        """Return the group that a member wants to join; for a new member, create a missing group.

        Raises:
            UnknownMemberId: There is no such group, and so no such member.
            GroupMaxSizeReached: There are too many groups.
            KafkaError: The journal did not take the records. The error can be sent as the answer.
        """
        group = self.find(group_id)
        if group is not None:
            return group
        if member_id:
            raise group_errors.UnknownMemberId
        self.check_room(group_id)
        created = self.add_classic(group_id)
        try:
            created.write_new()
        except BaseException:
            del self.groups[group_id]
            created.close()
            raise
        return created

    def write(self, group: InJournal, rows: Sequence[Row]) -> None:
        """Write records of a group into the journal, in batches that it can take.

        Raises:
            KafkaError: The journal did not take the records. The error can be sent as the answer.
        """
        for start in range(0, len(rows), TOMBSTONES_AT_A_TIME):
            self.journal.append(group.partition, rows[start : start + TOMBSTONES_AT_A_TIME])

    def delete(self, group: Group) -> None:
        """Delete an empty group; its offsets are deleted first.

        Raises:
            KafkaError: The journal did not take the records. The error can be sent as the answer.
        """
        group_id = group.group_id
        self.delete_offsets(group, self.offsets.list_all(group_id))
        self.write(group, group.tombstones())
        self.offsets.forget(group_id)
        del self.groups[group_id]
        group.close()

    def delete_offsets(self, group: Group, named: Sequence[tuple[str, int]]) -> int:
        """Delete offsets of a group, and return how many there were.

        Raises:
            KafkaError: The journal did not take the records. The error can be sent as the answer.
        """
        return self.offsets.delete(group.group_id, group.partition, named)

    def _topic_deleted(self, topic: Topic) -> None:
        """Forget all groups and offsets if their journal was deleted."""
        if topic.name == OFFSETS_TOPIC:
            for group in self.groups.values():
                group.close()
            self.groups.clear()
            self.offsets.clear()
            self.journal.forget()

    def start_task(self, work: Coroutine[Any, Any, None], name: str) -> None:
        """Run a coroutine as a task, unless the broker stops."""
        self._tasks.start(work, name)

    def _wake_at(self, deadline_ms: float) -> None:
        """Look at the timers at this time, unless that is planned for sooner."""
        if self._is_closed:
            return
        loop = asyncio.get_running_loop()
        when = loop.time() + max(0.0, deadline_ms - self.timers.now_ms()) / 1000
        if self._wake is not None:
            if self._wake_time <= when:
                return
            self._wake.cancel()
        self._wake = loop.call_at(when, self._run_timers)
        self._wake_time = when  # uvloop's handle no longer tells the time once it has fired

    def _run_timers(self) -> None:
        self._wake = None
        try:
            self.timers.run_due(_TIMERS_AT_A_TIME)
        finally:
            if self.timers.next_ms is not None:
                self._wake_at(self.timers.next_ms)

"""Committed offsets, and the commonest OffsetCommit and Heartbeat from their bytes to the answer.

What is not as it mostly is has no answer here, and nothing has changed then: the handlers serve
every request. Compiled by Cython, or plain Python as it stands. The types of C stand in
``_commit_kernels.pxd``; import `broker.groups.commit_kernels`, which chooses.
"""

from typing import TYPE_CHECKING

from broker.groups.offset_metadata import MOST_CHARACTERS, is_too_long
from protocol.coordinator.group_errors import InvalidGroupId
from protocol.errors import KafkaError
from protocol.records.journal import NO_PRODUCER

try:
    import cython
except ModuleNotFoundError:  # Cython is a tool of the build, not of the run
    from protocol.records import _portable as cython

if not cython.compiled:
    from broker.groups.member_kernels import LivingGroup
    from protocol.group_kernels import (
        encode_commit,
        encode_heartbeat,
        find_commit,
        find_heartbeat,
        offset_key,
        offset_value,
    )

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from broker.coordinator_log import CoordinatorLog
    from broker.groups.group import Group
    from broker.settings import BrokerSettings
    from broker.topic import Topic
    from broker.topics import TopicRegistry
    from protocol.records.journal import Producer, Row
    from protocol.topic_key import TopicKey
    from storage.clock import Clock

COMPILED: bool = cython.compiled

_SHARDS = 64  # a dict grows at once: one of a million groups would hold everybody up for 50 ms


class GroupOffsets:
    """The offsets of one group; ``pending`` are those of open transactions, by producer id.

    A pending None is an offset that was committed besides its transaction, and later: that one
    stays, whatever becomes of the transaction.
    """

    __slots__ = ("committed", "pending")

    def __init__(self) -> None:
        self.committed: dict[str, dict[int, bytes]] = {}
        self.pending: dict[int, dict[tuple[str, int], bytes | None]] = {}

    def put(self, topic: str, partition: int, stored: bytes) -> bool:
        """Keep a committed offset, and tell whether there was none."""
        for offsets in self.pending.values():
            if (topic, partition) in offsets:
                offsets[topic, partition] = None
        partitions = self.committed.get(topic)
        if partitions is None:
            self.committed[topic] = {partition: stored}
            return True
        is_new = partition not in partitions
        partitions[partition] = stored
        return is_new

    def remove(self, topic: str, partition: int) -> bool:
        """Forget what was committed, pending or not, and tell whether something really was."""
        for offsets in self.pending.values():
            offsets.pop((topic, partition), None)
        partitions = self.committed.get(topic)
        if partitions is None or partitions.pop(partition, None) is None:
            return False
        if not partitions:
            del self.committed[topic]
        return True

    def is_pending(self, topic: str, partition: int) -> bool:
        """Tell whether an open transaction will commit an offset."""
        return any((topic, partition) in offsets for offsets in self.pending.values())


class OffsetTable:
    """The offsets of groups, by group (loop only).

    ``append(partition, rows, producer)`` writes them into the journal; only then are they true.
    """

    __slots__ = ("_append", "_shards", "commit_count", "count")

    def __init__(self, append: "Callable[[int, Sequence[Row], Producer], int]") -> None:
        self.count = 0
        self.commit_count = 0
        self._append = append
        self._shards: tuple[dict[str, GroupOffsets], ...] = tuple([{} for _ in range(_SHARDS)])

    def append_one(
        self, group_id: str, partition: int, topic: str, index: int, stored: bytes
    ) -> None:
        """Commit one offset of a group whose journal is this partition.

        Raises:
            KafkaError: The journal did not take it, ready to be answered.
        """
        self._append(partition, ((offset_key(group_id, topic, index), stored),), NO_PRODUCER)
        self.count += self._of(group_id).put(topic, index, stored)
        self.commit_count += 1

    def _shard(self, group_id: str) -> dict[str, GroupOffsets]:
        return self._shards[hash(group_id) % len(self._shards)]

    def _find(self, group_id: str) -> GroupOffsets | None:
        return self._shard(group_id).get(group_id)

    def _of(self, group_id: str) -> GroupOffsets:
        shard = self._shard(group_id)
        group = shard.get(group_id)
        if group is None:
            group = shard[group_id] = GroupOffsets()
        return group


class GroupTable:
    """Groups by their ids, and what nearly all of their requests ask (loop only).

    ``groups`` has every group with members or a record of its own; one that has only committed
    offsets is made when somebody asks (`find`).
    """

    __slots__ = ("clock", "groups", "log", "offsets", "settings", "topics")

    def __init__(
        self,
        topics: "TopicRegistry",
        settings: "BrokerSettings",
        clock: "Clock",
        log: "CoordinatorLog",
        offsets: OffsetTable,
    ) -> None:
        self.topics = topics
        self.settings = settings
        self.clock = clock
        self.log = log
        self.offsets = offsets
        self.groups: dict[str, Group] = {}

    def check(self, group_id: str) -> None:
        """Refuse to speak of a group whose state is not known.

        Raises:
            CoordinatorLoadInProgress: Its partition of the journal is being read.
            NotCoordinator: It could not be read.
            InvalidGroupId: No record can hold the name.
        """
        if len(group_id) > MOST_CHARACTERS:
            raise InvalidGroupId(f"a group id has at most {MOST_CHARACTERS} characters")
        if not self.log.is_settled:
            self.log.check(self.log.partition_for(group_id))

    def commit_one(
        self, version: int, correlation_id: int, buffer: memoryview, position: int, end: int
    ) -> bytes | None:
        """Commit one partition of a group that is there, for whoever may.

        The answer must not leave before what is ``unflushed`` of the journal is on the disk.

        Returns:
            The frame of the answer, of version 8 or later; None: nothing is committed.
        """
        found = find_commit(buffer, position, end, version)
        if found is None or not self.log.is_settled:
            return None
        group_id, generation, member_id, instance_id, key, index, offset, leader_epoch, text = found
        topic = self._find_topic(key)
        group = self.groups.get(group_id)
        if topic is None or group is None or index < 0 or index >= len(topic.logs):
            return None
        metadata = ""
        if text:
            metadata = text
            if is_too_long(metadata, self.settings.server):
                return None
        try:
            if isinstance(group, LivingGroup):
                living = group
                living.judge_commit(member_id, instance_id, generation, False)
                living.touch(member_id)
            else:
                group.check_commit(member_id, instance_id, generation, version)
                if group.find_partition_check(member_id, generation) is not None:
                    return None
            stored = offset_value(offset, leader_epoch, metadata, self.clock.now_ms())
            self.offsets.append_one(group_id, group.partition, topic.name, index, stored)
        except KafkaError:
            return None
        return encode_commit(correlation_id, key, index, 0)

    def beat_one(
        self, correlation_id: int, buffer: memoryview, position: int, end: int
    ) -> bytes | None:
        """Take note of a Heartbeat of version 4 by a member of a classic group.

        Returns:
            The frame of the answer; None: there is something to be said against it.
        """
        found = find_heartbeat(buffer, position, end)
        if found is None or not self.log.is_settled:
            return None
        group_id, generation, member_id, instance_id = found
        group = self.groups.get(group_id)
        if not isinstance(group, LivingGroup) or not group_id:
            return None
        living = group
        try:
            living.heartbeat(member_id, instance_id, generation)
        except KafkaError:
            return None
        return encode_heartbeat(correlation_id, 0)

    def _find_topic(self, key: "TopicKey") -> "Topic | None":
        topics = self.topics
        return topics.by_id.get(key) if isinstance(key, bytes) else topics.topics.get(key)

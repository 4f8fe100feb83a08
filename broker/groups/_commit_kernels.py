"""Committed offsets. Those of one request are written in one call, as one batch of the journal.

Compiled by Cython, or plain Python as it stands. The types of C stand in ``_commit_kernels.pxd``.
"""

from typing import TYPE_CHECKING, Any

from siltstone.broker.groups.consumer.checks import check_partitions
from siltstone.broker.groups.offset_metadata import is_too_long
from siltstone.protocol.coordinator.group_errors import OffsetMetadataTooLarge
from siltstone.protocol.coordinator.group_records import NO_EXPIRY, VERSION, VERSION_WITH_EXPIRY
from siltstone.protocol.core import fill_versioned, write_pairs
from siltstone.protocol.errors import KafkaError, UnknownTopicId, UnknownTopicOrPartition
from siltstone.protocol.messages import NO_ID
from siltstone.protocol.messages.consumer_offsets import OFFSET_COMMIT_KEY, OFFSET_COMMIT_VALUE
from siltstone.protocol.records.journal import NO_PRODUCER
from siltstone.protocol.topic_key import FIRST_OFFSETS_WITH_TOPIC_ID

try:
    import cython
except ModuleNotFoundError:  # Cython is a tool of the build, not of the run
    from siltstone.protocol.records import _portable as cython

if not cython.compiled:
    from siltstone.protocol.core import Grid
    from siltstone.protocol.records._portable import field_of, number_of, put_cell

    # The columns of OffsetCommitRequest, of its topics and of their partitions.
    GROUP_ID, GENERATION, MEMBER_ID, INSTANCE_ID, RETENTION, TOPICS = range(6)
    NAME, TOPIC_ID, PARTITIONS = range(3)
    PARTITION, OFFSET, LEADER_EPOCH, METADATA = range(4)

    # Those of a partition of OffsetFetchResponse: first it says which, then what OffsetCommitValue
    # begins with, and last an error code.
    FETCHED_PARTITION, FETCHED_VALUE = range(2)
    FETCHED_COLUMNS = 5

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Protocol

    from siltstone.broker.groups.group import Group
    from siltstone.broker.groups.topic_image import TopicImage
    from siltstone.broker.topics.registry import TopicRegistry
    from siltstone.broker.topics.settings.in_force import BrokerSettings
    from siltstone.broker.topics.topic import Topic
    from siltstone.protocol.messages.consumer_offsets import OffsetCommitValue
    from siltstone.protocol.messages.offset_commit import OffsetCommitRequest
    from siltstone.protocol.records.journal import Producer, Row
    from siltstone.storage.clock import Clock

    Results = list[tuple[str, bytes, list[tuple[int, int]]]]

    NewOffset = tuple[str, int, OffsetCommitValue]

    class Rooms(Protocol):
        """The parts of the broker that a commit needs."""

        @property
        def topics(self) -> TopicRegistry:
            """All topics."""

        @property
        def settings(self) -> BrokerSettings:
            """The settings in force."""

        @property
        def clock(self) -> Clock:
            """The broker's clock."""

    class ConsumerGroups(Protocol):
        """The part of the consumer groups that a commit needs."""

        @property
        def image(self) -> TopicImage:
            """The topics as groups know them."""

    class Groups(Protocol):
        """The part of the coordinator that a commit needs."""

        @property
        def offsets(self) -> "OffsetTable":
            """The committed offsets."""

        @property
        def consumer(self) -> ConsumerGroups:
            """The groups of the consumer protocol."""

        def check(self, group_id: str) -> None:
            """Refuse a group that is not known yet."""

        def check_commit(
            self,
            group_id: str,
            generation: int,
            member_id: str,
            instance_id: str | None,
            version: int,
        ) -> Group:
            """Return the group, if the member may commit."""

        def keep(self, group: Group) -> None:
            """Add a group that `check_commit` has made."""


_NO_RETENTION = -1
_NOTHING_COMMITTED = (-1, -1, "")  # offset, leader epoch, metadata
_LATEST_MS = (1 << 63) - 1
_TOO_LARGE = OffsetMetadataTooLarge.code
_UNKNOWN = UnknownTopicOrPartition.code
_UNKNOWN_ID = UnknownTopicId.code

_KEY = OFFSET_COMMIT_KEY.table(0)
_KEY_TYPE = OFFSET_COMMIT_KEY.key
_VALUES = [
    OFFSET_COMMIT_VALUE.table(version)
    for version in range(OFFSET_COMMIT_VALUE.first, OFFSET_COMMIT_VALUE.last + 1)
]
_SHARDS = 64  # a dict grows at once; one of a million groups would stop the loop for 50 ms


def offset_rows(group_id: str, offsets: "Sequence[NewOffset]") -> "list[tuple[bytes, bytes]]":
    """Return the journal's keys and values of offsets of a group."""
    never = NO_EXPIRY
    expiring = 0
    pairs = []
    for topic, index, committed in offsets:
        pairs.append(((group_id, topic, index), committed))
        expiring += committed[4] != never
    if 0 < expiring < len(pairs):  # all of a request do, or none
        return [row for each in offsets for row in offset_rows(group_id, [each])]
    version = VERSION_WITH_EXPIRY if expiring else VERSION
    return write_pairs(_KEY, _KEY_TYPE, _VALUES[version], version, pairs)


def answer_rows(partitions: "dict[int, bytes]", indexes: "Sequence[int]") -> Grid:
    """Return the rows of an OffsetFetch answer for partitions with these committed offsets."""
    rows = Grid(len(indexes), FETCHED_COLUMNS)
    stored = [partitions.get(index) for index in indexes]
    fill_versioned(rows, FETCHED_VALUE, _VALUES, stored, _NOTHING_COMMITTED)
    for place, index in enumerate(indexes):
        put_cell(rows, place, FETCHED_PARTITION, index)
    return rows


def commit(
    rooms: "Rooms", groups: "Groups", version: int, request: "OffsetCommitRequest"
) -> "tuple[Results, bool]":
    """Commit the offsets; return a code for each partition, and whether one does not exist."""
    registry = rooms.topics
    by_id = version >= FIRST_OFFSETS_WITH_TOPIC_ID
    known_topics: dict[Any, Topic] = registry.by_id if by_id else registry.topics
    now_ms = rooms.clock.now_ms()
    retention_ms = number_of(request, RETENTION)
    expiry = NO_EXPIRY
    if retention_ms != _NO_RETENTION:
        expiry = _LATEST_MS if retention_ms > _LATEST_MS - now_ms else now_ms + retention_ms
    results: Results = []
    offsets: list[NewOffset] = []
    is_any_known = is_any_unknown = False
    for wanted in field_of(request, TOPICS):
        name = field_of(wanted, NAME)
        topic_id = field_of(wanted, TOPIC_ID)
        topic = known_topics.get(topic_id if by_id else name)
        count = 0 if topic is None else len(topic.logs)
        codes: list[tuple[int, int]] = []
        results.append((name, topic_id, codes))
        for row in field_of(wanted, PARTITIONS):
            number = number_of(row, PARTITION)
            index = field_of(row, PARTITION)
            if topic is None or number < 0 or number >= count:
                is_any_unknown = True
                codes.append((index, _UNKNOWN_ID if by_id and topic is None else _UNKNOWN))
                continue
            is_any_known = True
            metadata = field_of(row, METADATA) or ""
            if metadata and is_too_long(metadata, rooms.settings.server):
                codes.append((index, _TOO_LARGE))
                continue
            committed: Any = (
                field_of(row, OFFSET),
                field_of(row, LEADER_EPOCH),
                metadata,
                now_ms,
                expiry,
                NO_ID,
            )
            offsets.append((topic.name, index, committed))
            codes.append((index, 0))
    if is_any_known:
        try:
            _write(groups, version, request, offsets)
        except KafkaError as error:
            results = [
                (
                    name,
                    topic_id,
                    [
                        (index, before if before in (_UNKNOWN, _UNKNOWN_ID) else error.code)
                        for index, before in codes
                    ],
                )
                for name, topic_id, codes in results
            ]
    return results, is_any_unknown


def _write(
    groups: "Groups",
    version: int,
    request: "OffsetCommitRequest",
    offsets: "list[NewOffset]",
) -> None:
    """Write offsets of partitions that exist, if the member may commit.

    Raises:
        KafkaError: The member may not commit, or the journal did not take them.
    """
    group_id = field_of(request, GROUP_ID)
    generation = number_of(request, GENERATION)
    member_id = field_of(request, MEMBER_ID)
    groups.check(group_id)
    group = groups.check_commit(
        group_id, generation, member_id, field_of(request, INSTANCE_ID), version
    )
    group.touch(member_id)
    check = group.find_partition_check(member_id, generation)
    if check is not None:
        check_partitions(check, offsets, groups.consumer.image)
    if offsets:
        groups.offsets.append(group_id, group.partition, offsets)
        groups.keep(group)


class GroupOffsets:
    """The offsets of one group; ``pending`` are those of open transactions, by producer id.

    A pending None stands for an offset that was committed outside of its transaction and after it.
    That offset stays, however the transaction ends.
    """

    __slots__ = ("committed", "pending")

    def __init__(self) -> None:
        self.committed: dict[str, dict[int, bytes]] = {}
        self.pending: dict[int, dict[tuple[str, int], bytes | None]] = {}

    def put(self, topic: str, partition: int, stored: bytes) -> bool:
        """Keep a committed offset, and tell whether there was none before."""
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
        """Forget an offset, pending or committed, and tell whether one was committed."""
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

    ``append(partition, rows, producer)`` writes them into the journal; only then do they count. A
    base of `Offsets`, which shares its shards, so that a commit makes no call of Python's here.
    """

    __slots__ = ("_append", "_shards", "commit_count", "count")

    def __init__(self, append: "Callable[[int, Sequence[Row], Producer], int]") -> None:
        self.count = 0
        self.commit_count = 0
        self._append = append
        self._shards: tuple[dict[str, GroupOffsets], ...] = tuple([{} for _ in range(_SHARDS)])

    def append(self, group_id: str, partition: int, offsets: "Sequence[NewOffset]") -> None:
        """Commit offsets of a group whose journal is this partition.

        Raises:
            KafkaError: The journal did not take them, ready to be answered.
        """
        rows = offset_rows(group_id, offsets)
        self._append(partition, rows, NO_PRODUCER)
        group = self._of(group_id)
        count = 0
        for new in offsets:
            self.count += group.put(new[0], new[1], rows[count][1])
            count += 1
        self.commit_count += count

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

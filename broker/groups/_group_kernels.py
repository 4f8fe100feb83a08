"""Heartbeats and commits: timers, members, who may commit, and what is committed.

The timers of all groups are on one heap. A heartbeat moves its member's deadline, thousands of
times a second, and hardly any deadline is ever reached. So a later deadline is only noted in the
timer, and the heap is not touched until the earlier one comes due. The offsets of one request are
written in one call, as one batch of the journal.

Compiled by Cython, or plain Python as it stands. The types of C stand in ``_group_kernels.pxd``.
"""

from functools import partial
from heapq import heapify, heappop, heappush
from typing import TYPE_CHECKING, Any

from siltstone.broker.groups.classic.state_names import GroupState
from siltstone.broker.groups.consumer.checks import check_partitions
from siltstone.broker.groups.offset_metadata import MAX_CHARACTERS, is_too_long
from siltstone.protocol.coordinator.group_errors import (
    FencedInstanceId,
    GroupIdNotFound,
    IllegalGeneration,
    InvalidGroupId,
    OffsetMetadataTooLarge,
    RebalanceInProgress,
    StaleMemberEpoch,
    UnknownMemberId,
)
from siltstone.protocol.coordinator.group_records import NO_EXPIRY, VERSION, VERSION_WITH_EXPIRY
from siltstone.protocol.core import fill_versioned, write_alike
from siltstone.protocol.errors import (
    CoordinatorNotAvailable,
    KafkaError,
    UnknownTopicId,
    UnknownTopicOrPartition,
)
from siltstone.protocol.messages import NO_ID
from siltstone.protocol.messages.consumer_offsets import OFFSET_COMMIT_KEY, OFFSET_COMMIT_VALUE
from siltstone.protocol.records.journal import NO_PRODUCER
from siltstone.protocol.topic_key import FIRST_OFFSETS_WITH_TOPIC_ID

try:
    import cython
except ModuleNotFoundError:  # Cython is a tool of the build, not of the run
    from siltstone.protocol.records import _portable as cython

if not cython.compiled:
    from siltstone.broker.groups.commit_columns import (
        ANSWERED_COLUMNS,
        ANSWERED_PARTITION,
        ERROR_CODE,
        FETCHED_COLUMNS,
        FETCHED_PARTITION,
        FETCHED_VALUE,
        GENERATION,
        GROUP_ID,
        INSTANCE_ID,
        LEADER_EPOCH,
        MEMBER_ID,
        METADATA,
        NAME,
        OFFSET,
        PARTITION,
        PARTITIONS,
        RETENTION,
        TOPIC_ID,
        TOPICS,
        WANTED_COLUMNS,
    )
    from siltstone.protocol.core import Grid, grid_of
    from siltstone.protocol.records._portable import (
        cell_of,
        field_of,
        number_of,
        put_cell,
        value_of,
    )

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from typing import Protocol

    from siltstone.broker.coordination.journal import CoordinatorLog
    from siltstone.broker.groups.group import Group
    from siltstone.broker.groups.topic_image import TopicImage
    from siltstone.broker.topics.registry import TopicRegistry
    from siltstone.broker.topics.settings.in_force import BrokerSettings
    from siltstone.broker.topics.topic import Topic
    from siltstone.protocol.messages.heartbeat import HeartbeatRequest
    from siltstone.protocol.messages.offset_commit import OffsetCommitRequest
    from siltstone.protocol.records.journal import Producer, Row
    from siltstone.storage.clock import Clock

    Results = list[tuple[str, bytes, Grid]]

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

    class CommittedOffsets(Protocol):
        """The committed offsets, as the table of groups asks for them."""

        def __contains__(self, group_id: str, /) -> bool:
            """Tell whether a group has any."""


_COMPLETING = GroupState.COMPLETING
_DEAD = GroupState.DEAD
_EMPTY = GroupState.EMPTY
_PREPARING = GroupState.PREPARING
_STABLE = GroupState.STABLE

_FIRST_WITH_GROUP_ID_NOT_FOUND = 9
_LEAST_ENTRIES = 256
_ENTRIES_PER_TIMER = 4
_ROUNDING_MS = 0.001
"""A sum of floats may come out below the deadline that was meant."""

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
# Where the fields of a key and of a value stand in a request.
_KEY_FROM = (-1, -1, PARTITION)
_VALUE_FROM = (OFFSET, LEADER_EPOCH, -1, -1, -1, -1)
_SHARDS = 64  # a dict grows at once; one of a million groups would stop the loop for 50 ms


class Timer:
    """One deadline and what happens then; durations and times in ms of the steady clock."""

    __slots__ = ("_action", "_queued", "_timers", "deadline")

    def __init__(self, timers: "Timers", action: "Callable[[], None]") -> None:
        self.deadline: float | None = None
        self._queued: float | None = None  # where its only valid entry on the heap stands
        self._timers = timers
        self._action = action

    @property
    def is_running(self) -> bool:
        """Whether the deadline is still to come."""
        return self.deadline is not None

    def start(self, after_ms: float) -> None:
        """Fire after ``after_ms``; a time that was set before no longer counts."""
        deadline = self._timers.now_ms() + after_ms
        if self.deadline is None:
            self._timers.running_count += 1
        self.deadline = deadline
        if self._queued is None or deadline < self._queued:
            self._queued = deadline
            self._timers.push(deadline, self)

    def cancel(self) -> None:
        """Do not fire; safe to call again."""
        if self.deadline is not None:
            self._timers.running_count -= 1
            self.deadline = None

    def leave_heap(self, queued: float) -> bool:
        """Tell whether the entry of that time is obsolete, and forget it if so.

        Only `Timers` calls it.
        """
        if queued == self._queued and self.deadline is not None:
            return False
        if queued == self._queued:
            self._queued = None
        return True

    def come_due(self, queued: float, now_ms: float) -> None:
        """Fire, or go back on the heap if the deadline has moved; ``queued`` is the entry's time.

        Only `Timers` calls it.
        """
        if queued != self._queued:
            return  # there is an earlier entry, or was
        self._queued = None
        if self.deadline is None:
            return
        if self.deadline > now_ms:
            self._queued = self.deadline
            self._timers.push(self.deadline, self)
            return
        self._timers.running_count -= 1
        self.deadline = None
        self._action()


class Timers:
    """The heap (loop only). ``on_earlier`` is called when a timer is due before all others.

    Cancelled timers stay on it until their time. When they are most of it they are removed, and so
    are the members that they keep in memory.
    """

    __slots__ = ("_clock", "_pushed", "heap", "on_earlier", "running_count")

    def __init__(
        self, clock: "Clock", on_earlier: "Callable[[float], None]" = lambda _: None
    ) -> None:
        self.on_earlier = on_earlier
        self.running_count = 0
        self._clock = clock
        self.heap: list[tuple[float, int, Timer]] = []
        self._pushed = 0

    def now_ms(self) -> float:
        """Return the steady clock's time."""
        return self._clock.monotonic() * 1000

    @property
    def next_ms(self) -> float | None:
        """When something may come due; None if nothing is on the heap."""
        return self.heap[0][0] if self.heap else None

    def push(self, deadline: float, timer: Timer) -> None:
        """Put an entry on the heap; for `Timer`."""
        if len(self.heap) > _LEAST_ENTRIES + _ENTRIES_PER_TIMER * self.running_count:
            self.heap = [each for each in self.heap if not each[2].leave_heap(each[0])]
            heapify(self.heap)
        self._pushed += 1  # a tie-breaker: timers have no order
        entry = (deadline, self._pushed, timer)
        heappush(self.heap, entry)
        if self.heap[0] is entry:
            self.on_earlier(deadline)

    def run_due(self, max_entries: int = 1 << 30) -> None:
        """Fire what is due, at most ``max_entries``."""
        now_ms = self.now_ms() + _ROUNDING_MS
        while self.heap and self.heap[0][0] <= now_ms and max_entries:
            queued, _, timer = heappop(self.heap)
            timer.come_due(queued, now_ms)
            max_entries -= 1


class LivingMember:
    """The session of one member; ``timer`` is that of its deadline.

    ``on_silence`` gets the member when its session has ended. A base of `Member`, so that a
    heartbeat moves its timer without a call of Python's.
    """

    __slots__ = ("session_timeout_ms", "timer")

    def __init__(
        self, session_timeout_ms: int, timers: Timers, on_silence: "Callable[[Any], None]"
    ) -> None:
        self.session_timeout_ms = session_timeout_ms
        self.timer = Timer(timers, partial(on_silence, self))

    def start_session(self) -> None:
        """Begin the session anew: the member is alive."""
        self.timer.start(self.session_timeout_ms)


class MemberTable:
    """Members by id, and which of them have an instance id.

    A base of `Members`, so that a heartbeat finds its member without a call of Python's.
    """

    __slots__ = ("by_id", "static")

    def __init__(self) -> None:
        self.by_id: Mapping[str, LivingMember] = {}
        self.static: dict[str, str] = {}  # instance id -> member id

    def get(self, member_id: str, instance_id: str | None) -> LivingMember:
        """Return the member that a request names.

        Raises:
            UnknownMemberId: Nobody has this id, or this instance id.
            FencedInstanceId: Another member has this instance id.
        """
        if instance_id is not None:
            current = self.static.get(instance_id)
            if current is None:
                raise UnknownMemberId
            if current != member_id:
                raise FencedInstanceId
        member = self.by_id.get(member_id)
        if member is None:
            raise UnknownMemberId
        return member


class LivingGroup:
    """What a classic group needs for heartbeats and commits between two rebalances (loop only).

    A base of `ClassicGroup` and not a part of it: state, generation and members are the group's,
    and a heartbeat or commit would take a method of Python's to come here
    (docs/decisions/0015-compiled-bases.md).
    """

    __slots__ = ("generation", "members", "state")

    def __init__(self, members: MemberTable) -> None:
        self.state = _EMPTY
        self.generation = 0
        self.members = members

    def heartbeat(self, member_id: str, instance_id: str | None, generation: int) -> None:
        """Keep a member alive.

        Raises:
            UnknownMemberId: There is no such member.
            FencedInstanceId: Another member has joined with the instance id.
            IllegalGeneration: The member belongs to another generation.
            RebalanceInProgress: It is alive and has to join.
            CoordinatorNotAvailable: The group was deleted.
        """
        self._check_alive()
        member = self.members.get(member_id, instance_id)
        if generation != self.generation:
            raise IllegalGeneration
        member.start_session()
        if self.state is _PREPARING:
            raise RebalanceInProgress

    def touch(self, member_id: str) -> None:
        """Keep a member alive because it has committed."""
        member = self.members.by_id.get(member_id)
        if member is not None and (self.state is _STABLE or self.state is _PREPARING):
            member.start_session()

    def check_commit(
        self,
        member_id: str,
        instance_id: str | None,
        generation: int,
        version: int,
        *,
        is_transactional: bool = False,
    ) -> None:
        """Refuse a commit from outside of this generation, unless the group has no members.

        Raises:
            UnknownMemberId: There is no such member, or none is named though the group has members.
            FencedInstanceId: Another member has joined with the instance id.
            IllegalGeneration: The member belongs to another generation.
            RebalanceInProgress: The member has to learn its assignment first.
            CoordinatorNotAvailable: The group was deleted.
        """
        del version  # it matters to consumer groups
        self.judge_commit(member_id, instance_id, generation, is_transactional)

    def judge_commit(
        self, member_id: str, instance_id: str | None, generation: int, is_transactional: bool
    ) -> None:
        """Do what `check_commit` says, with types of C."""
        self._check_alive()
        if generation < 0 and self.state is _EMPTY:
            return
        if generation >= 0 or member_id or instance_id is not None:
            self.members.get(member_id, instance_id)
            if generation != self.generation:
                raise IllegalGeneration
        elif not is_transactional and self.state is not _EMPTY:
            raise UnknownMemberId
        if not is_transactional and self.state is _COMPLETING:
            raise RebalanceInProgress

    def _check_alive(self) -> None:
        if self.state is _DEAD:
            raise CoordinatorNotAvailable


class GroupTable:
    """Groups by id, and who may commit to them (loop only).

    ``make_classic`` makes a group and adds it nowhere. A base of `GroupCoordinator`, as
    `LivingGroup` is of groups: heartbeats and commits come in here.
    """

    __slots__ = ("_make_classic", "groups", "journal", "offsets")

    def __init__(
        self,
        journal: "CoordinatorLog",
        offsets: "CommittedOffsets",
        make_classic: "Callable[[str], Group]",
    ) -> None:
        self._make_classic = make_classic
        self.groups: dict[str, Group] = {}
        self.journal = journal
        self.offsets = offsets

    def check(self, group_id: str) -> None:
        """Refuse a request for a group whose state is not known.

        Raises:
            CoordinatorLoadInProgress: Its partition of the journal is being read.
            NotCoordinator: It could not be read.
            InvalidGroupId: No record can hold the name.
        """
        if len(group_id) > MAX_CHARACTERS:
            raise InvalidGroupId(f"a group id has at most {MAX_CHARACTERS} characters")
        if not self.journal.is_settled:
            self.journal.check(self.journal.partition_for(group_id))

    def find(self, group_id: str) -> "Group | None":
        """Return a group that is there, if only because of its committed offsets."""
        group = self.groups.get(group_id)
        if group is None and group_id in self.offsets:
            group = self.groups[group_id] = self._make_classic(group_id)
        return group

    def keep(self, group: "Group") -> None:
        """Keep a group that `check_commit` has made: it has committed something."""
        self.groups.setdefault(group.group_id, group)

    def check_commit(
        self,
        group_id: str,
        generation: int,
        member_id: str,
        instance_id: str | None,
        version: int,
        *,
        is_transactional: bool = False,
    ) -> "Group":
        """Return the group that commits offsets; a new one is kept only if the caller calls `keep`.

        Raises:
            GroupIdNotFound: There is no such group, and so no member of it.
            IllegalGeneration: The same, in versions that do not have that code.
            KafkaError: The group refuses for another reason.
        """
        group = self.find(group_id)
        if group is None:
            if generation >= 0:
                if version >= _FIRST_WITH_GROUP_ID_NOT_FOUND and not is_transactional:
                    raise GroupIdNotFound(f"group {group_id} was not found")
                raise IllegalGeneration
            group = self._make_classic(group_id)
        try:
            group.check_commit(
                member_id, instance_id, generation, version, is_transactional=is_transactional
            )
        except StaleMemberEpoch:
            if version < _FIRST_WITH_GROUP_ID_NOT_FOUND or is_transactional:
                raise IllegalGeneration from None
            raise
        return group

    def heartbeat(self, request: "HeartbeatRequest") -> None:
        """Keep a member alive.

        Raises:
            InvalidGroupId: The group has no name, or one that no record can hold.
            UnknownMemberId: There is no such group, or no such member of it.
            KafkaError: The group refuses for another reason, or its state is not known yet.
        """
        group_id = field_of(request, GROUP_ID)
        if not group_id:
            raise InvalidGroupId
        self.check(group_id)
        group = self.find(group_id)
        if group is None:
            raise UnknownMemberId
        group.heartbeat(
            field_of(request, MEMBER_ID),
            field_of(request, INSTANCE_ID),
            field_of(request, GENERATION),
        )


class Run:
    """Partitions of a topic that follow each other in a request and have the same metadata.

    They are ``rows[start:stop]``, which begin as those of an OffsetCommit do.
    """

    __slots__ = ("metadata", "rows", "start", "stop", "topic")

    def __init__(self, topic: str, rows: Grid, start: int, metadata: str) -> None:
        self.topic = topic
        self.rows = rows
        self.start = start
        self.stop = start + 1
        self.metadata = metadata


class NewOffsets:
    """Offsets of one group that are committed together: by one record each, in one batch.

    All are of one time, and expire at one or never.
    """

    __slots__ = ("_expiry_ms", "_last", "_now_ms", "count", "runs")

    def __init__(self, now_ms: int, expiry_ms: int = NO_EXPIRY) -> None:
        self.count = 0
        self.runs: list[Run] = []
        self._last: Run | None = None
        self._now_ms = now_ms
        self._expiry_ms = expiry_ms

    def add(self, topic: str, rows: Grid, place: int, metadata: str) -> None:
        """Add the offset of a row of a request."""
        last = self._last
        if (
            last is not None
            and last.rows is rows
            and last.stop == place
            and last.metadata == metadata
        ):
            last.stop += 1
        else:
            self._last = Run(topic, rows, place, metadata)
            self.runs.append(self._last)
        self.count += 1

    def named(self) -> "list[tuple[str, int]]":
        """Return topics and partitions."""
        return [
            (run.topic, value_of(run.rows, place, PARTITION))
            for run in self.runs
            for place in range(run.start, run.stop)
        ]

    def journal_rows(self, group_id: str) -> "list[tuple[bytes, bytes]]":
        """Return the journal's keys and values."""
        version = VERSION if self._expiry_ms == NO_EXPIRY else VERSION_WITH_EXPIRY
        table = _VALUES[version]
        pairs: list[tuple[bytes, bytes]] = []
        for run in self.runs:
            start = run.start
            stop = run.stop
            key = (group_id, run.topic, 0)
            value = (0, 0, run.metadata, self._now_ms, self._expiry_ms, NO_ID)
            keys = write_alike(_KEY, key, _KEY_TYPE, run.rows, _KEY_FROM, start, stop)
            values = write_alike(table, value, version, run.rows, _VALUE_FROM, start, stop)
            for place in range(stop - start):
                pairs.append((keys[place], values[place]))  # noqa: PERF401  # zip costs more
        return pairs


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
        count = len(partitions)
        partitions[partition] = stored
        return len(partitions) > count

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

    def append(self, group_id: str, partition: int, offsets: NewOffsets) -> None:
        """Commit offsets of a group whose journal is this partition.

        Raises:
            KafkaError: The journal did not take them, ready to be answered.
        """
        rows = offsets.journal_rows(group_id)
        self._append(partition, rows, NO_PRODUCER)
        group = self._of(group_id)
        count = 0
        for run in offsets.runs:
            topic = run.topic
            wanted = run.rows
            start = run.start
            stop = run.stop
            for place in range(start, stop):
                self.count += group.put(topic, value_of(wanted, place, PARTITION), rows[count][1])
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
    offsets = NewOffsets(now_ms, expiry)
    results: Results = []
    is_any_known = is_any_unknown = False
    for wanted in field_of(request, TOPICS):
        name = field_of(wanted, NAME)
        topic_id = field_of(wanted, TOPIC_ID)
        topic = known_topics.get(topic_id if by_id else name)
        known_name = "" if topic is None else topic.name
        partitions = 0 if topic is None else len(topic.logs)
        rows = grid_of(field_of(wanted, PARTITIONS), WANTED_COLUMNS)
        count = len(rows)
        codes = Grid(count, ANSWERED_COLUMNS)
        results.append((name, topic_id, codes))
        for place in range(count):
            index = cell_of(rows, place, PARTITION)
            put_cell(codes, place, ANSWERED_PARTITION, index)
            if index < 0 or index >= partitions:
                is_any_unknown = True
                unknown = _UNKNOWN_ID if by_id and topic is None else _UNKNOWN
                put_cell(codes, place, ERROR_CODE, unknown)
                continue
            is_any_known = True
            metadata = value_of(rows, place, METADATA) or ""
            if metadata and is_too_long(metadata, rooms.settings.server):
                put_cell(codes, place, ERROR_CODE, _TOO_LARGE)
                continue
            offsets.add(known_name, rows, place, metadata)
    if is_any_known:
        try:
            _write(groups, version, request, offsets)
        except KafkaError as error:
            _refuse(results, error.code)
    return results, is_any_unknown


def _refuse(results: "Results", error_code: int) -> None:
    """Put an error code to all partitions that exist."""
    for _, _, codes in results:
        for place, (_, before) in enumerate(codes):
            if before not in (_UNKNOWN, _UNKNOWN_ID):
                put_cell(codes, place, ERROR_CODE, error_code)


def _write(
    groups: "Groups", version: int, request: "OffsetCommitRequest", offsets: NewOffsets
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
        check_partitions(check, offsets.named(), groups.consumer.image)
    if offsets.count:
        groups.offsets.append(group_id, group.partition, offsets)
        groups.keep(group)

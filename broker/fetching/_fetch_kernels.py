"""Reads each partition of a Fetch, and tells fetches when there is more.

Logs tell their changes to fetch sessions, and to fetches that wait for data. A `Watch` is one
partition. It is among the watchers of its log (`Log.watchers`), which calls it at every change. So
neither an idle session nor a fetch that waits looks at its partitions one by one.

Compiled by Cython. The types of C stand in ``_fetch_kernels.pxd``, the
columns in `protocol.messages.columns`.
"""

from operator import attrgetter
from typing import TYPE_CHECKING, Any, cast

import cython

from siltstone.broker.security.rights import CLUSTER, CLUSTER_ACTION, READ, TOPIC
from siltstone.protocol.errors import (
    FencedLeaderEpoch,
    KafkaError,
    NotLeaderOrFollower,
    OffsetOutOfRange,
    TopicAuthorizationFailed,
    UnknownLeaderEpoch,
    UnknownServerError,
    UnknownTopicId,
    UnknownTopicOrPartition,
)
from siltstone.protocol.messages import NO_ID
from siltstone.protocol.messages.fetch import (
    EpochEndOffset,
    FetchResponse,
    LeaderIdAndEpoch,
    NodeEndpoint,
    PartitionData,
    SnapshotId,
)
from siltstone.protocol.names import CLUSTER_NAME

if not cython.compiled:  # for the type checkers: what the .pxd has
    from siltstone.protocol.core import Grid, grid_of
    from siltstone.protocol.core._format import field_of, number_of, row_of, slot_of
    from siltstone.protocol.core._messages import cell_of, put_cell, value_of
    from siltstone.protocol.messages.columns import (
        ABORTED,
        ASKED_COLUMNS,
        DIVERGENCE,
        END_COLUMNS,
        END_EPOCH,
        END_OFFSET,
        END_TIMESTAMP,
        EPOCH,
        EPOCH_COLUMNS,
        EPOCH_END,
        EPOCH_PARTITION,
        ERROR_CODE,
        FETCH_OFFSET,
        FETCHED_COLUMNS,
        HIGH_WATERMARK,
        ISOLATION_LEVEL,
        LAST_EPOCH,
        LEADER,
        LEADER_EPOCH,
        MAX_BYTES,
        MIN_BYTES,
        PARTITION,
        PARTITION_MAX_BYTES,
        PREFERRED_REPLICA,
        QUESTION,
        RECORDS,
        REPLICA_ID,
        REPLICA_STATE,
        SNAPSHOT,
        STABLE_OFFSET,
        START_OFFSET,
        WANTED_COLUMNS,
    )


if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable, Iterable, Sequence
    from typing import Protocol

    from siltstone.broker.topics.registry import TopicRegistry
    from siltstone.broker.topics.settings.in_force import BrokerSettings
    from siltstone.broker.topics.topic import Topic
    from siltstone.protocol.messages.fetch import FetchPartition, FetchRequest
    from siltstone.protocol.messages.list_offsets import ListOffsetsPartition
    from siltstone.protocol.messages.offset_for_leader_epoch import OffsetForLeaderPartition
    from siltstone.protocol.names import TopicKey
    from siltstone.protocol.parts import FileSlice
    from siltstone.storage.log.log import Log

    Wanted = tuple[TopicKey, Sequence[FetchPartition]]
    Fetched = tuple[TopicKey, Grid]
    Told = tuple[TopicKey, Sequence[PartitionData]]

    class Identity(Protocol):
        """The broker as clients know it."""

        @property
        def node_id(self) -> int:
            """The broker's node id."""

    class Services(Protocol):
        """The parts of the broker that a read needs."""

        @property
        def topics(self) -> TopicRegistry:
            """All topics."""

        @property
        def settings(self) -> BrokerSettings:
            """The settings in force."""

        @property
        def identity(self) -> Identity:
            """The broker as clients know it."""

    class Context(Protocol):
        """The part of a request's context that a read needs."""

        version: int

        @property
        def services(self) -> Services:
            """The broker's services."""

        @property
        def advertised(self) -> tuple[str, int]:
            """Host and port where the client asks."""

        @property
        def rights(self) -> object:
            """The client's rights; None: it may do everything."""

        def may(self, operation: int, resource: int, name: str = ...) -> bool:
            """Tell whether the client may do something; if not, the audit log says so."""

        def sees(self, operation: int, resource: int, name: str = ...) -> bool:
            """Tell the same, and the audit log nothing."""


READ_COMMITTED = 1
LATEST, EARLIEST = -1, -2  # as timestamps of ListOffsets
# The defaults themselves: the writer of an answer knows them without a look inside.
_DEFAULTS = PartitionData._field_defaults
NO_DIVERGENCE: EpochEndOffset = _DEFAULTS["diverging_epoch"]

_turn_of = attrgetter("turn")
_NO_LEADER: LeaderIdAndEpoch = _DEFAULTS["current_leader"]
_NO_SNAPSHOT: SnapshotId = _DEFAULTS["snapshot_id"]
_NO_RECORDS = b""
_SOME = 500
_NO_DIVERGENCES = [NO_DIVERGENCE] * _SOME  # nobody changes these
_NO_LEADERS = [_NO_LEADER] * _SOME
_NO_SNAPSHOTS = [_NO_SNAPSHOT] * _SOME
_FIRST_WITH_LEADER = 16
# For these Kafka writes an empty list of aborted transactions, for all others null.
_NOT_HERE = frozenset({UnknownTopicOrPartition.code.value, UnknownTopicId.code.value})
_DENIED = TopicAuthorizationFailed.code.value
_LEADER_ERRORS = frozenset({FencedLeaderEpoch.code.value, NotLeaderOrFollower.code.value})


class FetchPlan:
    """The topics that one request fetches, in reading order, their partitions, and its session.

    No two topics behind each other are the same. ``count`` is that of all partitions; ``read`` has
    the session's objects for them. ``epoch`` is the session's epoch after the request.
    """

    __slots__ = (
        "by_id",
        "count",
        "epoch",
        "isolation_level",
        "read",
        "session",
        "topics",
        "wants_session",
    )

    def __init__(
        self,
        topics: "list[Wanted]",
        session: "FetchSession | None" = None,
        epoch: int = 0,
        read: "Sequence[SessionPartition]" = (),
        wants_session: bool = False,
        by_id: bool = False,
        isolation_level: int = 0,
    ) -> None:
        self.topics = topics
        self.count = 0
        for _, partitions in topics:
            self.count += len(partitions)
        self.session = session
        self.epoch = epoch
        self.read = read
        self.wants_session = wants_session
        self.by_id = by_id
        self.isolation_level = isolation_level

    @property
    def partitions(self) -> "list[tuple[TopicKey, FetchPartition]]":
        """Return what has to be read, partition by partition."""
        return [(key, wanted) for key, partitions in self.topics for wanted in partitions]

    @property
    def all_partitions(self) -> "list[tuple[TopicKey, FetchPartition]]":
        """Return all that the request stands for, whether it has to be read or not."""
        if self.session is None:
            return self.partitions
        return [(each.key, each.wanted) for each in self.session.partitions.values()]


def are_distinct(partitions: "Sequence[ListOffsetsPartition]") -> bool:
    """Tell whether no partition is named twice."""
    wanted = grid_of(partitions, ASKED_COLUMNS)
    count = len(wanted)
    before = -1
    for place in range(count):
        number = cell_of(wanted, place, PARTITION)
        if number <= before:  # in another order than clients have them
            return len({cell_of(wanted, each, PARTITION) for each in range(count)}) == count
        before = number
    return True


def list_ends(
    partitions: "Sequence[ListOffsetsPartition]", logs: "Sequence[Log | None]", is_committed: bool
) -> "tuple[Grid, list[int]]":
    """Return the answers of a ListOffsets for its partitions, and the places without one.

    These are the partitions that must be refused, and those of which more is asked than the latest
    or the earliest offset.
    """
    wanted = grid_of(partitions, ASKED_COLUMNS)
    rows = Grid(len(wanted), END_COLUMNS)
    left: list[int] = []
    for place in range(len(wanted)):
        number = cell_of(wanted, place, PARTITION)
        log = logs[number] if 0 <= number < len(logs) else None
        if log is None:
            left.append(place)
            continue
        told_epoch = cell_of(wanted, place, LEADER_EPOCH)
        timestamp = cell_of(wanted, place, QUESTION)
        end = slot_of(log, "end")
        if told_epoch not in (-1, end.leader_epoch):
            left.append(place)
            continue
        if timestamp == LATEST:
            put_cell(rows, place, END_EPOCH, end.leader_epoch)
            offset = end.stable_end() if is_committed else end.log_end_offset
        elif timestamp == EARLIEST:
            offset = end.log_start_offset
            put_cell(rows, place, END_EPOCH, log.epochs.epoch_of(offset))
        else:
            left.append(place)
            continue
        put_cell(rows, place, PARTITION, number)
        put_cell(rows, place, END_TIMESTAMP, -1)
        put_cell(rows, place, END_OFFSET, offset)
    return rows, left


def list_epoch_ends(
    partitions: "Sequence[OffsetForLeaderPartition]", logs: "Sequence[Log | None]"
) -> "tuple[Grid, list[int]]":
    """Return the answers of an OffsetForLeaderEpoch, and the places of what must be refused."""
    wanted = grid_of(partitions, ASKED_COLUMNS)
    rows = Grid(len(wanted), EPOCH_COLUMNS)
    left: list[int] = []
    for place in range(len(wanted)):
        number = cell_of(wanted, place, PARTITION)
        log = logs[number] if 0 <= number < len(logs) else None
        if log is None:
            left.append(place)
            continue
        told_epoch = cell_of(wanted, place, LEADER_EPOCH)
        end = slot_of(log, "end")
        if told_epoch not in (-1, end.leader_epoch):
            left.append(place)
            continue
        epoch = cell_of(wanted, place, QUESTION)
        found = log.epochs.end_offset_for(epoch, end.log_end_offset)
        put_cell(rows, place, EPOCH_PARTITION, number)
        put_cell(rows, place, EPOCH, number_of(found, 0))
        put_cell(rows, place, EPOCH_END, number_of(found, 1))
    return rows, left


def replica_of(request: "FetchRequest") -> int:
    """Return the id of the follower that asks, or -1. Until v14 it is in another field."""
    replica_id: int = number_of(request, REPLICA_ID)
    state_id: int = number_of(field_of(request, REPLICA_STATE), 0)
    return max(replica_id, state_id)


def list_wanted(request: "FetchRequest", by_id: bool) -> "list[Wanted]":
    """Return the topics that a request names, with their partitions, in its order."""
    found: list[Wanted] = []
    for name, topic_id, partitions in request.topics:
        add_topic(found, topic_id if by_id else name, partitions)
    return found


def add_topic(
    topics: "list[tuple[TopicKey, Sequence[Any]]]", key: "TopicKey", rows: "Sequence[Any]"
) -> None:
    """Add a topic, or its rows if it is the last one; without rows it is left out."""
    if not rows:
        return
    if topics:
        last, before = topics[len(topics) - 1]
        if last == key:
            topics[len(topics) - 1] = key, [*before, *rows]
            return
    topics.append((key, rows))


def is_read_up(wanted: "FetchPartition", fetched: "Grid", place: int, isolation_level: int) -> bool:
    """Tell whether every read finds what a row of ``fetched`` says until the log changes.

    This is never so for a client that names the epoch of its last record: old epochs can go without
    a change of the log.
    """
    if (
        value_of(fetched, place, RECORDS)
        or cell_of(fetched, place, ERROR_CODE)
        or value_of(fetched, place, DIVERGENCE) != NO_DIVERGENCE
    ):
        return False
    column = STABLE_OFFSET if isolation_level == READ_COMMITTED else HIGH_WATERMARK
    offset: int = number_of(wanted, FETCH_OFFSET)
    last_epoch: int = number_of(wanted, LAST_EPOCH)
    return last_epoch < 0 and offset >= cell_of(fetched, place, column)


class TopicRead:
    """Partitions of one topic while they are read: what is wanted of them, and what was found."""

    __slots__ = ("aborted", "divergences", "key", "leaders", "logs", "records", "rows", "wanted")

    def __init__(
        self, key: "TopicKey", logs: "tuple[Log | None, ...]", partitions: "Sequence[Any]"
    ) -> None:
        count = len(partitions)
        self.key = key
        self.logs = logs
        self.wanted = grid_of(partitions, WANTED_COLUMNS)
        self.rows = Grid(count, FETCHED_COLUMNS)
        self.records: list[bytes | FileSlice] = [_NO_RECORDS] * count
        self.aborted: list[list[tuple[int, int]] | None] = [None] * count
        self.divergences: list[EpochEndOffset] | None = None
        self.leaders: list[LeaderIdAndEpoch] | None = None

    def diverge(self, place: int, divergence: EpochEndOffset) -> None:
        """Note where the client's log differs from this one."""
        if self.divergences is None:
            self.divergences = [NO_DIVERGENCE] * len(self.rows)
        self.divergences[place] = divergence

    def name_leader(self, place: int, leader: LeaderIdAndEpoch) -> None:
        """Note the leader of a partition, for a client that does not know it."""
        if self.leaders is None:
            self.leaders = [_NO_LEADER] * len(self.rows)
        self.leaders[place] = leader

    def end(self) -> "Grid":
        """Return the rows of the answer."""
        rows = self.rows
        count = len(rows)
        rows.put_column(DIVERGENCE, self.divergences or _at_least(_NO_DIVERGENCES, count))
        rows.put_column(LEADER, self.leaders or _at_least(_NO_LEADERS, count))
        rows.put_column(SNAPSHOT, _at_least(_NO_SNAPSHOTS, count))
        rows.put_column(ABORTED, self.aborted)
        rows.put_column(RECORDS, self.records)
        return rows

    def keep(self, place: int, before: "Grid", is_committed: bool) -> None:
        """Say of a partition without records what was said before."""
        rows = self.rows
        put_cell(rows, place, PARTITION, cell_of(before, place, PARTITION))
        put_cell(rows, place, HIGH_WATERMARK, cell_of(before, place, HIGH_WATERMARK))
        put_cell(rows, place, STABLE_OFFSET, cell_of(before, place, STABLE_OFFSET))
        put_cell(rows, place, START_OFFSET, cell_of(before, place, START_OFFSET))
        put_cell(rows, place, PREFERRED_REPLICA, -1)
        if is_committed:
            self.aborted[place] = []


class FetchRead:
    """The partitions of one request, and what was read of them, in rows of PartitionData.

    ``absent`` has those that do not exist, or that the client may not read. They end no wait, as in
    Kafka, unless all are absent: ``finds_some`` tells whether any was found.
    """

    __slots__ = (
        "_is_committed",
        "_is_follower",
        "_is_refused_by_leader",
        "_refused",
        "absent",
        "context",
        "fetched",
        "finds_some",
        "max_bytes",
        "min_bytes",
        "plan",
        "request",
        "services",
    )

    def __init__(self, context: "Context", request: "FetchRequest", plan: FetchPlan) -> None:
        services: Services = context.services
        self.context = context
        self.services = services
        self.request = request
        self.plan = plan
        self.fetched: list[Fetched] = []
        self.max_bytes = min(
            number_of(request, MAX_BYTES), services.settings.server.fetch_max_bytes
        )
        self.min_bytes = min(number_of(request, MIN_BYTES), self.max_bytes)
        self._is_committed = number_of(request, ISOLATION_LEVEL) == READ_COMMITTED
        self._is_follower = replica_of(request) >= 0
        self._is_refused_by_leader = False
        self._refused: set[str] = set()  # what the audit log knows of
        self.absent: set[tuple[TopicKey, int]] = set()
        self.finds_some = False

    def read_some(
        self, topics: "Sequence[Wanted]", before: "Sequence[Fetched]", found: int
    ) -> tuple[int, bool]:
        """Read partitions; ``found`` bytes were found in others of the request.

        ``before`` has what was read of the same partitions when they were last looked at, if they
        were: what was read to its end and has not changed since is not read again.

        The first partition with data gives at least one batch, whatever the limits say, so that a
        consumer always makes progress (KIP-74). Its rights are those of now, also if it has waited.

        Returns:
            Bytes found here, and whether the answer must be sent now.
        """
        remaining = self.max_bytes
        if found:
            remaining = remaining - found if remaining > found else 0
        total = 0
        urgent = False
        earlier: Grid | None = None
        for number, (key, partitions) in enumerate(topics):
            topic = TopicRead(key, self._find_logs(key), partitions)
            may_read = self.context.rights is None or self.may_read(key)
            if before:
                earlier = before[number][1]
            for place in range(len(topic.rows)):
                if not may_read:
                    self._refuse(topic, place, TopicAuthorizationFailed())
                    continue
                if earlier is not None and self._is_unchanged(topic, place, earlier):
                    topic.keep(place, earlier, self._is_committed)
                    self.finds_some = True
                    continue
                limit = min(cell_of(topic.wanted, place, PARTITION_MAX_BYTES), remaining)
                try:
                    size = self._read_partition(topic, place, limit, not (found or total))
                    self.finds_some = True
                except KafkaError as error:
                    size = 0
                    if not self._refuse(topic, place, error):
                        urgent = True
                total += size
                remaining = remaining - size if remaining > size else 0
            urgent = urgent or topic.divergences is not None
            self.fetched.append((key, topic.end()))
        return total, urgent

    def may_read(self, key: "TopicKey") -> bool:
        """Tell whether the client may read a topic; an id that no topic has is refused as such."""
        operation, kind = READ, TOPIC
        name: Any = key
        if self._is_follower:  # which must be a broker (CVE-2018-1288)
            operation, kind, name = CLUSTER_ACTION, CLUSTER, CLUSTER_NAME
        elif isinstance(key, bytes):
            topic = self.services.topics.by_id.get(key)
            if topic is None:
                return True
            name = topic.name
        ask = self.context.sees if name in self._refused else self.context.may
        if ask(operation, kind, name):
            return True
        self._refused.add(name)
        return False

    def name_topics(self, session_id: int, told: "Sequence[Told]") -> FetchResponse:
        """Return the answer that names these partitions, and the leader if the client lacks it."""
        topics: list[Any] = []
        for key, rows in told:
            is_id = isinstance(key, bytes)
            topics.append(("" if is_id else key, key if is_id else NO_ID, rows))
        nodes = []
        if self._is_refused_by_leader and self.context.version >= _FIRST_WITH_LEADER:
            nodes.append(NodeEndpoint(self.services.identity.node_id, *self.context.advertised))
        response: FetchResponse = row_of(FetchResponse, (0, 0, session_id, topics, nodes))
        return response

    def _find_logs(self, key: "TopicKey") -> "tuple[Log | None, ...]":
        """Return the logs of a topic, an empty tuple if it does not exist."""
        registry = self.services.topics
        topics: dict[Any, Topic] = registry.by_id if isinstance(key, bytes) else registry.topics
        topic = topics.get(key)
        return () if topic is None else topic.logs

    def _read_partition(self, topic: TopicRead, place: int, limit: int, at_least_one: bool) -> int:
        """Read a partition and return how many bytes it gives.

        Raises:
            KafkaError: It must be refused.
        """
        wanted = topic.wanted
        number = cell_of(wanted, place, PARTITION)
        log = topic.logs[number] if 0 <= number < len(topic.logs) else None
        if log is None:
            log = self.services.topics.find_log(topic.key, number)  # says why it has none
        if self._is_follower:
            raise NotLeaderOrFollower
        end = slot_of(log, "end")
        epoch = cell_of(wanted, place, LEADER_EPOCH)
        if epoch >= 0 and epoch != end.leader_epoch:
            raise FencedLeaderEpoch if epoch < end.leader_epoch else UnknownLeaderEpoch
        offset = cell_of(wanted, place, FETCH_OFFSET)
        last_epoch = cell_of(wanted, place, LAST_EPOCH)
        high_watermark = end.log_end_offset
        stable_offset = end.stable_end()
        start_offset = end.log_start_offset
        size = 0
        diverging = _find_divergence(log, last_epoch, offset) if last_epoch >= 0 else NO_DIVERGENCE
        if diverging is not NO_DIVERGENCE:
            topic.diverge(place, diverging)
        else:
            upto = stable_offset if self._is_committed else high_watermark
            reader = slot_of(log, "reader")
            read = reader.read(log, offset, limit, upto, at_least_one)
            if read is not None:
                if limit < 0:
                    raise UnknownServerError(
                        f"at most {limit} bytes cannot be read; ask for 0 or more"
                    )
                records = read.slice
                topic.records[place] = records
                size = records.size
                log.bytes_out += size
                if self._is_committed:
                    topic.aborted[place] = log.aborted_transactions(offset, read.next_offset)
            elif self._is_committed:
                topic.aborted[place] = []
        rows = topic.rows
        put_cell(rows, place, PARTITION, number)
        put_cell(rows, place, HIGH_WATERMARK, high_watermark)
        put_cell(rows, place, STABLE_OFFSET, stable_offset)
        put_cell(rows, place, START_OFFSET, start_offset)
        put_cell(rows, place, PREFERRED_REPLICA, -1)
        return size

    def _is_unchanged(self, topic: TopicRead, place: int, before: "Grid") -> bool:
        """Tell whether a partition was read to its end before, and is as it was."""
        wanted = topic.wanted
        number = cell_of(wanted, place, PARTITION)
        log = topic.logs[number] if 0 <= number < len(topic.logs) else None
        if log is None or cell_of(before, place, ERROR_CODE):
            return False
        end = slot_of(log, "end")
        column = STABLE_OFFSET if self._is_committed else HIGH_WATERMARK
        return (
            end.log_end_offset == cell_of(before, place, HIGH_WATERMARK)
            and end.log_start_offset == cell_of(before, place, START_OFFSET)
            and end.stable_end() == cell_of(before, place, STABLE_OFFSET)
            and cell_of(wanted, place, FETCH_OFFSET) >= cell_of(before, place, column)
            and cell_of(wanted, place, LAST_EPOCH) < 0
        )

    def _refuse(self, topic: TopicRead, place: int, error: KafkaError) -> bool:
        """Answer a partition by an error, and tell whether that may wait for the others."""
        code = error.code.value
        number = cell_of(topic.wanted, place, PARTITION)
        is_known = 0 <= number < len(topic.logs) and topic.logs[number] is not None
        # What is known and not here goes while it is read.
        is_absent = code == _DENIED or (code in _NOT_HERE and not is_known)
        if is_absent:
            self.absent.add((topic.key, number))
        if code in _LEADER_ERRORS:
            self._is_refused_by_leader = True
            if self.context.version >= _FIRST_WITH_LEADER:
                log = self.services.topics.find_log(topic.key, number)
                leader = LeaderIdAndEpoch(self.services.identity.node_id, log.leader_epoch)
                topic.name_leader(place, leader)
        topic.records[place] = _NO_RECORDS
        topic.aborted[place] = [] if code in _NOT_HERE else None
        rows = topic.rows
        put_cell(rows, place, PARTITION, number)
        put_cell(rows, place, ERROR_CODE, code)
        put_cell(rows, place, HIGH_WATERMARK, -1)
        put_cell(rows, place, STABLE_OFFSET, -1)
        put_cell(rows, place, START_OFFSET, -1)
        put_cell(rows, place, PREFERRED_REPLICA, -1)
        return is_absent


def _at_least(known: list[Any], count: int) -> list[Any]:
    """Return a list of one value that is at least so long."""
    return known if len(known) >= count else known[:1] * count


def refused(index: int, code: int) -> PartitionData:
    """Return the answer for a partition that is not read."""
    return PartitionData(index, code, -1, -1, -1)


def _find_divergence(log: "Log", last_epoch: int, offset: int) -> EpochEndOffset:
    """Return where the client's log differs from this one, `NO_DIVERGENCE` if nowhere (KIP-595).

    Raises:
        OffsetOutOfRange: The epoch is unknown, or the offset is below the log start offset.
    """
    epoch, end_offset = log.end_offset_for_epoch(last_epoch)
    if epoch < 0 or end_offset < 0 or offset < log.end.log_start_offset:
        raise OffsetOutOfRange
    if epoch < last_epoch or end_offset < offset:
        return EpochEndOffset(epoch, end_offset)
    return NO_DIVERGENCE


class Watch:
    """One partition that is watched: what was asked of it, and its log.

    ``available`` is the number of bytes that a waiting fetch has counted in it, else 0.
    """

    __slots__ = ("available", "group", "key", "log", "wanted")

    def __init__(self, group: "WatchGroup", key: "TopicKey", wanted: "FetchPartition") -> None:
        self.group = group
        self.key = key
        self.wanted = wanted
        self.log: Log | None = None
        self.available = 0

    def stand_on(self, log: "Log") -> None:
        """Be told when this log changes."""
        if self.log is not log:
            self.leave()
            self.log = log
            log.watchers[self] = None

    def leave(self) -> None:
        """Be told no more; safe to call again."""
        log = self.log
        if log is not None:
            self.log = None
            watchers = log.watchers
            del watchers[self]
            if not watchers:
                watchers.clear()  # an emptied dict keeps its memory

    def log_changed(self) -> None:
        """Mark this partition as changed for the group."""
        self.group.note_change(self)

    def log_gone(self) -> None:
        """Mark this partition as changed for the group; if a fetch waits, look at once."""
        self.leave()
        self.group.changed.add(self)
        self.group.release()


class WatchGroup:
    """The partitions of a session, or of one fetch that waits, and those that have ``changed``.

    Every partition is among the changed, or watches its log, or both. One that has changed need not
    be told again before it is read, unless a fetch of the group waits.
    """

    __slots__ = ("changed", "parked")

    def __init__(self) -> None:
        self.changed: set[Watch] = set()
        self.parked: Parked | None = None

    def note_change(self, watch: "Watch") -> None:
        """Note a partition whose log has changed."""
        self.changed.add(watch)
        if self.parked is None:
            watch.leave()
        else:
            self.parked.count(watch)

    def release(self) -> None:
        """Resume the waiting fetch, if there is one."""
        if self.parked is not None:
            self.parked.release()

    def leave(self) -> None:
        """Stop watching the logs of the changed partitions; without a session, of all."""
        for watch in self.changed:
            watch.leave()
        self.changed.clear()


class Parked:
    """A fetch that waits until ``missing`` bytes have come, it is released, or its time is over."""

    __slots__ = ("_is_committed", "_missing", "future")

    def __init__(
        self, future: "asyncio.Future[None]", min_bytes: int, isolation_level: int
    ) -> None:
        self.future = future
        self._missing = min_bytes
        self._is_committed = isolation_level == READ_COMMITTED

    def count(self, watch: "Watch") -> None:
        """Count again what one partition has, and go on if it is enough."""
        log, wanted = watch.log, watch.wanted
        if log is None:
            self.release()
            return
        available = 0
        end = slot_of(log, "end")
        upto = end.last_stable_offset if self._is_committed else end.log_end_offset
        if number_of(wanted, FETCH_OFFSET) < upto:
            try:
                available = min(
                    log.available_bytes(wanted.fetch_offset, upto), wanted.partition_max_bytes
                )
            except KafkaError:  # the fetch reports it; the append that calls this goes on
                self.release()
                return
        self._missing -= available - watch.available
        watch.available = available
        if self._missing <= 0:
            self.release()

    def release(self) -> None:
        """Resume the request; safe to call again."""
        if not self.future.done():
            self.future.set_result(None)


class SessionPartition(Watch):
    """One partition of a session: what the client asked last and what it was told last.

    ``turn`` is its place in the order of reading.
    """

    __slots__ = ("high_watermark", "log_start_offset", "turn")

    def __init__(
        self, group: "WatchGroup", key: "TopicKey", wanted: "FetchPartition", turn: int
    ) -> None:
        super().__init__(group, key, wanted)
        self.turn = turn
        self.high_watermark = -1
        self.log_start_offset = -1

    def has_news(self, fetched: "Grid", place: int) -> bool:
        """Tell whether the client must hear of this row, and remember what it hears."""
        code = cell_of(fetched, place, ERROR_CODE)
        high_watermark = cell_of(fetched, place, HIGH_WATERMARK)
        log_start_offset = cell_of(fetched, place, START_OFFSET)
        news = (
            high_watermark != self.high_watermark
            or log_start_offset != self.log_start_offset
            or code != 0
            or len(value_of(fetched, place, RECORDS)) > 0
            or value_of(fetched, place, DIVERGENCE) != NO_DIVERGENCE
        )
        # After an error the watermark counts as unknown, so that the client hears when it is over.
        self.high_watermark = -1 if code else high_watermark
        self.log_start_offset = log_start_offset
        return news


def add_row(topics: "list[tuple[TopicKey, Any]]", key: "TopicKey", row: "Any") -> None:
    """Add a row to the list of the last topic, or to one behind it if that is another."""
    if topics:
        last, rows = topics[len(topics) - 1]
        if last == key:
            rows.append(row)
            return
    topics.append((key, [row]))


def wanted_of(
    partitions: "Iterable[SessionPartition]",
) -> "list[tuple[TopicKey, Sequence[FetchPartition]]]":
    """Return what was asked of partitions, topic by topic, in their order."""
    topics: list[tuple[TopicKey, Sequence[FetchPartition]]] = []
    for partition in partitions:
        add_row(topics, partition.key, partition.wanted)
    return topics


class FetchSession:
    """A session; ``epoch`` is the one that the next request must carry."""

    __slots__ = (
        "_turns",
        "by_id",
        "created",
        "epoch",
        "group",
        "is_closed",
        "isolation_level",
        "last_used",
        "partitions",
        "session_id",
    )

    def __init__(self, session_id: int, by_id: bool, created: float, isolation_level: int) -> None:
        self.session_id = session_id
        self.by_id = by_id
        self.created = created
        self.last_used = created
        self.isolation_level = isolation_level
        self.epoch = 1
        self.partitions: dict[tuple[TopicKey, int], SessionPartition] = {}
        self.group = WatchGroup()
        self.is_closed = False
        self._turns = 0

    def update(self, request: "FetchRequest") -> None:
        """Add, change and forget partitions as an incremental request says."""
        for name, topic_id, wanted_list in request.topics:
            key = topic_id if self.by_id else name
            for wanted in wanted_list:
                self.want(key, wanted)
        for name, topic_id, indexes in request.forgotten_topics_data:
            key = topic_id if self.by_id else name
            for index in indexes:
                known = self.partitions.pop((key, index), None)
                if known is not None:
                    known.leave()
                    self.group.changed.discard(known)
        if request.isolation_level != self.isolation_level or replica_of(request) >= 0:
            # With another isolation level there may be something to read.
            self.isolation_level = request.isolation_level
            self.group.changed.update(self.partitions.values())

    def want(self, key: "TopicKey", wanted: "FetchPartition") -> SessionPartition:
        """Note what the client asks of a partition. A new partition is read last."""
        place = key, field_of(wanted, PARTITION)
        known = self.partitions.get(place)
        if known is None:
            known = SessionPartition(self.group, key, wanted, self.take_turn())
            self.partitions[place] = known
        else:
            known.wanted = wanted
        self.group.changed.add(known)
        return known

    def changed(self) -> list[SessionPartition]:
        """Return what an incremental request must read, in the order of reading.

        No log tells a closed session of changes, so a request that still waits reads everything.
        """
        if self.is_closed:
            return sorted(self.partitions.values(), key=_turn_of)
        changed = cast("set[SessionPartition]", self.group.changed)
        return sorted(changed, key=_turn_of)

    def select_news(
        self,
        read: "Iterable[SessionPartition]",
        fetched: "list[Fetched]",
        get_log: "Callable[[TopicKey, int], Log | None]",
    ) -> "list[Told]":
        """Return what an incremental answer names; partitions with data go to the end."""
        told: list[Told] = []
        partitions = iter(read)
        for key, rows in fetched:
            for place in range(len(rows)):
                partition = next(partitions)
                if partition.has_news(rows, place):
                    add_row(told, key, rows[place])
                    if len(value_of(rows, place, RECORDS)):
                        partition.turn = self.take_turn()
                self.settle(partition, rows, place, get_log)
        return told

    def settle_late(
        self,
        partition: SessionPartition,
        fetched: "Grid",
        place: int,
        get_log: "Callable[[TopicKey, int], Log | None]",
    ) -> None:
        """Do what `settle` does when others were served since the partition was read."""
        if self.is_closed:
            return
        self.settle(partition, fetched, place, get_log)
        log = get_log(partition.key, field_of(partition.wanted, PARTITION))
        end = None if log is None else slot_of(log, "end")
        if (
            end is None
            or end.log_end_offset != cell_of(fetched, place, HIGH_WATERMARK)
            or end.last_stable_offset != cell_of(fetched, place, STABLE_OFFSET)
        ):
            self.group.changed.add(partition)

    def tell_again(self, partitions: "Iterable[SessionPartition]") -> None:
        """Name these partitions in the next answer: the client did not get the last one."""
        if not self.is_closed:
            for partition in partitions:
                partition.high_watermark = -1
                self.group.changed.add(partition)

    def settle(
        self,
        partition: SessionPartition,
        fetched: "Grid",
        place: int,
        get_log: "Callable[[TopicKey, int], Log | None]",
    ) -> None:
        """Leave a partition in which there is nothing to read now to the watch of its log.

        ``fetched`` says so at this place.
        """
        if not is_read_up(partition.wanted, fetched, place, self.isolation_level):
            return
        changed = self.group.changed
        changed.discard(partition)
        partition.available = 0
        log = get_log(partition.key, field_of(partition.wanted, PARTITION))
        if log is None or self.is_closed:
            return
        partition.stand_on(log)
        end = slot_of(log, "end")
        if end.log_start_offset != partition.log_start_offset:
            changed.add(partition)  # a cleaner thread moved its start meanwhile

    def is_at(self, epoch: int) -> bool:
        """Tell whether the request that has brought the session to ``epoch`` is the newest."""
        return self.epoch == epoch and not self.is_closed

    def close(self) -> None:
        """Leave all logs. A fetch that waits goes on, as the session's last."""
        self.is_closed = True
        for partition in self.partitions.values():
            partition.leave()
        self.group.changed.clear()
        self.group.release()

    def take_turn(self) -> int:
        """Return a place at the end of the order of reading."""
        self._turns += 1
        return self._turns

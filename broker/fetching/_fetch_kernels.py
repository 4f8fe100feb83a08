"""Reading each partition of a Fetch or ListOffsets. Compiled by Cython, or run as plain Python.

The types of C stand in ``_fetch_kernels.pxd``.
"""

from typing import TYPE_CHECKING, Any

from siltstone.protocol.errors import (
    FencedLeaderEpoch,
    KafkaError,
    NotLeaderOrFollower,
    OffsetOutOfRange,
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

try:
    import cython
except ModuleNotFoundError:  # Cython is a tool of the build, not of the run
    from siltstone.protocol.records import _portable as cython

if not cython.compiled:
    from siltstone.broker.fetching.columns import (
        DIVERGENCE,
        ERROR_CODE,
        FETCH_OFFSET,
        HIGH_WATERMARK,
        ISOLATION_LEVEL,
        LAST_EPOCH,
        LEADER_EPOCH,
        MAX_BYTES,
        MIN_BYTES,
        PARTITION,
        PARTITION_MAX_BYTES,
        RECORDS,
        REPLICA_ID,
        REPLICA_STATE,
        STABLE_OFFSET,
        START_OFFSET,
    )
    from siltstone.protocol.records._portable import field_of, number_of, row_of, slot_of


if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Protocol

    from siltstone.broker.topics.registry import TopicRegistry
    from siltstone.broker.topics.settings.in_force import BrokerSettings
    from siltstone.broker.topics.topic import Topic
    from siltstone.protocol.messages.fetch import FetchPartition, FetchRequest
    from siltstone.protocol.messages.list_offsets import ListOffsetsPartition
    from siltstone.protocol.messages.offset_for_leader_epoch import OffsetForLeaderPartition
    from siltstone.protocol.parts import FileSlice
    from siltstone.protocol.topic_key import TopicKey
    from siltstone.storage.log.log import Log

    Named = tuple[TopicKey, PartitionData]
    Session = Any  # a FetchSession of `broker.fetching.sessions`, which stands on this module
    SessionPartition = Any  # likewise

    class Identity(Protocol):
        """What clients are told this broker is."""

        @property
        def node_id(self) -> int:
            """The broker's node id."""

    class Rooms(Protocol):
        """The parts of the broker that a read needs."""

        @property
        def topics(self) -> TopicRegistry:
            """All topics."""

        @property
        def settings(self) -> BrokerSettings:
            """The settings in force."""

        @property
        def identity(self) -> Identity:
            """What clients are told this broker is."""

    class Context(Protocol):
        """The part of a request's context that a read needs."""

        version: int

        @property
        def rooms(self) -> Rooms:
            """The broker's rooms."""

        @property
        def advertised(self) -> tuple[str, int]:
            """Host and port where the client asks."""


READ_COMMITTED = 1
LATEST, EARLIEST = -1, -2  # as timestamps of ListOffsets
# The defaults themselves: who writes an answer knows them without a look inside.
_DEFAULTS = PartitionData._field_defaults
NO_DIVERGENCE: EpochEndOffset = _DEFAULTS["diverging_epoch"]

_NO_LEADER: LeaderIdAndEpoch = _DEFAULTS["current_leader"]
_NO_SNAPSHOT: SnapshotId = _DEFAULTS["snapshot_id"]
_NO_RECORDS = b""
_FIRST_WITH_LEADER = 16
# For these Kafka writes an empty list of aborted transactions, for all others null.
_NOT_HERE = frozenset({UnknownTopicOrPartition.code.value, UnknownTopicId.code.value})
_LEADER_ERRORS = frozenset({FencedLeaderEpoch.code.value, NotLeaderOrFollower.code.value})


class FetchPlan:
    """What one request fetches: (topic, partition) in reading order, and for which session.

    ``read`` has the session's objects for the same partitions. ``epoch`` is the session's epoch
    after the request.
    """

    __slots__ = (
        "by_id",
        "epoch",
        "isolation_level",
        "partitions",
        "read",
        "session",
        "wants_session",
    )

    def __init__(
        self,
        partitions: "list[tuple[TopicKey, FetchPartition]]",
        session: "Session | None" = None,
        epoch: int = 0,
        read: "Sequence[SessionPartition]" = (),
        wants_session: bool = False,
        by_id: bool = False,
        isolation_level: int = 0,
    ) -> None:
        self.partitions = partitions
        self.session = session
        self.epoch = epoch
        self.read = read
        self.wants_session = wants_session
        self.by_id = by_id
        self.isolation_level = isolation_level

    @property
    def is_empty(self) -> bool:
        """Tell whether nothing is asked for, now or by the session."""
        return not self.partitions and self.session is None

    @property
    def all_partitions(self) -> "list[tuple[TopicKey, FetchPartition]]":
        """Return all that the request stands for, whether it has to be read or not."""
        if self.session is None:
            return self.partitions
        return [(each.key, each.wanted) for each in self.session.partitions.values()]


def are_distinct(partitions: "Sequence[ListOffsetsPartition]") -> bool:
    """Tell whether no partition is named twice."""
    named = set()
    for wanted in partitions:
        named.add(field_of(wanted, 0))
    return len(named) == len(partitions)


def list_ends(
    partitions: "Sequence[ListOffsetsPartition]", logs: "Sequence[Log | None]", is_committed: bool
) -> list[Any]:
    """Return the answer of a ListOffsets that asks for latest or earliest offsets only.

    Return None for any other request, and for one that must be refused.
    """
    count = len(logs)
    rows: list[Any] = []
    for wanted in partitions:
        number = number_of(wanted, 0)
        log = logs[number] if 0 <= number < count else None
        row = None
        if log is not None:
            told_epoch = number_of(wanted, 1)
            timestamp = number_of(wanted, 2)
            end = slot_of(log, "end")
            if told_epoch in (-1, end.leader_epoch):
                if timestamp == LATEST:
                    offset = end.stable_end() if is_committed else end.log_end_offset
                    row = (field_of(wanted, 0), 0, -1, offset, end.leader_epoch)
                elif timestamp == EARLIEST:
                    offset = end.log_start_offset
                    row = (field_of(wanted, 0), 0, -1, offset, log.epochs.epoch_of(offset))
        rows.append(row)
    return rows


def list_epoch_ends(
    partitions: "Sequence[OffsetForLeaderPartition]", logs: "Sequence[Log | None]"
) -> list[Any]:
    """Return the rows of an OffsetForLeaderEpoch answer; None for one that must be refused."""
    count = len(logs)
    rows: list[Any] = []
    for wanted in partitions:
        number = number_of(wanted, 0)
        log = logs[number] if 0 <= number < count else None
        row = None
        if log is not None:
            told_epoch = number_of(wanted, 1)
            end = slot_of(log, "end")
            if told_epoch in (-1, end.leader_epoch):
                found = log.epochs.end_offset_for(field_of(wanted, 2), end.log_end_offset)
                row = (0, field_of(wanted, 0), field_of(found, 0), field_of(found, 1))
        rows.append(row)
    return rows


def replica_of(request: "FetchRequest") -> int:
    """Return the id of the follower that asks, or -1. Until v14 it is in another field."""
    replica_id: int = number_of(request, REPLICA_ID)
    state_id: int = number_of(field_of(request, REPLICA_STATE), 0)
    return max(replica_id, state_id)


def list_wanted(request: "FetchRequest", by_id: bool) -> "list[tuple[TopicKey, FetchPartition]]":
    """Return the partitions that a request names, in its order."""
    found = []
    for name, topic_id, partitions in request.topics:
        key = topic_id if by_id else name
        found += [(key, wanted) for wanted in partitions]
    return found


def is_read_up(wanted: "FetchPartition", fetched: PartitionData, isolation_level: int) -> bool:
    """Tell whether every read finds what ``fetched`` says until the log changes.

    This is never so for a client that names the epoch of its last record: old epochs can go without
    a change of the log.
    """
    if (
        field_of(fetched, RECORDS)
        or number_of(fetched, ERROR_CODE)
        or field_of(fetched, DIVERGENCE) != NO_DIVERGENCE
    ):
        return False
    column = STABLE_OFFSET if isolation_level == READ_COMMITTED else HIGH_WATERMARK
    offset: int = number_of(wanted, FETCH_OFFSET)
    last_epoch: int = number_of(wanted, LAST_EPOCH)
    return last_epoch < 0 and offset >= number_of(fetched, column)


class FetchRead:
    """The partitions of one request, and what was read of them."""

    __slots__ = (
        "_is_committed",
        "_is_follower",
        "_is_refused_by_leader",
        "context",
        "fetched",
        "max_bytes",
        "min_bytes",
        "plan",
        "request",
        "rooms",
    )

    def __init__(self, context: "Context", request: "FetchRequest", plan: FetchPlan) -> None:
        rooms: Rooms = context.rooms
        self.context = context
        self.rooms = rooms
        self.request = request
        self.plan = plan
        self.fetched: list[Named] = []
        self.max_bytes = min(number_of(request, MAX_BYTES), rooms.settings.server.fetch_max_bytes)
        self.min_bytes = min(number_of(request, MIN_BYTES), self.max_bytes)
        self._is_committed = number_of(request, ISOLATION_LEVEL) == READ_COMMITTED
        self._is_follower = replica_of(request) >= 0
        self._is_refused_by_leader = False

    def read_some(
        self,
        partitions: "Sequence[tuple[TopicKey, FetchPartition]]",
        before: "list[Named]",
        found: int,
    ) -> tuple[int, bool]:
        """Read partitions; ``found`` bytes were found in those before.

        The first partition with data gives at least one batch, whatever the limits say, so that a
        consumer always makes progress (KIP-74).

        Returns:
            Bytes found here, and whether the answer must be sent now.
        """
        remaining = self.max_bytes
        if found:
            remaining = remaining - found if remaining > found else 0
        total = 0
        urgent = False
        fetched = self.fetched
        number = 0
        last: TopicKey | None = None
        logs: tuple[Log | None, ...] = ()
        for key, wanted in partitions:
            if key is not last:
                last = key
                logs = self._find_logs(key)
            if before and self._is_unchanged(logs, wanted, field_of(before[number], 1)):
                fetched.append(before[number])
                number += 1
                continue
            number += 1
            limit = min(number_of(wanted, PARTITION_MAX_BYTES), remaining)
            try:
                result = self._read_partition(key, logs, wanted, limit, not (found or total))
            except KafkaError as error:
                result = self._refuse(key, wanted, error)
                urgent = True
            else:
                if field_of(result, DIVERGENCE) is not NO_DIVERGENCE:
                    urgent = True
            records = field_of(result, RECORDS)
            size = 0 if records is _NO_RECORDS else records.size
            total += size
            remaining = remaining - size if remaining > size else 0
            fetched.append((key, result))
        return total, urgent

    def name_topics(self, session_id: int, named: "list[Named]") -> FetchResponse:
        """Return the answer that names these partitions, and the leader if the client lacks it."""
        topics: list[Any] = []
        rows: list[PartitionData] = []
        last: TopicKey | None = None
        for key, result in named:
            if last is None or key != last:
                last = key
                rows = []
                is_id = isinstance(key, bytes)
                topics.append(("" if is_id else key, key if is_id else NO_ID, rows))
            rows.append(result)
        nodes = []
        if self._is_refused_by_leader and self.context.version >= _FIRST_WITH_LEADER:
            nodes.append(NodeEndpoint(self.rooms.identity.node_id, *self.context.advertised))
        response: FetchResponse = row_of(FetchResponse, (0, 0, session_id, topics, nodes))
        return response

    def _find_logs(self, key: "TopicKey") -> "tuple[Log | None, ...]":
        """Return the logs of a topic, none if it is not there."""
        registry = self.rooms.topics
        topics: dict[Any, Topic] = registry.by_id if isinstance(key, bytes) else registry.topics
        topic = topics.get(key)
        return () if topic is None else topic.logs

    def _read_partition(
        self,
        key: "TopicKey",
        logs: "tuple[Log | None, ...]",
        wanted: "FetchPartition",
        limit: int,
        at_least_one: bool,
    ) -> PartitionData:
        index = field_of(wanted, PARTITION)
        number = number_of(wanted, PARTITION)
        log = logs[number] if 0 <= number < len(logs) else None
        if log is None:
            log = self.rooms.topics.find_log(key, index)  # says why it is not there
        if self._is_follower:
            raise NotLeaderOrFollower
        end = slot_of(log, "end")
        epoch = number_of(wanted, LEADER_EPOCH)
        if epoch >= 0 and epoch != end.leader_epoch:
            raise FencedLeaderEpoch if epoch < end.leader_epoch else UnknownLeaderEpoch
        offset = number_of(wanted, FETCH_OFFSET)
        high_watermark = end.log_end_offset
        stable_offset = end.stable_end()
        start_offset = end.log_start_offset
        diverging = NO_DIVERGENCE
        aborted: list[tuple[int, int]] | None = None
        records: bytes | FileSlice = _NO_RECORDS
        if number_of(wanted, LAST_EPOCH) >= 0:
            diverging = _find_divergence(log, wanted)
        if diverging is NO_DIVERGENCE:
            upto = stable_offset if self._is_committed else high_watermark
            reader = slot_of(log, "reader")
            read = reader.read(log, offset, limit, upto, at_least_one)
            if read is not None:
                if limit < 0:
                    raise UnknownServerError(
                        f"at most {limit} bytes can not be read; ask for 0 or more"
                    )
                records = field_of(read, 0)
                log.bytes_out += records.size  # type: ignore[union-attr]  # a range
                if self._is_committed:
                    aborted = log.aborted_transactions(offset, field_of(read, 1))
            elif self._is_committed:
                aborted = []
        row: PartitionData = row_of(
            PartitionData,
            (
                index,
                0,
                high_watermark,
                stable_offset,
                start_offset,
                diverging,
                _NO_LEADER,
                _NO_SNAPSHOT,
                aborted,
                -1,
                records,
            ),
        )
        return row

    def _refuse(
        self, key: "TopicKey", wanted: "FetchPartition", error: KafkaError
    ) -> PartitionData:
        code = error.code.value
        leader = _NO_LEADER
        if code in _LEADER_ERRORS:
            self._is_refused_by_leader = True
            if self.context.version >= _FIRST_WITH_LEADER:
                log = self.rooms.topics.find_log(key, wanted.partition)
                leader = LeaderIdAndEpoch(self.rooms.identity.node_id, log.leader_epoch)
        return refused(wanted.partition, code)._replace(
            current_leader=leader, aborted_transactions=[] if code in _NOT_HERE else None
        )

    def _is_unchanged(
        self, logs: "tuple[Log | None, ...]", wanted: "FetchPartition", fetched: PartitionData
    ) -> bool:
        number = number_of(wanted, PARTITION)
        log = logs[number] if 0 <= number < len(logs) else None
        if log is None:
            return False
        end = slot_of(log, "end")
        return (
            end.log_end_offset == number_of(fetched, HIGH_WATERMARK)
            and end.log_start_offset == number_of(fetched, START_OFFSET)
            and end.stable_end() == number_of(fetched, STABLE_OFFSET)
            and is_read_up(wanted, fetched, READ_COMMITTED if self._is_committed else 0)
        )


def refused(index: int, code: int) -> PartitionData:
    """Return the answer for a partition that is not read."""
    return PartitionData(index, code, -1, -1, -1)


def _find_divergence(log: "Log", wanted: "FetchPartition") -> EpochEndOffset:
    """Return where the client's log differs from this one, `NO_DIVERGENCE` if nowhere (KIP-595).

    Raises:
        OffsetOutOfRange: The epoch is unknown, or the offset is below the log start offset.
    """
    epoch, end_offset = log.end_offset_for_epoch(wanted.last_fetched_epoch)
    if epoch < 0 or end_offset < 0 or wanted.fetch_offset < log.end.log_start_offset:
        raise OffsetOutOfRange
    if epoch < wanted.last_fetched_epoch or end_offset < wanted.fetch_offset:
        return EpochEndOffset(epoch, end_offset)
    return NO_DIVERGENCE

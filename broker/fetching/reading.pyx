"""Reads the partitions of a Fetch one after the other.

The columns of requested partitions and of results are in `protocol.messages.columns`.
"""

from typing import TYPE_CHECKING

cimport cython

from siltstone.broker.fetching.session cimport replica_of
from siltstone.protocol.core._format cimport row_of
from siltstone.protocol.core._messages cimport Grid, cell_of, grid_of, put_cell
from siltstone.storage.log.end cimport LogEnd
from siltstone.storage.log.reads cimport LogParts, LogRead, LogReader

from siltstone.broker.fetching.session import NO_DIVERGENCE
from siltstone.broker.fetching.watching import READ_COMMITTED
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
)
from siltstone.protocol.names import CLUSTER_NAME

if TYPE_CHECKING:
    from collections.abc import Sequence

    from siltstone.broker.context import RequestContext
    from siltstone.broker.fetching.session import FetchPlan
    from siltstone.protocol.messages.fetch import FetchPartition, FetchRequest
    from siltstone.protocol.names import TopicKey

include "columns.pxi"  # the build makes it from protocol/messages/columns.py

# These must be the default objects themselves: the encoder compares by identity.
cdef object NO_LEADER = PartitionData._field_defaults["current_leader"]
cdef object NO_SNAPSHOT = PartitionData._field_defaults["snapshot_id"]
cdef Py_ssize_t SOME = 500
cdef list NO_DIVERGENCES = [NO_DIVERGENCE] * SOME # these three lists are never changed
cdef list NO_LEADERS = [NO_LEADER] * SOME
cdef list NO_SNAPSHOTS = [NO_SNAPSHOT] * SOME
cdef int FIRST_WITH_LEADER = 16
# For these errors Kafka writes an empty list of aborted transactions, for all others null.
cdef frozenset NOT_HERE = frozenset({UnknownTopicOrPartition.code.value, UnknownTopicId.code.value})
cdef object DENIED = TopicAuthorizationFailed.code.value
cdef frozenset LEADER_ERRORS = frozenset(
    {FencedLeaderEpoch.code.value, NotLeaderOrFollower.code.value}
)


@cython.final
cdef class TopicRead:
    """Partitions of one topic while they are read: the requested fields, and the results."""

    cdef object key
    cdef tuple logs
    cdef Grid wanted, rows
    cdef list records, aborted, divergences, leaders

    def __init__(self, key, tuple logs, partitions):
        cdef Py_ssize_t count = len(partitions)
        self.key = key
        self.logs = logs
        self.wanted = grid_of(partitions, WANTED_COLUMNS)
        self.rows = Grid(count, FETCHED_COLUMNS)
        self.records = [b""] * count
        self.aborted = [None] * count

    cdef LogParts log_of(self, long long number):
        """Return the log of a partition, None if it has none."""
        return self.logs[number] if 0 <= number < len(self.logs) else None

    cdef diverge(self, Py_ssize_t place, object divergence):
        """Note where the client's log differs from this one."""
        if self.divergences is None:
            self.divergences = [NO_DIVERGENCE] * len(self.rows)
        self.divergences[place] = divergence

    cdef name_leader(self, Py_ssize_t place, object leader):
        """Note the leader of a partition, for a client that does not know it."""
        if self.leaders is None:
            self.leaders = [NO_LEADER] * len(self.rows)
        self.leaders[place] = leader

    cdef tell(
        self, Py_ssize_t place, long long high_watermark, long long stable_offset,
        long long start_offset,
    ):
        """Note the offsets of a partition: where it begins and ends."""
        put_cell(self.rows, place, PARTITION, cell_of(self.wanted, place, PARTITION))
        put_cell(self.rows, place, HIGH_WATERMARK, high_watermark)
        put_cell(self.rows, place, STABLE_OFFSET, stable_offset)
        put_cell(self.rows, place, START_OFFSET, start_offset)
        put_cell(self.rows, place, PREFERRED_REPLICA, -1)

    cdef Grid end(self):
        """Return the rows of the answer."""
        cdef Grid rows = self.rows
        cdef Py_ssize_t count = len(rows)
        rows.put_column(DIVERGENCE, self.divergences or at_least(NO_DIVERGENCES, count))
        rows.put_column(LEADER, self.leaders or at_least(NO_LEADERS, count))
        rows.put_column(SNAPSHOT, at_least(NO_SNAPSHOTS, count))
        rows.put_column(ABORTED, self.aborted)
        rows.put_column(RECORDS, self.records)
        return rows


cdef class FetchRead:
    """The partitions of one request, and the results of reading as rows of PartitionData.

    ``absent`` has the partitions that do not exist, or that the client may not read. As in Kafka,
    such a partition does not end the wait, unless all are absent: ``finds_some`` tells whether any
    partition was found.
    """

    cdef readonly object context  # type: RequestContext[Any]
    cdef readonly object services  # type: Any
    cdef readonly object request  # type: FetchRequest
    cdef public object plan  # type: FetchPlan
    cdef public list fetched  # type: list[tuple[TopicKey, Grid]]
    cdef readonly set absent  # type: set[tuple[TopicKey, int]]
    cdef readonly long long max_bytes, min_bytes
    cdef readonly bint finds_some
    cdef bint _is_committed, _is_follower, _is_refused_by_leader
    cdef set _refused  # topics whose refusal is in the audit log

    def __init__(self, context: RequestContext[Any], request: FetchRequest, plan: FetchPlan):
        self.context = context
        self.services = context.services
        self.request = request
        self.plan = plan
        self.fetched = []
        self.max_bytes = min(request.max_bytes, self.services.settings.server.fetch_max_bytes)
        self.min_bytes = min(request.min_bytes, self.max_bytes)
        self._is_committed = request.isolation_level == READ_COMMITTED
        self._is_follower = replica_of(request) >= 0
        self._refused = set()
        self.absent = set()

    def read_some(
        self, topics: Sequence[tuple[TopicKey, Sequence[FetchPartition]]],
        before: Sequence[tuple[TopicKey, Grid]], long long found,
    ) -> tuple[int, bool]:
        """Read partitions; ``found`` bytes were found in other partitions of the request.

        ``before`` has the results of the last read of the same partitions, or is empty. A partition
        that was read to its end, and has not changed since, is not read again.

        The first partition with data gives at least one batch, whatever the limits say, so that a
        consumer always makes progress (KIP-74). The rights of the client are checked again after a
        wait.

        Returns:
            The bytes found in these partitions, and whether the answer must be sent now.
        """
        cdef long long remaining = self.max_bytes, total = 0, size, limit
        cdef bint urgent = False, may_read
        cdef Py_ssize_t number, place
        cdef TopicRead topic
        cdef Grid earlier = None
        if found:
            remaining = remaining - found if remaining > found else 0
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
                    self._keep(topic, place, earlier)
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

    cpdef bint may_read(self, object key: TopicKey) except *:
        """Tell whether the client may read a topic; an unknown id passes, and is refused later."""
        operation, kind, name = READ, TOPIC, key
        if self._is_follower:  # a follower must be a broker (CVE-2018-1288)
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

    def name_topics(
        self, session_id: int, told: Sequence[tuple[TopicKey, Sequence[PartitionData]]]
    ) -> FetchResponse:
        """Return the answer with these partitions, and with the leader for a client without it."""
        cdef list topics = [], nodes = []
        cdef bint is_id
        for key, rows in told:
            is_id = isinstance(key, bytes)
            topics.append(("" if is_id else key, key if is_id else NO_ID, rows))
        if self._is_refused_by_leader and self.context.version >= FIRST_WITH_LEADER:
            nodes.append(NodeEndpoint(self.services.identity.node_id, *self.context.advertised))
        return row_of(FetchResponse, (0, 0, session_id, topics, nodes))

    cdef tuple _find_logs(self, object key):
        """Return the logs of a topic, an empty tuple if it does not exist."""
        registry = self.services.topics
        topic = (registry.by_id if isinstance(key, bytes) else registry.topics).get(key)
        return () if topic is None else topic.logs

    cdef long long _read_partition(
        self, TopicRead topic, Py_ssize_t place, long long limit, bint at_least_one
    ) except -1:
        """Read a partition and return how many bytes it gives.

        Raises:
            KafkaError: The partition must be refused.
        """
        cdef Grid wanted = topic.wanted
        cdef long long number = cell_of(wanted, place, PARTITION)
        cdef long long epoch = cell_of(wanted, place, LEADER_EPOCH)
        cdef long long offset = cell_of(wanted, place, FETCH_OFFSET)
        cdef long long last_epoch = cell_of(wanted, place, LAST_EPOCH)
        cdef long long high_watermark, stable_offset, start_offset, size = 0
        cdef LogReader reader
        cdef LogEnd end
        cdef LogParts log
        cdef LogRead read
        log = topic.log_of(number)
        if log is None:
            log = self.services.topics.find_log(topic.key, number)  # raises the reason
        if self._is_follower:
            raise NotLeaderOrFollower
        reader = log.reader
        end = reader.end
        if epoch >= 0 and epoch != end.leader_epoch:
            raise FencedLeaderEpoch if epoch < end.leader_epoch else UnknownLeaderEpoch
        high_watermark = end.log_end_offset
        stable_offset = end.stable_end()
        start_offset = end.log_start_offset
        diverging = find_divergence(log, last_epoch, offset) if last_epoch >= 0 else NO_DIVERGENCE
        if diverging is not NO_DIVERGENCE:
            topic.diverge(place, diverging)
        else:
            read = reader.read(
                log, offset, limit, stable_offset if self._is_committed else high_watermark,
                at_least_one,
            )
            if read is not None:
                if limit < 0:
                    raise UnknownServerError(
                        f"at most {limit} bytes cannot be read; ask for 0 or more"
                    )
                topic.records[place] = read.slice
                size = read.slice.size
                log.bytes_out += size
                if self._is_committed:
                    topic.aborted[place] = log.aborted_transactions(offset, read.next_offset)
            elif self._is_committed:
                topic.aborted[place] = []
        topic.tell(place, high_watermark, stable_offset, start_offset)
        return size

    cdef bint _is_unchanged(self, TopicRead topic, Py_ssize_t place, Grid before) except *:
        """Tell whether a partition was read to its end before, and has not changed since."""
        cdef Grid wanted = topic.wanted
        cdef int column = STABLE_OFFSET if self._is_committed else HIGH_WATERMARK
        cdef LogEnd end
        cdef LogParts log = topic.log_of(cell_of(wanted, place, PARTITION))
        if log is None or cell_of(before, place, ERROR_CODE):
            return False
        end = log.end
        return (
            end.log_end_offset == cell_of(before, place, HIGH_WATERMARK)
            and end.log_start_offset == cell_of(before, place, START_OFFSET)
            and end.stable_end() == cell_of(before, place, STABLE_OFFSET)
            and cell_of(wanted, place, FETCH_OFFSET) >= cell_of(before, place, column)
            and cell_of(wanted, place, LAST_EPOCH) < 0
        )

    cdef _keep(self, TopicRead topic, Py_ssize_t place, Grid before):
        """Repeat the last result of a partition without records."""
        topic.tell(
            place, cell_of(before, place, HIGH_WATERMARK), cell_of(before, place, STABLE_OFFSET),
            cell_of(before, place, START_OFFSET),
        )
        if self._is_committed:
            topic.aborted[place] = []
        self.finds_some = True

    cdef bint _refuse(self, TopicRead topic, Py_ssize_t place, object error) except *:
        """Answer a partition with an error, and tell whether the answer may still wait."""
        cdef long long number = cell_of(topic.wanted, place, PARTITION)
        code = error.code.value
        # If the topic is known but the log is not, the log was deleted during this read.
        is_absent = code == DENIED or (code in NOT_HERE and topic.log_of(number) is None)
        if is_absent:
            self.absent.add((topic.key, number))
        if code in LEADER_ERRORS:
            self._is_refused_by_leader = True
            if self.context.version >= FIRST_WITH_LEADER:
                log = self.services.topics.find_log(topic.key, number)
                leader = LeaderIdAndEpoch(self.services.identity.node_id, log.leader_epoch)
                topic.name_leader(place, leader)
        topic.records[place] = b""
        topic.aborted[place] = [] if code in NOT_HERE else None
        topic.tell(place, -1, -1, -1)
        put_cell(topic.rows, place, ERROR_CODE, code)
        return is_absent


cdef list at_least(list known, Py_ssize_t count):
    """Return a list that repeats one value at least ``count`` times."""
    return known if len(known) >= count else known[:1] * count


def refused(index: int, code: int) -> PartitionData:
    """Return the answer for a partition that is not read."""
    return PartitionData(index, code, -1, -1, -1)


cdef object find_divergence(object log, long long last_epoch, long long offset):
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

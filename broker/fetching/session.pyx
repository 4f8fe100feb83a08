"""One fetch session: its partitions in reading order, and what the client knows about them.

The logs tell the session when they change (`broker.fetching.watching`). The columns of results are
in `protocol.messages.columns`.
"""

cimport cython

from siltstone.broker.fetching.watching cimport Watch, WatchGroup
from siltstone.protocol.core._messages cimport Grid, cell_of, value_of

from operator import attrgetter
from typing import TYPE_CHECKING

from siltstone.broker.fetching.watching import READ_COMMITTED
from siltstone.protocol.messages.fetch import PartitionData

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from siltstone.protocol.messages.fetch import (
        EpochEndOffset, FetchPartition, FetchRequest, FetchTopic
    )
    from siltstone.protocol.names import TopicKey
    from siltstone.storage.log.log import Log

include "columns.pxi"  # the build makes it from protocol/messages/columns.py

NO_DIVERGENCE = PartitionData._field_defaults["diverging_epoch"]  # type: Final[EpochEndOffset]
"""This must be the default object itself: the encoder compares by identity."""

cdef long long COMMITTED = READ_COMMITTED
cdef object turn_of = attrgetter("turn")


@cython.final
cdef class FetchPlan:
    """The topics and partitions that one request fetches, in reading order, and its session.

    Two neighbouring topics are never the same. ``count`` is the number of all partitions; ``read``
    has their objects in the session. ``epoch`` is the session's epoch after the request.
    """

    cdef readonly list topics  # type: list[tuple[TopicKey, Sequence[FetchPartition]]]
    cdef readonly Py_ssize_t count
    cdef readonly object session  # type: FetchSession | None
    cdef readonly object epoch, isolation_level  # type: int
    cdef readonly object read  # type: Sequence[SessionPartition]
    cdef readonly bint wants_session, by_id

    def __init__(
        self, list topics: list[tuple[TopicKey, Sequence[FetchPartition]]],
        session: FetchSession | None = None, epoch: int = 0, read: Sequence[SessionPartition] = (),
        wants_session: bool = False, by_id: bool = False, isolation_level: int = 0,
    ):
        self.topics = topics
        for _, partitions in topics:
            self.count += len(partitions)
        self.session = session
        self.epoch = epoch
        self.read = read
        self.wants_session = wants_session
        self.by_id = by_id
        self.isolation_level = isolation_level

    @property
    def partitions(self) -> list[tuple[TopicKey, FetchPartition]]:
        """Return the partitions to read."""
        return [(key, wanted) for key, partitions in self.topics for wanted in partitions]

    @property
    def all_partitions(self) -> list[tuple[TopicKey, FetchPartition]]:
        """Return all partitions of the request or its session, also those that need not be read."""
        if self.session is None:
            return self.partitions
        return [(each.key, each.wanted) for each in self.session.partitions.values()]


cdef long long replica_of(object request) except? -1:
    """Return the id of the follower that asks, or -1. Until v14 the id is in another field."""
    cdef long long replica_id = request.replica_id
    return replica_id if replica_id >= 0 else request.replica_state.replica_id


def list_wanted(
    request: FetchRequest, bint by_id
) -> list[tuple[TopicKey, Sequence[FetchPartition]]]:
    """Return the topics that a request names, with their partitions, in its order.

    A topic that is named twice in a row becomes one; a topic without partitions is left out.
    """
    cdef list found = []
    cdef list joined = None  # the partitions of the last topic, if it was named more than once
    for name, topic_id, partitions in request.topics:
        if not partitions:
            continue
        key = topic_id if by_id else name
        if found:
            last, before = found[len(found) - 1]
            if last == key:
                if joined is None:
                    joined = list(before)
                    found[len(found) - 1] = key, joined
                joined.extend(partitions)
                continue
        joined = None
        found.append((key, partitions))
    return found


cpdef add_row(list topics: list[tuple[TopicKey, Any]], object key: TopicKey, object row: Any):
    """Add a row to the last topic; if that is another one, add the topic first."""
    if topics:
        last, rows = topics[len(topics) - 1]
        if last == key:
            rows.append(row)
            return
    topics.append((key, [row]))


def wanted_of(
    list partitions: list[SessionPartition]
) -> list[tuple[TopicKey, Sequence[FetchPartition]]]:
    """Return the requested fields of partitions by topic, in the order of the partitions."""
    cdef list topics = []
    cdef SessionPartition partition
    for partition in partitions:
        add_row(topics, partition.key, partition.wanted)
    return topics


cpdef bint is_read_up(
    object wanted: FetchPartition, Grid fetched, Py_ssize_t place, long long isolation_level
) except *:
    """Tell whether a read has the same result as the row in ``fetched`` until the log changes.

    This is never so for a client that names the epoch of its last record: old epochs can be dropped
    without a change of the log.
    """
    cdef int column = STABLE_OFFSET if isolation_level == COMMITTED else HIGH_WATERMARK
    cdef long long offset, last_epoch
    if (
        value_of(fetched, place, RECORDS)
        or cell_of(fetched, place, ERROR_CODE)
        or value_of(fetched, place, DIVERGENCE) != NO_DIVERGENCE
    ):
        return False
    offset = wanted.fetch_offset
    last_epoch = wanted.last_fetched_epoch
    return last_epoch < 0 and offset >= cell_of(fetched, place, column)


@cython.final
cdef class SessionPartition(Watch):
    """One partition of a session: what the client last asked and what it last got.

    ``turn`` is its place in the order of reading.
    """

    cdef public long long turn
    cdef readonly long long high_watermark, log_start_offset

    def __init__(self, group: WatchGroup, key: TopicKey, wanted: FetchPartition, turn: int):
        Watch.__init__(self, group, key, wanted)
        self.turn = turn
        self.high_watermark = -1
        self.log_start_offset = -1

    cpdef bint has_news(self, Grid fetched, Py_ssize_t place) except *:
        """Tell whether the answer must name this row, and remember its values."""
        cdef long long code = cell_of(fetched, place, ERROR_CODE)
        cdef long long high_watermark = cell_of(fetched, place, HIGH_WATERMARK)
        cdef long long log_start_offset = cell_of(fetched, place, START_OFFSET)
        cdef bint news = (
            high_watermark != self.high_watermark
            or log_start_offset != self.log_start_offset
            or code != 0
            or len(value_of(fetched, place, RECORDS)) > 0
            or value_of(fetched, place, DIVERGENCE) != NO_DIVERGENCE
        )
        # After an error the watermark counts as unknown, so that the next answer names the
        # partition.
        self.high_watermark = -1 if code else high_watermark
        self.log_start_offset = log_start_offset
        return news


@cython.final
cdef class FetchSession:
    """A session; ``epoch`` is the epoch that the next request must have."""

    cdef readonly object session_id  # type: int
    cdef readonly bint by_id, is_closed
    cdef readonly double created
    cdef public double last_used
    cdef public long long epoch
    cdef readonly long long isolation_level
    cdef readonly dict partitions  # type: dict[tuple[TopicKey, int], SessionPartition]
    cdef readonly WatchGroup group
    cdef long long _turns

    def __init__(self, session_id: int, by_id: bool, created: float, isolation_level: int):
        self.session_id = session_id
        self.by_id = by_id
        self.created = created
        self.last_used = created
        self.isolation_level = isolation_level
        self.epoch = 1
        self.partitions = {}
        self.group = WatchGroup()

    def add(self, topics: Sequence[FetchTopic]):
        """Add or change partitions of topics that an incremental request names."""
        for name, topic_id, wanted_list in topics:
            key = topic_id if self.by_id else name
            for wanted in wanted_list:
                self.want(key, wanted)

    def update(self, request: FetchRequest):
        """Remove partitions and set the isolation level, as an incremental request says."""
        cdef SessionPartition known
        for name, topic_id, indexes in request.forgotten_topics_data:
            key = topic_id if self.by_id else name
            for index in indexes:
                known = self.partitions.pop((key, index), None)
                if known is not None:
                    known.leave()
                    self.group.changed.pop(known, None)
        if request.isolation_level != self.isolation_level or replica_of(request) >= 0:
            # With another isolation level there may be something to read.
            self.isolation_level = request.isolation_level
            self.group.changed.update(dict.fromkeys(self.partitions.values()))

    cpdef SessionPartition want(self, object key: TopicKey, object wanted: FetchPartition):
        """Store the requested fields of a partition. A new partition is read last."""
        cdef tuple place = (key, wanted.partition)
        cdef SessionPartition known = self.partitions.get(place)
        if known is None:
            known = SessionPartition(self.group, key, wanted, self.take_turn())
            self.partitions[place] = known
        else:
            known.wanted = wanted
        self.group.changed[known] = None
        return known

    def changed(self) -> list[SessionPartition]:
        """Return the partitions that an incremental request must read, in reading order.

        No log tells a closed session of changes, so a request that still waits reads everything.
        """
        return sorted(
            self.partitions.values() if self.is_closed else self.group.changed, key=turn_of
        )

    def conclude(
        self, read: Iterable[SessionPartition], list fetched: list[tuple[TopicKey, Grid]],
        get_log: Callable[[TopicKey, int], Log | None],
        list told: list[tuple[TopicKey, Sequence[PartitionData]]] | None, bint is_late,
    ):
        """Note that partitions were read, and add those that the answer must name to ``told``.

        Partitions with data go to the end of the order. The first answer of a session names all
        partitions: then ``told`` is None, and the order stays. ``is_late`` says that other requests
        were served since the read.
        """
        cdef Grid rows
        cdef Py_ssize_t place
        cdef SessionPartition partition
        cdef bint has_news
        partitions = iter(read)
        for key, rows in fetched:
            for place in range(len(rows)):
                partition = next(partitions)
                has_news = partition.has_news(rows, place)
                if has_news and told is not None:
                    add_row(told, key, rows[place])
                    if len(value_of(rows, place, RECORDS)):
                        partition.turn = self.take_turn()
                if not self.is_closed:
                    self.settle(partition, rows, place, get_log)
                    if is_late:
                        self._look_again(partition, rows, place, get_log)

    cdef _look_again(self, SessionPartition partition, Grid fetched, Py_ssize_t place, object get_log):
        """Mark a partition as changed if its log has changed since it was read."""
        log = get_log(partition.key, partition.wanted.partition)
        end = None if log is None else log.end
        if (
            end is None
            or end.log_end_offset != cell_of(fetched, place, HIGH_WATERMARK)
            or end.last_stable_offset != cell_of(fetched, place, STABLE_OFFSET)
        ):
            self.group.changed[partition] = None

    def tell_again(self, partitions: Iterable[SessionPartition]):
        """Name these partitions in the next answer: the client did not get the last answer.

        Those that it has told to forget meanwhile are not read any more.
        """
        cdef SessionPartition partition
        if not self.is_closed:
            for partition in partitions:
                if self.partitions.get((partition.key, partition.wanted.partition)) is partition:
                    partition.high_watermark = -1
                    self.group.changed[partition] = None

    cpdef settle(
        self, SessionPartition partition, Grid fetched, Py_ssize_t place,
        object get_log: Callable[[TopicKey, int], Log | None],
    ):
        """Watch the log of a partition that has nothing to read, instead of reading it again.

        The row of ``fetched`` at ``place`` tells whether there is something to read.
        """
        if not is_read_up(partition.wanted, fetched, place, self.isolation_level):
            return
        self.group.changed.pop(partition, None)
        partition.available = 0
        log = get_log(partition.key, partition.wanted.partition)
        if log is None:
            return
        partition.stand_on(log)
        if log.end.log_start_offset != partition.log_start_offset:
            self.group.changed[partition] = None  # a cleaner thread moved its start meanwhile

    def is_at(self, long long epoch) -> bool:
        """Tell whether no later request of the session has come than the one with ``epoch``."""
        return self.epoch == epoch and not self.is_closed

    def close(self):
        """Stop watching all logs. A waiting fetch resumes and is the last of the session."""
        cdef SessionPartition partition
        self.is_closed = True
        for partition in self.partitions.values():
            partition.leave()
        self.group.changed.clear()
        self.group.release()

    cpdef long long take_turn(self):
        """Return a place at the end of the order of reading."""
        self._turns += 1
        return self._turns

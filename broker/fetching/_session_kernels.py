"""Logs tell their changes to those who watch them: fetch sessions, and fetches that wait for data.

A `Watch` is one partition. It is among the watchers of its log (`Log.watchers`), which tells it of
every change. So neither an idle session nor a fetch that waits looks at its partitions one by one.

Compiled by Cython, or run as plain Python. The types of C stand in ``_session_kernels.pxd``.
"""

from operator import attrgetter
from typing import TYPE_CHECKING, Any, cast

from siltstone.broker.fetching._fetch_kernels import NO_DIVERGENCE, READ_COMMITTED
from siltstone.protocol.errors import KafkaError

try:
    import cython
except ModuleNotFoundError:  # Cython is a tool of the build, not of the run
    from siltstone.protocol.records import _portable as cython

if not cython.compiled:
    from siltstone.broker.fetching._fetch_kernels import is_read_up, replica_of
    from siltstone.broker.fetching.columns import (
        DIVERGENCE,
        ERROR_CODE,
        FETCH_OFFSET,
        HIGH_WATERMARK,
        PARTITION,
        RECORDS,
        STABLE_OFFSET,
        START_OFFSET,
    )
    from siltstone.protocol.core import Grid  # noqa: TC001  # compiled, it is a type of C
    from siltstone.protocol.records._portable import cell_of, field_of, number_of, slot_of, value_of

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable, Iterable, Sequence

    from siltstone.protocol.messages.fetch import FetchPartition, FetchRequest, PartitionData
    from siltstone.protocol.topic_key import TopicKey
    from siltstone.storage.log.log import Log

    Fetched = tuple[TopicKey, Grid]
    Told = tuple[TopicKey, Sequence[PartitionData]]


_turn_of = attrgetter("turn")


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
        """Count anew what there is of one partition, and go on if it is enough."""
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
        """Let the log tell of a partition in which there is nothing to read now.

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

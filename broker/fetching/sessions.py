"""Incremental fetch sessions (KIP-227): what a client fetches, remembered between its requests.

A session keeps its partitions in the order of reading. One that returned data goes to the end, so
that a busy partition does not starve the others. An incremental answer names only partitions with
news. Sessions belong to no connection and do not outlive the process (Kafka's FetchSessionCache).

Kafka walks all partitions of a session at each request. Here a partition that is read to its end
is left alone until its log says that something has changed (`broker.fetching.waiting`), so a
request costs what has changed since the last one, not what the session watches.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from operator import attrgetter
from typing import TYPE_CHECKING, TypeAlias, cast

from siltstone.broker.fetching._fetch_kernels import (
    NO_DIVERGENCE,
    FetchPlan,
    is_read_up,
    list_wanted,
    replica_of,
)
from siltstone.broker.fetching.waiting import Watch, WatchGroup
from siltstone.broker.net.slices import Slices
from siltstone.broker.process.loop_share import LoopShare
from siltstone.protocol.errors import (
    FetchSessionIdNotFound,
    FetchSessionTopicIdError,
    InvalidFetchSessionEpoch,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from siltstone.protocol.messages.fetch import FetchPartition, FetchRequest, PartitionData
    from siltstone.storage.log.log import Log
    from siltstone.storage.log.services import Watched

TopicKey: TypeAlias = str | bytes
"""A topic as the request names it: by name below version 13, by its 16 id bytes from there on."""

EVICTION_SECONDS = 120.0
FINAL_EPOCH = -1
INITIAL_EPOCH = 0
_FULL_EPOCHS = frozenset({FINAL_EPOCH, INITIAL_EPOCH})
_MAX_INT32 = 2**31 - 1
_PIECE = 100
NAMED = Slices("topics", nested="partitions")
"""The partitions that a request names."""


class SessionPartition(Watch):
    """One partition of a session: what the client asked last and what it was told last.

    ``turn`` is its place in the order of reading.
    """

    __slots__ = ("high_watermark", "log_start_offset", "turn")

    def __init__(self, group: WatchGroup, key: TopicKey, wanted: FetchPartition, turn: int) -> None:
        super().__init__(group, key, wanted)
        self.turn = turn
        self.high_watermark = -1
        self.log_start_offset = -1

    def has_news(self, fetched: PartitionData) -> bool:
        """Tell whether the client must hear of ``fetched``, and remember what it hears."""
        news = (
            bool(fetched.records)
            or fetched.error_code != 0
            or fetched.diverging_epoch != NO_DIVERGENCE
            or fetched.high_watermark != self.high_watermark
            or fetched.log_start_offset != self.log_start_offset
        )
        # After an error the watermark counts as unknown, so that the client hears when it is over.
        self.high_watermark = -1 if fetched.error_code else fetched.high_watermark
        self.log_start_offset = fetched.log_start_offset
        return news


_turn_of = attrgetter("turn")


@dataclass(slots=True)
class FetchSession:
    """A session; ``epoch`` is the one that the next request must carry."""

    session_id: int
    by_id: bool
    created: float
    last_used: float
    isolation_level: int
    epoch: int = 1
    partitions: dict[tuple[TopicKey, int], SessionPartition] = field(default_factory=dict)
    group: WatchGroup = field(default_factory=WatchGroup)
    is_closed: bool = False
    _turns: int = 0

    def update(self, request: FetchRequest) -> None:
        """Add, change and forget partitions as an incremental request says."""
        for name, topic_id, wanted_list in request.topics:
            for wanted in wanted_list:
                self.want(topic_id if self.by_id else name, wanted)
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

    def want(self, key: TopicKey, wanted: FetchPartition) -> SessionPartition:
        """Note what the client asks of a partition. A new partition is read last."""
        place = key, wanted.partition
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
        return sorted(changed, key=_turn_of) if changed else []

    def select_news(
        self,
        read: Iterable[SessionPartition],
        fetched: list[tuple[TopicKey, PartitionData]],
        get_log: Callable[[TopicKey, int], Log | None],
    ) -> list[tuple[TopicKey, PartitionData]]:
        """Return what an incremental answer names; partitions with data go to the end."""
        told = []
        for partition, named in zip(read, fetched, strict=True):
            _, result = named
            if partition.has_news(result):
                told.append(named)
                if result.records:
                    partition.turn = self.take_turn()
            self.settle(partition, result, get_log)
        return told

    def settle_late(
        self,
        partition: SessionPartition,
        fetched: PartitionData,
        get_log: Callable[[TopicKey, int], Log | None],
    ) -> None:
        """Do what `settle` does when others were served since the partition was read."""
        if self.is_closed:
            return
        self.settle(partition, fetched, get_log)
        log = get_log(partition.key, partition.wanted.partition)
        if (
            log is None
            or log.end.log_end_offset != fetched.high_watermark
            or log.end.last_stable_offset != fetched.last_stable_offset
        ):
            self.group.changed.add(partition)

    def tell_again(self, partitions: Iterable[SessionPartition]) -> None:
        """Name these partitions in the next answer: the client did not get the last one."""
        if not self.is_closed:
            for partition in partitions:
                partition.high_watermark = -1
                self.group.changed.add(partition)

    def settle(
        self,
        partition: SessionPartition,
        fetched: PartitionData,
        get_log: Callable[[TopicKey, int], Log | None],
    ) -> None:
        """Let the log tell of a partition in which there is nothing to read now."""
        if not is_read_up(partition.wanted, fetched, self.isolation_level):
            return
        changed = self.group.changed
        changed.discard(partition)
        partition.available = 0
        log = get_log(partition.key, partition.wanted.partition)
        if log is None or self.is_closed:
            return
        partition.stand_on(log)
        if log.end.log_start_offset != partition.log_start_offset:
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


class FetchSessions:
    """The cache of sessions, at most ``max.incremental.fetch.session.cache.slots`` (loop only).

    ``moved_starts`` is what `storage.log.services.LogServices` says.
    """

    def __init__(
        self,
        slot_count: Callable[[], int],
        monotonic: Callable[[], float],
        get_log: Callable[[TopicKey, int], Log | None],
        moved_starts: set[Watched],
    ) -> None:
        self._slot_count = slot_count
        self._monotonic = monotonic
        self._get_log = get_log
        self._moved_starts = moved_starts
        # In order of last use, the longest unused first.
        self.sessions: dict[int, FetchSession] = {}
        self.evicted_count = 0

    def __len__(self) -> int:
        return len(self.sessions)

    @property
    def partition_count(self) -> int:
        """How many partitions stand in all sessions together."""
        return sum(len(session.partitions) for session in self.sessions.values())

    def plan(self, request: FetchRequest, *, by_id: bool) -> FetchPlan:
        """Decide what to read for ``request``; an incremental one advances its session's epoch.

        Raises:
            FetchSessionIdNotFound: The session was evicted, or the broker has restarted.
            InvalidFetchSessionEpoch: A request was lost or doubled.
            FetchSessionTopicIdError: Names and ids are mixed in one session.
        """
        if request.session_epoch in _FULL_EPOCHS:
            before = self.sessions.get(request.session_id)
            if before is not None:
                self._close(before)
            return FetchPlan(
                list_wanted(request, by_id),
                wants_session=request.session_epoch == INITIAL_EPOCH,
                by_id=by_id,
                isolation_level=request.isolation_level,
            )
        session = self._find(request, by_id=by_id)
        session.update(request)
        if not session.partitions:
            self._close(session)
            return FetchPlan([])
        self._advance(session)
        return self._plan_changed(session)

    async def plan_in_shares(self, request: FetchRequest, *, by_id: bool) -> FetchPlan:
        """Do what `plan` does with an incremental request, and let others be served in between.

        Raises:
            KafkaError: As in `plan`; or another request of the session has come meanwhile.
        """
        session = self._find(request, by_id=by_id)
        self._advance(session)
        epoch = session.epoch
        share = LoopShare()
        for piece, _ in NAMED.cut(request._replace(forgotten_topics_data=())):
            session.update(piece)
            await share.rest()
            if not session.is_at(epoch):
                raise InvalidFetchSessionEpoch
        session.update(request._replace(topics=()))
        if not session.partitions:
            self._close(session)
            return FetchPlan([])
        return self._plan_changed(session)

    def _find(self, request: FetchRequest, *, by_id: bool) -> FetchSession:
        session = self.sessions.get(request.session_id)
        if session is None:
            raise FetchSessionIdNotFound
        if session.epoch != request.session_epoch:
            raise InvalidFetchSessionEpoch
        if session.by_id != by_id:
            raise FetchSessionTopicIdError
        return session

    def _advance(self, session: FetchSession) -> None:
        session.epoch = session.epoch % _MAX_INT32 + 1
        session.last_used = self._monotonic()
        self.sessions[session.session_id] = self.sessions.pop(session.session_id)
        session.group.release()  # a request that this one has overtaken

    def plan_again(self, plan: FetchPlan) -> FetchPlan:
        """Decide what to read for a request that has waited.

        Raises:
            InvalidFetchSessionEpoch: Another request of the session has come meanwhile.
        """
        if plan.session is None:
            return plan
        if plan.session.epoch != plan.epoch:
            raise InvalidFetchSessionEpoch
        return self._plan_changed(plan.session)

    def conclude(
        self, plan: FetchPlan, fetched: list[tuple[TopicKey, PartitionData]]
    ) -> tuple[int, list[tuple[TopicKey, PartitionData]]]:
        """Return the session id for the answer (0: none) and the partitions that it names.

        No log may have changed since ``fetched`` was read.
        """
        session: FetchSession | None = plan.session
        if session is not None:
            return session.session_id, session.select_news(plan.read, fetched, self._get_log)
        if not plan.wants_session or not plan.partitions:
            return 0, fetched
        session = self._create(plan)
        if session is None:
            return 0, fetched
        read = [session.want(key, wanted) for key, wanted in plan.partitions]
        for partition, (_, result) in zip(read, fetched, strict=True):
            partition.has_news(result)
            session.settle(partition, result, self._get_log)
        return session.session_id, fetched

    async def conclude_in_shares(
        self, plan: FetchPlan, fetched: list[tuple[TopicKey, PartitionData]]
    ) -> tuple[int, list[tuple[TopicKey, PartitionData]]]:
        """Do what `conclude` does, and let others be served in between.

        Raises:
            InvalidFetchSessionEpoch: Another request of the session has come meanwhile.
        """
        session: FetchSession | None = plan.session
        read = plan.read
        if session is None:
            if not plan.wants_session or not plan.partitions:
                return 0, fetched
            session = self._create(plan)
            if session is None:
                return 0, fetched
            read = ()
        elif session.epoch != plan.epoch:
            raise InvalidFetchSessionEpoch
        epoch = session.epoch
        told: list[tuple[TopicKey, PartitionData]] = []
        named: list[SessionPartition] = []
        share = LoopShare()
        for number, (key, result) in enumerate(fetched):
            partition = read[number] if read else session.want(key, plan.partitions[number][1])
            if partition.has_news(result):
                named.append(partition)
                told.append((key, result))
                if read and result.records:
                    partition.turn = session.take_turn()
            session.settle_late(partition, result, self._get_log)
            if number % _PIECE == 0:
                await share.rest()
                if session.epoch != epoch:
                    session.tell_again(named)
                    raise InvalidFetchSessionEpoch
        return session.session_id, told if read else fetched

    def _plan_changed(self, session: FetchSession) -> FetchPlan:
        moved = self._moved_starts
        while moved:
            moved.pop().tell_watchers()
        read = session.changed()
        asked = [(each.key, each.wanted) for each in read]
        return FetchPlan(asked, session, session.epoch, read)

    def _close(self, session: FetchSession) -> None:
        del self.sessions[session.session_id]
        session.close()

    def _create(self, plan: FetchPlan) -> FetchSession | None:
        """Make a session, in place of an old or smaller one if all slots are taken."""
        now = self._monotonic()
        if len(self.sessions) >= self._slot_count():
            victim = self._find_victim(len(plan.partitions), now)
            if victim is None:
                return None
            self._close(victim)
            self.evicted_count += 1
        session_id = random.randint(1, _MAX_INT32)  # noqa: S311  # a name, not a secret
        while session_id in self.sessions:
            session_id = random.randint(1, _MAX_INT32)  # noqa: S311  # likewise
        session = FetchSession(
            session_id,
            plan.by_id,
            created=now,
            last_used=now,
            isolation_level=plan.isolation_level,
        )
        self.sessions[session_id] = session
        return session

    def _find_victim(self, size: int, now: float) -> FetchSession | None:
        """Return the session to evict for one of ``size`` partitions, or None.

        That is the one unused for longest, if it may go by its age. Else it is the smallest of
        those that may be evicted for a larger one, if it is smaller than ``size``.
        """
        if not self.sessions:
            return None
        oldest = next(iter(self.sessions.values()))
        if now - oldest.last_used > EVICTION_SECONDS:
            return oldest
        old = [
            session
            for session in self.sessions.values()
            if session.last_used - session.created > EVICTION_SECONDS
        ]
        smallest = min(old, key=lambda session: len(session.partitions), default=None)
        if smallest is not None and len(smallest.partitions) < size:
            return smallest
        return None

"""Incremental fetch sessions (KIP-227): the broker remembers what a client fetches.

A session keeps its partitions in reading order. A partition that returned data goes to the end, so
that a busy partition does not starve the others. An incremental answer names only partitions with
news. Sessions belong to no connection and do not outlive the process (Kafka's FetchSessionCache).

Kafka walks all partitions of a session at each request. Here a partition that was read to its end
is not read again until its log reports a change (`broker.fetching.watching`). So the cost of a
request depends on what has changed since the last one, not on the size of the session.
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple

from siltstone.broker.fetching.session import (
    FetchPlan,
    FetchSession,
    SessionPartition,
    list_wanted,
    wanted_of,
)
from siltstone.broker.process.loop_share import LoopShare
from siltstone.protocol import errors
from siltstone.protocol.core import Grid
from siltstone.protocol.messages.fetch import FetchRequest, FetchTopic, PartitionData
from siltstone.protocol.names import TopicKey
from siltstone.storage.log.end import LogEnd
from siltstone.storage.log.log import Log
from siltstone.storage.randomness import random_bytes

Fetched = tuple[TopicKey, Grid]
Told = tuple[TopicKey, Sequence[PartitionData]]

EVICTION_SECONDS = 120.0
FINAL_EPOCH = -1
INITIAL_EPOCH = 0
_FULL_EPOCHS = frozenset({FINAL_EPOCH, INITIAL_EPOCH})
_MAX_INT32 = 2**31 - 1


class SessionRoom(NamedTuple):
    """The limits: how many sessions, and how many partitions in all sessions together.

    ``on_full`` is called for each fetch that gets no session because there are too many partitions.
    """

    slot_count: Callable[[], int]
    partition_count: Callable[[], int]
    on_full: Callable[[], None]


class FetchSessions:
    """The cache of sessions, as many as ``room`` says (loop only).

    For ``moved_starts`` see `storage.log.services.LogServices`.
    """

    def __init__(
        self,
        room: SessionRoom,
        monotonic: Callable[[], float],
        get_log: Callable[[TopicKey, int], Log | None],
        moved_starts: dict[LogEnd, None],
    ) -> None:
        self._room = room
        self._monotonic = monotonic
        self._get_log = get_log
        self._moved_starts = moved_starts
        # In order of last use, the longest unused first.
        self.sessions: dict[int, FetchSession] = {}
        self.evicted_count = 0
        self._read_by: dict[int, object] = {}  # the rights with which a whole session was last read
        self.partition_count = 0
        """How many partitions all sessions have together."""
        self._counted: dict[int, int] = {}  # the number of partitions, by session

    def __len__(self) -> int:
        return len(self.sessions)

    def plan(self, request: FetchRequest, *, by_id: bool) -> FetchPlan:
        """Decide what to read for ``request``; an incremental request advances its session's epoch.

        Use `plan_many` for a request that names many partitions.

        Raises:
            FetchSessionIdNotFound: The session was evicted, the broker has restarted, or there is
                no room for more partitions.
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
        self._advance(session)
        if request.topics:
            self._add(session, request.topics)
        return self._plan_updated(session, request)

    async def plan_many(self, request: FetchRequest, *, by_id: bool) -> FetchPlan:
        """Do what `plan` does with an incremental request, and let others be served in between.

        Raises:
            KafkaError: As in `plan`; or InvalidFetchSessionEpoch, if the session's next request has
                come meanwhile.
        """
        session = self._find(request, by_id=by_id)
        self._advance(session)
        epoch = session.epoch
        share = LoopShare()
        for some in share.cut(request.topics, "partitions"):
            self._add(session, some)
            await share.rest()
            if not session.is_at(epoch):
                raise errors.InvalidFetchSessionEpoch
        return self._plan_updated(session, request)

    def _plan_updated(self, session: FetchSession, request: FetchRequest) -> FetchPlan:
        """Decide what to read of a session that has what the request names."""
        session.update(request)
        self._count(session, len(session.partitions))
        if not session.partitions:
            self._close(session)
            return FetchPlan([])
        return self._plan_changed(session)

    def hold_against(self, session_id: int, rights: object) -> None:
        """Mark all partitions of a session as changed if it was last read with other rights."""
        session = self.sessions.get(session_id)
        if session is not None and self._read_by.get(session_id) != rights:
            self._read_by[session_id] = rights
            session.group.changed.update(dict.fromkeys(session.partitions.values()))

    def _find(self, request: FetchRequest, *, by_id: bool) -> FetchSession:
        session = self.sessions.get(request.session_id)
        if session is None:
            raise errors.FetchSessionIdNotFound
        if session.epoch != request.session_epoch:
            raise errors.InvalidFetchSessionEpoch
        if session.by_id != by_id:
            raise errors.FetchSessionTopicIdError
        return session

    def _add(self, session: FetchSession, topics: Sequence[FetchTopic]) -> None:
        """Add partitions to a session or change them; it ends if there is no room for them."""
        named = sum(len(partitions) for _, _, partitions in topics)
        room = self._room.partition_count() - self.partition_count
        if named > room and _count_new(session, topics) > room:
            self._room.on_full()
            self._close(session)
            raise errors.FetchSessionIdNotFound
        session.add(topics)
        self._count(session, len(session.partitions))

    def _count(self, session: FetchSession, count: int) -> None:
        """Note how many partitions a session has."""
        self.partition_count += count - self._counted.get(session.session_id, 0)
        self._counted[session.session_id] = count

    def _advance(self, session: FetchSession) -> None:
        session.epoch = session.epoch % _MAX_INT32 + 1
        session.last_used = self._monotonic()
        self.sessions[session.session_id] = self.sessions.pop(session.session_id)
        session.group.release()  # an earlier request that this one has overtaken

    def plan_again(self, plan: FetchPlan) -> FetchPlan:
        """Decide again what to read, after a request has waited.

        Raises:
            InvalidFetchSessionEpoch: Another request of the session has come meanwhile.
        """
        if plan.session is None:
            return plan
        if plan.session.epoch != plan.epoch:
            raise errors.InvalidFetchSessionEpoch
        return self._plan_changed(plan.session)

    def conclude(self, plan: FetchPlan, fetched: list[Fetched]) -> tuple[int, Sequence[Told]]:
        """Return the session id for the answer (0: none) and the partitions that it names.

        No log may have changed since ``fetched`` was read.

        Raises:
            InvalidFetchSessionEpoch: Another request of the session has come meanwhile.
        """
        session = self._find_to_conclude(plan)
        if session is None:
            return 0, fetched
        if plan.session is None:
            read = [session.want(*each) for each in plan.partitions]
            session.conclude(read, fetched, self._get_log, None, False)
            return session.session_id, fetched
        told: list[Told] = []
        session.conclude(plan.read, fetched, self._get_log, told, False)
        return session.session_id, told

    async def conclude_many(
        self, plan: FetchPlan, fetched: list[Fetched]
    ) -> tuple[int, Sequence[Told]]:
        """Do what `conclude` does, and let others be served in between; logs may have changed.

        Raises:
            InvalidFetchSessionEpoch: Another request of the session has come meanwhile.
        """
        session = self._find_to_conclude(plan)
        if session is None:
            return 0, fetched
        is_new = plan.session is None
        epoch = session.epoch
        told: list[Told] = []
        concluded: list[SessionPartition] = []
        wanted = plan.partitions if is_new else ()
        share = LoopShare()
        for each in fetched:
            start = len(concluded)
            end = start + len(each[1])
            if is_new:
                concluded += [session.want(*place) for place in wanted[start:end]]
            else:
                concluded += plan.read[start:end]
            session.conclude(
                concluded[start:], [each], self._get_log, None if is_new else told, True
            )
            await share.rest()
            if session.epoch != epoch:
                session.tell_again(concluded)
                raise errors.InvalidFetchSessionEpoch
        return session.session_id, fetched if is_new else told

    def _find_to_conclude(self, plan: FetchPlan) -> FetchSession | None:
        """Return the session of a plan, a new one if it wants one and there is room."""
        session: FetchSession | None = plan.session
        if session is None:
            return self._create(plan) if plan.wants_session else None
        if session.epoch != plan.epoch:
            raise errors.InvalidFetchSessionEpoch
        return session

    def _plan_changed(self, session: FetchSession) -> FetchPlan:
        moved = self._moved_starts
        while moved:
            moved.popitem()[0].tell_watchers()
        read = session.changed()
        return FetchPlan(wanted_of(read), session, session.epoch, read)

    def _close(self, session: FetchSession) -> None:
        del self.sessions[session.session_id]
        self.partition_count -= self._counted.pop(session.session_id)
        self._read_by.pop(session.session_id, None)
        session.close()

    def _create(self, plan: FetchPlan) -> FetchSession | None:
        """Create a session if there is room; if need be, evict old sessions or a smaller one."""
        now = self._monotonic()
        if len(self.sessions) >= self._room.slot_count():
            victim = self._find_victim(plan.count, now)
            if victim is None:
                return None
            self._evict(victim)
        most = self._room.partition_count()
        while self.partition_count + plan.count > most:
            oldest = next(iter(self.sessions.values()), None)
            if oldest is None or now - oldest.last_used <= EVICTION_SECONDS:
                self._room.on_full()
                return None
            self._evict(oldest)
        session_id = random_session_id()
        while session_id in self.sessions:
            session_id = random_session_id()
        session = FetchSession(
            session_id, plan.by_id, created=now, isolation_level=plan.isolation_level
        )
        self.sessions[session_id] = session
        self._count(session, plan.count)
        return session

    def _evict(self, victim: FetchSession) -> None:
        self._close(victim)
        self.evicted_count += 1

    def _find_victim(self, size: int, now: float) -> FetchSession | None:
        """Return the session to evict for a session of ``size`` partitions, or None.

        It is the session that was unused for longest, if that is long enough. Otherwise it is the
        smallest of the sessions that may be replaced, if it has fewer partitions than ``size``.
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


def _count_new(session: FetchSession, topics: Sequence[FetchTopic]) -> int:
    """Return how many partitions of topics a session does not have."""
    named = {
        (topic_id if session.by_id else name, wanted.partition)
        for name, topic_id, partitions in topics
        for wanted in partitions
    }
    return len(named - session.partitions.keys())


def random_session_id() -> int:
    """Return a random id for a new session."""
    return max(int.from_bytes(random_bytes(4)) & _MAX_INT32, 1)

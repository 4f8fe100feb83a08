"""Incremental fetch sessions (KIP-227): what a client fetches, remembered between its requests.

A session lists the partitions in the order they are read; one that returned data goes to the end,
so that no partition starves behind a busy one. An incremental answer names only partitions with
news. Sessions belong to no connection and do not outlive the process (Kafka's FetchSessionCache).
"""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeAlias

from protocol.errors import (
    FetchSessionIdNotFound,
    FetchSessionTopicIdError,
    InvalidFetchSessionEpoch,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from protocol.fetch import FetchPartition, FetchRequest, PartitionFetched

TopicKey: TypeAlias = str | bytes
"""A topic as the request names it: by name below version 13, by its 16 id bytes from there on."""

EVICTION_SECONDS = 120.0
FINAL_EPOCH = -1
INITIAL_EPOCH = 0
_MAX_INT32 = 2**31 - 1


@dataclass(slots=True)
class SessionPartition:
    """One partition of a session: what the client asked last and what it was told last."""

    key: TopicKey
    wanted: FetchPartition
    high_watermark: int = -1
    log_start_offset: int = -1

    def has_news(self, fetched: PartitionFetched) -> bool:
        """Tell whether the client must hear of ``fetched``, and remember what it hears."""
        news = (
            len(fetched.records) > 0
            or fetched.error_code != 0
            or fetched.diverging is not None
            or fetched.high_watermark != self.high_watermark
            or fetched.log_start_offset != self.log_start_offset
        )
        # After an error the watermark counts as unknown, so that the recovery is told too.
        self.high_watermark = -1 if fetched.error_code else fetched.high_watermark
        self.log_start_offset = fetched.log_start_offset
        return news


@dataclass(slots=True)
class FetchSession:
    """A session; ``epoch`` is the one that the next request must carry."""

    session_id: int
    by_id: bool
    created: float
    last_used: float
    epoch: int = 1
    partitions: dict[tuple[TopicKey, int], SessionPartition] = field(default_factory=dict)

    def update(self, request: FetchRequest) -> None:
        """Add, change and forget partitions as an incremental request says."""
        partitions = self.partitions
        for key, wanted_list in request.topics:
            for wanted in wanted_list:
                known = partitions.get((key, wanted.partition))
                if known is None:
                    partitions[key, wanted.partition] = SessionPartition(key, wanted)
                else:
                    known.wanted = wanted
        for key, indexes in request.forgotten:
            for index in indexes:
                partitions.pop((key, index), None)

    def select_news(
        self, fetched: list[tuple[TopicKey, PartitionFetched]]
    ) -> list[tuple[TopicKey, PartitionFetched]]:
        """Return what an incremental answer names; partitions with data go to the end."""
        told = []
        for key, result in fetched:
            place = key, result.index
            known = self.partitions.get(place)
            if known is None or not known.has_news(result):
                continue
            told.append((key, result))
            if len(result.records) > 0:
                self.partitions[place] = self.partitions.pop(place)
        return told


@dataclass(slots=True, kw_only=True)
class FetchPlan:
    """What one request fetches: (topic, partition) in reading order, and for which session."""

    partitions: list[tuple[TopicKey, FetchPartition]]
    session: FetchSession | None = None
    wants_session: bool = False
    by_id: bool = False


class FetchSessions:
    """The cache of sessions, at most ``max.incremental.fetch.session.cache.slots`` (loop only)."""

    def __init__(self, slot_count: Callable[[], int], monotonic: Callable[[], float]) -> None:
        self._slot_count = slot_count
        self._monotonic = monotonic
        # In order of last use, the longest unused first.
        self._sessions: dict[int, FetchSession] = {}
        self.evicted_count = 0

    def __len__(self) -> int:
        return len(self._sessions)

    @property
    def partition_count(self) -> int:
        """How many partitions stand in all sessions together."""
        return sum(len(session.partitions) for session in self._sessions.values())

    def plan(self, request: FetchRequest, *, by_id: bool) -> FetchPlan:
        """Decide what to read for ``request``; an incremental one advances its session's epoch.

        Raises:
            FetchSessionIdNotFound: The session was evicted, or the broker has restarted.
            InvalidFetchSessionEpoch: A request was lost or doubled.
            FetchSessionTopicIdError: Names and ids are mixed in one session.
        """
        if request.session_epoch in {FINAL_EPOCH, INITIAL_EPOCH}:
            self._sessions.pop(request.session_id, None)
            return FetchPlan(
                partitions=[
                    (key, wanted) for key, wanted_list in request.topics for wanted in wanted_list
                ],
                wants_session=request.session_epoch == INITIAL_EPOCH,
                by_id=by_id,
            )
        session = self._sessions.get(request.session_id)
        if session is None:
            raise FetchSessionIdNotFound
        if session.epoch != request.session_epoch:
            raise InvalidFetchSessionEpoch
        if session.by_id != by_id:
            raise FetchSessionTopicIdError
        session.update(request)
        if not session.partitions:
            del self._sessions[session.session_id]
            return FetchPlan(partitions=[])
        session.epoch = session.epoch % _MAX_INT32 + 1
        session.last_used = self._monotonic()
        self._sessions[session.session_id] = self._sessions.pop(session.session_id)
        return FetchPlan(
            partitions=[(known.key, known.wanted) for known in session.partitions.values()],
            session=session,
            by_id=by_id,
        )

    def conclude(
        self, plan: FetchPlan, fetched: list[tuple[TopicKey, PartitionFetched]]
    ) -> tuple[int, list[tuple[TopicKey, PartitionFetched]]]:
        """Return the session id to answer, 0 for none, and what to name in the answer."""
        if plan.session is not None:
            return plan.session.session_id, plan.session.select_news(fetched)
        if not plan.wants_session or not plan.partitions:
            return 0, fetched
        session = self._create(len(plan.partitions), by_id=plan.by_id)
        if session is None:
            return 0, fetched
        for (key, wanted), (_, result) in zip(plan.partitions, fetched, strict=True):
            known = SessionPartition(key, wanted)
            known.has_news(result)
            session.partitions[key, wanted.partition] = known
        return session.session_id, fetched

    def _create(self, size: int, *, by_id: bool) -> FetchSession | None:
        """Make a session, in place of an old or smaller one if all slots are taken."""
        now = self._monotonic()
        if len(self._sessions) >= self._slot_count():
            victim = self._find_victim(size, now)
            if victim is None:
                return None
            del self._sessions[victim.session_id]
            self.evicted_count += 1
        session_id = random.randint(1, _MAX_INT32)  # noqa: S311  # a name, not a secret
        while session_id in self._sessions:
            session_id = random.randint(1, _MAX_INT32)  # noqa: S311  # likewise
        session = FetchSession(session_id, by_id, created=now, last_used=now)
        self._sessions[session_id] = session
        return session

    def _find_victim(self, size: int, now: float) -> FetchSession | None:
        """Return the session to evict for one of ``size`` partitions, or None."""
        if not self._sessions:
            return None
        oldest = next(iter(self._sessions.values()))
        if now - oldest.last_used > EVICTION_SECONDS:
            return oldest
        smallest = min(self._sessions.values(), key=lambda session: len(session.partitions))
        if len(smallest.partitions) < size and now - smallest.created > EVICTION_SECONDS:
            return smallest
        return None

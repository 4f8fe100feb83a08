"""Fetch (1), versions 4-18: whole stored batches from an offset on, as ranges of files.

v7 sessions (KIP-227) · v9 leader epochs (KIP-320) · v11 rack (KIP-392) · v12 diverging epochs
(KIP-595), compact encoding · v13 topic ids (KIP-516) · v15 replica state (KIP-903) · v16 node
endpoints (KIP-951) · v17 directory ids · v18 high watermark hint. A follower's fetch is refused,
since there are no other replicas.

Differs from Kafka: only whole batches are sent, never a batch that is cut at the end of a
partition; in a session a deleted topic gets UNKNOWN_TOPIC_ID, as it does without a session, where
Kafka answers UNKNOWN_TOPIC_OR_PARTITION, or INCONSISTENT_TOPIC_ID if another topic has its name;
an error stands in the place of its partition, not behind all others; aborted transactions that
begin behind the records of the answer are left out, where Kafka lists some; the last stable offset
is never below the log start, where Kafka names the base offset of the batch in which DeleteRecords
has ended.
"""

from collections.abc import Coroutine, Sequence
from typing import Any

from siltstone.broker.fetching.reading import FetchRead, refused
from siltstone.broker.fetching.session import FetchPlan
from siltstone.broker.fetching.watching import READ_COMMITTED, Watch, WatchGroup
from siltstone.broker.process.loop_share import FIRST_PIECE, LoopShare
from siltstone.broker.services import RequestContext
from siltstone.protocol.errors import InvalidFetchSessionEpoch, KafkaError, UnknownServerError
from siltstone.protocol.messages.fetch import FetchRequest, FetchResponse, PartitionData
from siltstone.protocol.names import FIRST_WITH_TOPIC_ID, TopicKey

Told = tuple[TopicKey, Sequence[PartitionData]]

_ISOLATION_LEVELS = frozenset({0, READ_COMMITTED})


def handle(
    context: RequestContext, request: FetchRequest
) -> FetchResponse | Coroutine[Any, Any, FetchResponse]:
    """Answer at once if few partitions are read and that is enough; else return a coroutine."""
    by_id = context.version >= FIRST_WITH_TOPIC_ID
    sessions = context.services.sessions
    if context.rights is not None and request.session_epoch > 0:
        sessions.hold_against(request.session_id, context.rights.in_force)
    if request.session_epoch > 0 and request.topics and _names_many(request):
        return _serve_many(context, request, by_id=by_id)
    try:
        plan = sessions.plan(request, by_id=by_id)
    except KafkaError as error:
        return FetchResponse(error_code=error.code.value)
    return _serve(context, request, plan, by_id=by_id)


async def _serve_many(
    context: RequestContext, request: FetchRequest, *, by_id: bool
) -> FetchResponse:
    """Serve a request that names many partitions of a session."""
    try:
        plan = await context.services.sessions.plan_many(request, by_id=by_id)
    except KafkaError as error:
        return FetchResponse(error_code=error.code.value)
    served = _serve(context, request, plan, by_id=by_id)
    return served if isinstance(served, FetchResponse) else await served


def _serve(
    context: RequestContext, request: FetchRequest, plan: FetchPlan, *, by_id: bool
) -> FetchResponse | Coroutine[Any, Any, FetchResponse]:
    fetch = _Fetch(context, request, plan)
    if request.isolation_level not in _ISOLATION_LEVELS and fetch.is_of_somebody:
        return _refuse_all(request, by_id=by_id)
    if not fetch.is_small:
        return fetch.answer_later(is_read=False)
    if fetch.may_answer(*fetch.read()):
        return fetch.answer()
    return fetch.answer_later(is_read=True)


def _names_many(request: FetchRequest) -> bool:
    return sum(1 + len(topic.partitions) for topic in request.topics) > FIRST_PIECE


def _refuse_all(request: FetchRequest, *, by_id: bool) -> FetchResponse:
    """Refuse an unknown isolation level; until v12 the error code stands in each partition."""
    code = UnknownServerError.code.value
    responses: list[Any] = []
    if not by_id:
        responses = [
            (name, topic_id, [refused(each.partition, code) for each in partitions])
            for name, topic_id, partitions in request.topics
        ]
    return FetchResponse(0, code, request.session_id, responses)


class _Fetch(FetchRead):
    """One request while it is served: read once, or wait and read again."""

    __slots__ = ()

    @property
    def is_of_somebody(self) -> bool:
        """Return whether any partition of the request exists and the client may read it."""
        get_log = self.services.topics.get_log
        return any(
            get_log(key, wanted.partition) and (self.context.rights is None or self.may_read(key))
            for key, wanted in self.plan.all_partitions
        )

    @property
    def is_small(self) -> bool:
        """Tell whether so little is to be read that others need not be served in between."""
        return self.plan.count <= FIRST_PIECE

    def read(self) -> tuple[int, bool]:
        """Read what the plan says; return bytes found and whether an answer may not wait.

        After a wait only partitions with changes are read again; for a session the plan has only
        these.
        """
        before = self.fetched if self.plan.session is None else []
        self.fetched = []
        return self.read_some(self.plan.topics, before, 0)

    async def read_many(self) -> tuple[int, bool]:
        """Do what `read` does, and let others be served in between."""
        share = LoopShare()
        before = self.fetched if self.plan.session is None else []
        self.fetched = []
        size = 0
        answer_now = False
        for key, partitions in self.plan.topics:
            for start in range(0, len(partitions), FIRST_PIECE):
                number = len(self.fetched)
                some = [(key, partitions[start : start + FIRST_PIECE])]
                found, urgent = self.read_some(some, before[number : number + 1], size)
                size += found
                answer_now = answer_now or urgent
                await share.rest()
        return size, answer_now

    def may_answer(self, size: int, answer_now: bool) -> bool:
        """Tell whether there are enough bytes, or nothing to wait for."""
        return (
            answer_now
            or size >= self.min_bytes
            or self.request.max_wait_ms <= 0
            or not self._exists
        )

    @property
    def _exists(self) -> bool:
        """Tell whether any partition of the request, or of its session, exists."""
        session = self.plan.session
        # A session's other partitions exist: they were read to the end and watch their logs.
        is_more = session is not None and len(session.partitions) > self.plan.count
        return self.finds_some or is_more

    async def wait(self) -> None:
        """Park until ``min_bytes`` have come or ``max_wait_ms`` has passed, then plan again."""
        services, session = self.services, self.plan.session
        share = LoopShare()
        group = WatchGroup() if session is None else session.group
        try:
            if session is None:  # then only this request watches
                await self._watch(group, share)
            if session is None or session.is_at(self.plan.epoch):
                await services.waiting.wait(
                    group,
                    services.topics.get_log,
                    min_bytes=self.min_bytes,
                    isolation_level=self.request.isolation_level,
                    seconds=self._find_wait(),
                    absent=self.absent,
                )
            while session is None and group.changed:
                group.leave(FIRST_PIECE)
                await share.rest()
        finally:
            if session is None:
                group.leave(len(group.changed))
        self.plan = services.sessions.plan_again(self.plan)

    async def _watch(self, group: WatchGroup, share: LoopShare) -> None:
        """Add the partitions to a group; one that is named twice is watched once."""
        named = {}
        for number, (key, wanted) in enumerate(self.plan.partitions, 1):
            named[key, wanted.partition] = Watch(group, key, wanted)
            if number % FIRST_PIECE == 0:
                await share.rest()
        group.changed.update(dict.fromkeys(named.values()))

    def _find_wait(self) -> float:
        """Return for how many seconds the request may wait: not beyond the end of the login."""
        seconds: float = self.request.max_wait_ms / 1000
        client = self.context.connection
        return seconds if client is None else min(seconds, client.login_seconds)

    def overtaken(self, error: InvalidFetchSessionEpoch) -> FetchResponse:
        """Answer a request that a later request of its session has overtaken."""
        session = self.plan.session
        session_id = 0 if session is None else session.session_id
        return FetchResponse(error_code=error.code.value, session_id=session_id)

    def answer(self) -> FetchResponse:
        """Update the session and return the answer for each partition."""
        return self.name_topics(*self.services.sessions.conclude(self.plan, self.fetched))

    async def answer_later(self, *, is_read: bool) -> FetchResponse:
        """Read what was not read, wait if that is not enough, and answer."""
        try:
            if is_read or not self.may_answer(*await self.read_many()):
                await self.wait()
                if self.is_small:
                    self.read()
                else:
                    await self.read_many()
            return self.answer() if self.is_small else await self.answer_many()
        except InvalidFetchSessionEpoch as error:
            return self.overtaken(error)

    async def answer_many(self) -> FetchResponse:
        """Do what `answer` does, and let others be served in between."""
        session_id, told = await self.services.sessions.conclude_many(self.plan, self.fetched)
        if told is self.fetched:
            told = await _join(told)
        return self.name_topics(session_id, told)


async def _join(pieces: Sequence[Told]) -> Sequence[Told]:
    """Join the pieces of each topic's partitions, which were read one after the other."""
    share = LoopShare()
    told: list[tuple[TopicKey, list[PartitionData]]] = []
    for key, rows in pieces:
        if told and told[-1][0] == key:
            told[-1][1].extend(rows)
        else:
            told.append((key, list(rows)))
        await share.rest()
    return told

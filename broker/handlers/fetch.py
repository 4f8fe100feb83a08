"""Fetch (1), versions 4-18: whole stored batches from an offset on, as ranges of files.

v7 sessions (KIP-227) · v9 leader epochs (KIP-320) · v11 rack (KIP-392) · v12 diverging epochs
(KIP-595), compact encoding · v13 topic ids (KIP-516) · v15 replica state (KIP-903) · v16 node
endpoints (KIP-951) · v17 directory ids · v18 high watermark hint. A follower's fetch is refused:
there are no replicas here.

Differs from Kafka: only whole batches are ever sent, never a cut one at the end of a partition.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from broker.fetch_sessions import FINAL_EPOCH, NO_DIVERGENCE, is_read_up, replica_of
from broker.loop_share import LoopShare
from broker.waiting import READ_COMMITTED, Watch, WatchGroup
from protocol.errors import (
    FencedLeaderEpoch,
    InvalidFetchSessionEpoch,
    KafkaError,
    NotLeaderOrFollower,
    OffsetOutOfRange,
    UnknownLeaderEpoch,
    UnknownServerError,
    UnknownTopicId,
    UnknownTopicOrPartition,
)
from protocol.messages import NO_ID
from protocol.messages.fetch import (
    EpochEndOffset,
    FetchResponse,
    LeaderIdAndEpoch,
    NodeEndpoint,
    PartitionData,
    SnapshotId,
)
from protocol.topic_key import FIRST_WITH_TOPIC_ID

if TYPE_CHECKING:
    from collections.abc import Coroutine, Sequence

    from broker.context import RequestContext
    from broker.fetch_sessions import FetchPlan, TopicKey
    from protocol.messages.fetch import FetchPartition, FetchRequest
    from storage.log import Log

_FIRST_WITH_LEADER = 16
_ISOLATION_LEVELS = frozenset({0, READ_COMMITTED})
# Of these Kafka writes a list of aborted transactions that is empty, of all others none.
_NOT_HERE = frozenset({UnknownTopicOrPartition.code.value, UnknownTopicId.code.value})
_LEADER_ERRORS = frozenset({FencedLeaderEpoch.code.value, NotLeaderOrFollower.code.value})
_AT_ONCE = 500
"""Of a request for more partitions, without a session, others are served in between."""
_PIECE = 100
_NO_LEADER = LeaderIdAndEpoch()
_NO_SNAPSHOT = SnapshotId()
_NO_REPLICA = -1


def handle(
    context: RequestContext, request: FetchRequest
) -> FetchResponse | Coroutine[Any, Any, FetchResponse]:
    """Answer at once when there is enough to send, else return a coroutine that waits."""
    if request.session_epoch == FINAL_EPOCH and not request.session_id:
        answer = _read_one(context, request)
        if answer is not None:
            return answer
    by_id = context.version >= FIRST_WITH_TOPIC_ID
    try:
        plan = context.rooms.sessions.plan(request, by_id=by_id)
    except KafkaError as error:
        return FetchResponse(error_code=error.code.value)
    fetch = _Fetch(context, request, plan)
    if request.isolation_level not in _ISOLATION_LEVELS and fetch.is_of_somebody:
        return _refuse_all(request, by_id=by_id)
    if plan.session is None and len(plan.partitions) > _AT_ONCE:
        return fetch.read_in_shares()
    if fetch.may_answer(*fetch.read()):
        return fetch.answer()
    return fetch.wait()


def _read_one(context: RequestContext, request: FetchRequest) -> FetchResponse | None:
    """Answer for one partition that has enough; None if it has not, or anything is unusual.

    That is what a consumer of one partition asks for again and again: a plan would cost as much as
    the read. Nothing is changed before the answer is sure.
    """
    topics = request.topics
    if len(topics) != 1 or len(topics[0].partitions) != 1:
        return None
    name, topic_id, (partition,) = topics[0]
    index, epoch, offset, last_epoch, _, limit, _, _ = partition
    by_id = context.version >= FIRST_WITH_TOPIC_ID
    log = context.rooms.topics.get_log(topic_id if by_id else name, index)
    if log is None or last_epoch >= 0 or (epoch >= 0 and epoch != log.leader_epoch):
        return None
    if replica_of(request) >= 0 or request.isolation_level not in _ISOLATION_LEVELS:
        return None
    high_watermark, stable_offset = log.high_watermark, log.last_stable_offset
    is_committed = request.isolation_level == READ_COMMITTED
    most = min(request.max_bytes, context.rooms.settings.server.fetch_max_bytes)
    upto = stable_offset if is_committed else high_watermark
    try:
        read = log.read(offset, min(limit, most), upto)
    except KafkaError:
        return None
    if read is None or min(limit, most) < 0 or read.slice.size < min(request.min_bytes, most):
        return None
    aborted = log.aborted_transactions(offset, read.next_offset) if is_committed else None
    log.bytes_out += read.slice.size
    row = (
        index, 0, high_watermark, stable_offset, log.log_start_offset, NO_DIVERGENCE, _NO_LEADER,
        _NO_SNAPSHOT, aborted, _NO_REPLICA, read.slice,
    )  # fmt: skip
    return FetchResponse(0, 0, 0, [(name, topic_id, [row])])  # type: ignore[list-item]  # bare tuples


def _refuse_all(request: FetchRequest, *, by_id: bool) -> FetchResponse:
    """Answer an isolation level that does not exist; the partitions have the code until v12."""
    code = UnknownServerError.code.value
    responses: list[Any] = []
    if not by_id:
        responses = [
            (name, topic_id, [_refused(each.partition, code) for each in partitions])
            for name, topic_id, partitions in request.topics
        ]
    return FetchResponse(0, code, request.session_id, responses)


def _refused(index: int, code: int) -> PartitionData:
    """Return the answer for a partition that is not read."""
    return PartitionData(index, code, -1, -1, -1)


class _Fetch:
    """One request while it is served: read once, or wait and read again."""

    __slots__ = (
        "context",
        "fetched",
        "max_bytes",
        "min_bytes",
        "plan",
        "replica_id",
        "request",
        "rooms",
    )

    def __init__(self, context: RequestContext, request: FetchRequest, plan: FetchPlan) -> None:
        self.context = context
        self.rooms = context.rooms
        self.request = request
        self.plan = plan
        self.replica_id = replica_of(request)
        self.max_bytes = min(request.max_bytes, self.rooms.settings.server.fetch_max_bytes)
        self.min_bytes = min(request.min_bytes, self.max_bytes)
        self.fetched: list[tuple[TopicKey, PartitionData]] = []

    @property
    def is_of_somebody(self) -> bool:
        """Return whether any of the partitions is here."""
        get_log = self.rooms.topics.get_log
        return any(get_log(key, wanted.partition) for key, wanted in self.plan.all_partitions)

    def read(self) -> tuple[int, bool]:
        """Read what the plan says; return bytes found and whether an answer may not wait.

        The first partition with data gives at least one batch, whatever the limits say, so that a
        consumer always makes progress (KIP-74). What was read up before the request has waited is
        read again only if it has changed; a session has sorted that out already.
        """
        before = self.fetched if self.plan.session is None else []
        self.fetched = []
        return self._read_some(self.plan.partitions, before, 0)

    async def read_in_shares(self) -> FetchResponse:
        """Read many partitions without a session, and let others be served in between."""
        share = LoopShare()
        partitions = self.plan.partitions
        size = 0
        answer_now = False
        for start in range(0, len(partitions), _PIECE):
            found, urgent = self._read_some(partitions[start : start + _PIECE], [], size)
            size += found
            answer_now = answer_now or urgent
            await share.rest()
        return self.answer() if self.may_answer(size, answer_now) else await self.wait()

    def may_answer(self, size: int, answer_now: bool) -> bool:
        """Tell whether there is enough, or nothing to wait for."""
        return (
            answer_now
            or size >= self.min_bytes
            or self.request.max_wait_ms <= 0
            or self.plan.is_empty
        )

    def _read_some(
        self,
        partitions: Sequence[tuple[TopicKey, FetchPartition]],
        before: list[tuple[TopicKey, PartitionData]],
        found: int,
    ) -> tuple[int, bool]:
        """Read partitions behind those in which as many bytes were found; return as `read`."""
        remaining = max(0, self.max_bytes - found) if found else self.max_bytes
        total = 0
        urgent = False
        fetched = self.fetched
        for number, (key, wanted) in enumerate(partitions):
            if before and self._is_unchanged(key, wanted, before[number][1]):
                fetched.append(before[number])
                continue
            limit = min(wanted.partition_max_bytes, remaining)
            try:
                result = self._read_partition(key, wanted, limit, at_least_one=not (found or total))
            except KafkaError as error:
                result = self._refuse(key, wanted, error)
                urgent = True
            else:
                if result.diverging_epoch != NO_DIVERGENCE:
                    urgent = True
            size = len(result.records or b"")
            total += size
            remaining = remaining - size if remaining > size else 0
            fetched.append((key, result))
        return total, urgent

    async def wait(self) -> FetchResponse:
        """Park until ``min_bytes`` are there or ``max_wait_ms`` has passed, then read again."""
        rooms, session = self.rooms, self.plan.session
        # Without a session nobody watches but this request; what is named twice is one partition.
        group = WatchGroup() if session is None else session.group
        if session is None:
            named = {(key, wanted.partition): (key, wanted) for key, wanted in self.plan.partitions}
            group.changed.update(Watch(group, key, wanted) for key, wanted in named.values())
        try:
            if session is None or session.is_at(self.plan.epoch):
                await rooms.waiting.wait(
                    group,
                    rooms.topics.get_log,
                    min_bytes=self.min_bytes,
                    isolation_level=self.request.isolation_level,
                    seconds=self.request.max_wait_ms / 1000,
                )
        finally:
            if session is None:
                group.leave()
        try:
            self.plan = rooms.sessions.plan_again(self.plan)
        except InvalidFetchSessionEpoch as error:
            session_id = 0 if session is None else session.session_id
            return FetchResponse(error_code=error.code.value, session_id=session_id)
        self.read()
        return self.answer()

    def answer(self) -> FetchResponse:
        """Close the books of the session and say what is told of each partition."""
        session_id, named = self.rooms.sessions.conclude(self.plan, self.fetched)
        topics: list[Any] = []
        last: TopicKey | None = None
        for key, result in named:
            if key == last:
                topics[-1][2].append(result)
            else:
                last = key
                name, topic_id = ("", key) if isinstance(key, bytes) else (key, NO_ID)
                topics.append((name, topic_id, [result]))
        nodes = []
        if self.context.version >= _FIRST_WITH_LEADER and any(
            result.error_code in _LEADER_ERRORS for _, result in named
        ):
            nodes.append(NodeEndpoint(self.rooms.identity.node_id, *self.context.advertised))
        return FetchResponse(0, 0, session_id, topics, nodes)

    def _is_unchanged(self, key: TopicKey, wanted: FetchPartition, fetched: PartitionData) -> bool:
        log = self.rooms.topics.get_log(key, wanted.partition)
        return (
            log is not None
            and log.log_end_offset == fetched.high_watermark
            and log.log_start_offset == fetched.log_start_offset
            and log.last_stable_offset == fetched.last_stable_offset
            and is_read_up(wanted, fetched, self.request.isolation_level)
        )

    def _read_partition(
        self, key: TopicKey, wanted: FetchPartition, limit: int, *, at_least_one: bool
    ) -> PartitionData:
        log = self.rooms.topics.find_log(key, wanted.partition)
        if self.replica_id >= 0:
            raise NotLeaderOrFollower
        epoch = wanted.current_leader_epoch
        if epoch >= 0 and epoch != log.leader_epoch:
            raise FencedLeaderEpoch if epoch < log.leader_epoch else UnknownLeaderEpoch
        offset = wanted.fetch_offset
        high_watermark = log.high_watermark
        stable_offset = log.last_stable_offset
        found = PartitionData(
            wanted.partition,
            0,
            high_watermark,
            stable_offset,
            log.log_start_offset,
            aborted_transactions=None,
        )
        if wanted.last_fetched_epoch >= 0:
            diverging = _find_divergence(log, wanted)
            if diverging is not None:
                return found._replace(diverging_epoch=diverging)
        committed = self.request.isolation_level == READ_COMMITTED
        upto = stable_offset if committed else high_watermark
        read = log.read(offset, limit, upto, at_least_one=at_least_one)
        if read is None:
            return found._replace(aborted_transactions=[]) if committed else found
        if limit < 0:
            raise UnknownServerError(f"at most {limit} bytes can not be read; ask for 0 or more")
        log.bytes_out += read.slice.size
        aborted = log.aborted_transactions(offset, read.next_offset) if committed else None
        return found._replace(aborted_transactions=aborted, records=read.slice)  # type: ignore[arg-type]

    def _refuse(self, key: TopicKey, wanted: FetchPartition, error: KafkaError) -> PartitionData:
        code = error.code.value
        leader = _NO_LEADER
        if code in _LEADER_ERRORS and self.context.version >= _FIRST_WITH_LEADER:
            log = self.rooms.topics.find_log(key, wanted.partition)
            leader = LeaderIdAndEpoch(self.rooms.identity.node_id, log.leader_epoch)
        return _refused(wanted.partition, code)._replace(
            current_leader=leader, aborted_transactions=[] if code in _NOT_HERE else None
        )


def _find_divergence(log: Log, wanted: FetchPartition) -> EpochEndOffset | None:
    """Return (epoch, end offset) where the client's log and ours part, or None (KIP-595).

    Raises:
        OffsetOutOfRange: We do not know that epoch, or the offset is below the log's start.
    """
    epoch, end_offset = log.end_offset_for_epoch(wanted.last_fetched_epoch)
    if epoch < 0 or end_offset < 0 or wanted.fetch_offset < log.log_start_offset:
        raise OffsetOutOfRange
    if epoch < wanted.last_fetched_epoch or end_offset < wanted.fetch_offset:
        return EpochEndOffset(epoch, end_offset)
    return None

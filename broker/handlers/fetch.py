"""Fetch (1), versions 4-18: whole stored batches from an offset on, as ranges of files.

v7 sessions (KIP-227) · v9 leader epochs (KIP-320) · v11 rack (KIP-392) · v12 diverging epochs
(KIP-595), compact encoding · v13 topic ids (KIP-516) · v15 replica state (KIP-903) · v16 node
endpoints (KIP-951) · v17 directory ids · v18 high watermark hint. A follower's fetch is refused:
there are no replicas here.

Differs from Kafka: only whole batches are ever sent, never a cut one at the end of a partition.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from broker.fetch_sessions import FINAL_EPOCH, is_read_up
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
from protocol.fetch import (
    ANSWER_END,
    API_KEY,
    FIRST_FLEXIBLE,
    FetchPartition,
    FetchRequest,
    PartitionFetched,
    encode,
    parse,
)
from protocol.kernels import encode_single_fetch, find_single_fetch

if TYPE_CHECKING:
    from broker.answers import Answer, Waiting
    from broker.connection import Connection
    from broker.context import Rooms
    from broker.fetch_sessions import FetchPlan, TopicKey
    from protocol.parts import Parts
    from storage.log import Log

_FIRST_BY_ID = 13
_FIRST_WITH_LEADER = 16
_ISOLATION_LEVELS = frozenset({0, READ_COMMITTED})
# Of these Kafka writes a list of aborted transactions that is empty, of all others none.
_NOT_HERE = frozenset({UnknownTopicOrPartition.code.value, UnknownTopicId.code.value})
_LEADER_ERRORS = frozenset({FencedLeaderEpoch.code.value, NotLeaderOrFollower.code.value})


def handle(
    connection: Connection,
    version: int,
    correlation_id: int,
    buffer: memoryview,
    position: int,
    end: int,
) -> Answer | Waiting:
    """Answer at once when there is enough to send, else return a coroutine that waits.

    What nearly every request is, one partition with data and no session, goes the short way, which
    changes nothing before that is sure.
    """
    answer = _fetch_single(connection.rooms, version, correlation_id, buffer, position, end)
    if answer is not None:
        return answer
    return _fetch_all(connection, version, correlation_id, buffer, position, end)


def _fetch_single(  # noqa: PLR0911  # one return for each thing that is not as it mostly is
    rooms: Rooms,
    version: int,
    correlation_id: int,
    buffer: memoryview,
    position: int,
    end: int,
) -> Answer:
    """Answer for one partition; None: there is not enough to send, or something is unusual."""
    if version < FIRST_FLEXIBLE:
        return None
    single = find_single_fetch(buffer, position, end, version)
    if single is None:
        return None
    key, index, epoch, offset, limit, most, fewest, isolation, session_id, session_epoch = single
    log = rooms.topics.get_log(key, index)
    if log is None or session_id or session_epoch != FINAL_EPOCH:
        return None
    if epoch >= 0 and epoch != log.leader_epoch:
        return None
    high_watermark = log.high_watermark
    stable_offset = log.last_stable_offset
    is_committed = isolation == READ_COMMITTED
    most = min(most, rooms.settings.server.fetch_max_bytes)
    try:
        read = log.read(offset, min(limit, most), stable_offset if is_committed else high_watermark)
    except KafkaError:
        return None
    if read is None or read.slice.size < min(fewest, most):
        return None
    if is_committed and log.aborted_transactions(offset, read.next_offset):
        return None
    part = read.slice
    log.bytes_out += part.size
    head = encode_single_fetch(
        correlation_id, 0, key, index, high_watermark, stable_offset, log.log_start_offset,
        is_committed, part.size,
    )  # fmt: skip
    return [head, part, ANSWER_END]


def _fetch_all(
    connection: Connection,
    version: int,
    correlation_id: int,
    buffer: memoryview,
    position: int,
    end: int,
) -> Answer | Waiting:
    """Serve any request, partition by partition."""
    request = parse(version, buffer, position, end)
    try:
        plan = connection.rooms.sessions.plan(request, by_id=version >= _FIRST_BY_ID)
    except KafkaError as error:
        return encode(version, correlation_id, error.code.value, 0, [])
    fetch = _Fetch(connection, version, correlation_id, request, plan)
    if request.isolation_level not in _ISOLATION_LEVELS and fetch.is_of_somebody:
        return _refuse_all(connection, version, correlation_id, request)
    size, answer_now = fetch.read()
    if answer_now or size >= fetch.min_bytes or request.max_wait_ms <= 0 or plan.is_empty:
        return fetch.encode()
    return fetch.wait()


def _refuse_all(
    connection: Connection, version: int, correlation_id: int, request: FetchRequest
) -> Parts:
    """Answer an isolation level that does not exist; the partitions have the code until v12."""
    code = UnknownServerError.code.value
    connection.listener.dispatcher.stats.by_key[API_KEY].failed(code)
    topics = [
        (key, [PartitionFetched(each.partition, code, -1, -1, -1, [], b"") for each in partitions])
        for key, partitions in request.topics
        if version < _FIRST_BY_ID
    ]
    return encode(version, correlation_id, code, request.session_id, topics)


class _Fetch:
    """One request while it is served: read once, or wait and read again."""

    __slots__ = (
        "connection",
        "correlation_id",
        "fetched",
        "max_bytes",
        "min_bytes",
        "plan",
        "request",
        "rooms",
        "version",
    )

    def __init__(
        self,
        connection: Connection,
        version: int,
        correlation_id: int,
        request: FetchRequest,
        plan: FetchPlan,
    ) -> None:
        self.connection = connection
        self.rooms: Rooms = connection.rooms
        self.version = version
        self.correlation_id = correlation_id
        self.request = request
        self.plan = plan
        self.max_bytes = min(request.max_bytes, self.rooms.settings.server.fetch_max_bytes)
        self.min_bytes = min(request.min_bytes, self.max_bytes)
        self.fetched: list[tuple[TopicKey, PartitionFetched]] = []

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
        remaining = self.max_bytes
        total = 0
        urgent = False
        fetched: list[tuple[TopicKey, PartitionFetched]] = []
        for number, (key, wanted) in enumerate(self.plan.partitions):
            if before and self._is_unchanged(key, wanted, before[number][1]):
                fetched.append(before[number])
                continue
            limit = min(wanted.max_bytes, remaining)
            try:
                result = self._read_partition(key, wanted, limit, at_least_one=not total)
            except KafkaError as error:
                result = self._refuse(key, wanted, error)
                urgent = True
            else:
                if result.diverging is not None:
                    urgent = True
            size = len(result.records)
            total += size
            remaining = remaining - size if remaining > size else 0
            fetched.append((key, result))
        self.fetched = fetched
        return total, urgent

    async def wait(self) -> Answer:
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
            return encode(self.version, self.correlation_id, error.code.value, session_id, [])
        self.read()
        return self.encode()

    def encode(self) -> Answer:
        """Close the books of the session and write the frame."""
        session_id, named = self.rooms.sessions.conclude(self.plan, self.fetched)
        topics: list[tuple[TopicKey, list[PartitionFetched]]] = []
        for key, result in named:
            if topics and topics[-1][0] == key:
                topics[-1][1].append(result)
            else:
                topics.append((key, [result]))
        node = None
        if self.version >= _FIRST_WITH_LEADER and any(
            result.error_code in _LEADER_ERRORS for _, result in named
        ):
            host, port = self.rooms.advertised[self.connection.listener.name]
            node = (self.rooms.identity.node_id, host, port)
        parts = encode(self.version, self.correlation_id, 0, session_id, topics, node=node)
        # Bytes go out with the answers beside them; parts are a send of their own.
        return parts[0] if len(parts) == 1 and isinstance(parts[0], bytes) else parts

    def _is_unchanged(
        self, key: TopicKey, wanted: FetchPartition, fetched: PartitionFetched
    ) -> bool:
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
    ) -> PartitionFetched:
        log = self.rooms.topics.find_log(key, wanted.partition)
        if self.request.replica_id >= 0:
            raise NotLeaderOrFollower
        epoch = wanted.current_leader_epoch
        if epoch >= 0 and epoch != log.leader_epoch:
            raise FencedLeaderEpoch if epoch < log.leader_epoch else UnknownLeaderEpoch
        offset = wanted.fetch_offset
        high_watermark = log.high_watermark
        stable_offset = log.last_stable_offset
        if wanted.last_fetched_epoch >= 0:
            diverging = _find_divergence(log, wanted)
            if diverging is not None:
                return PartitionFetched(
                    wanted.partition,
                    0,
                    high_watermark,
                    stable_offset,
                    log.log_start_offset,
                    None,
                    b"",
                    diverging,
                )
        committed = self.request.isolation_level == READ_COMMITTED
        upto = stable_offset if committed else high_watermark
        read = log.read(offset, limit, upto, at_least_one=at_least_one)
        if read is None:
            return PartitionFetched(
                wanted.partition,
                0,
                high_watermark,
                stable_offset,
                log.log_start_offset,
                [] if committed else None,
                b"",
            )
        if limit < 0:
            raise UnknownServerError(f"at most {limit} bytes can not be read; ask for 0 or more")
        log.bytes_out += read.slice.size
        return PartitionFetched(
            wanted.partition,
            0,
            high_watermark,
            stable_offset,
            log.log_start_offset,
            log.aborted_transactions(offset, read.next_offset) if committed else None,
            read.slice,
        )

    def _refuse(self, key: TopicKey, wanted: FetchPartition, error: KafkaError) -> PartitionFetched:
        code = error.code.value
        self.connection.listener.dispatcher.stats.by_key[API_KEY].failed(code)
        leader = None
        if code in _LEADER_ERRORS and self.version >= _FIRST_WITH_LEADER:
            log = self.rooms.topics.find_log(key, wanted.partition)
            leader = (self.rooms.identity.node_id, log.leader_epoch)
        return PartitionFetched(
            wanted.partition,
            code,
            -1,
            -1,
            -1,
            [] if code in _NOT_HERE else None,
            b"",
            current_leader=leader,
        )


def _find_divergence(log: Log, wanted: FetchPartition) -> tuple[int, int] | None:
    """Return (epoch, end offset) where the client's log and ours part, or None (KIP-595).

    Raises:
        OffsetOutOfRange: We do not know that epoch, or the offset is below the log's start.
    """
    epoch, end_offset = log.end_offset_for_epoch(wanted.last_fetched_epoch)
    if epoch < 0 or end_offset < 0 or wanted.fetch_offset < log.log_start_offset:
        raise OffsetOutOfRange
    if epoch < wanted.last_fetched_epoch or end_offset < wanted.fetch_offset:
        return epoch, end_offset
    return None

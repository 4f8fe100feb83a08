"""Produce (0), versions 3-13: one batch per partition, validated, stamped and appended.

v3 record batches only (KIP-98) · v5 log start offset · v7 zstd (KIP-110) · v8 record errors
(KIP-467) · v9 compact encoding · v10 current leader (KIP-951) · v12 transactions without a second
request (KIP-890) · v13 topic ids (KIP-516). acks=0 is answered by nothing, and by closing the
connection when a partition fails.

Differs from Kafka: a compressed batch is opened only where a rule needs its records
([0002](decisions/0002-compressed-batches-stay-closed.md)), so that one with a wrong content or a
wrong max timestamp is stored, and a timestamp out of bounds is told of its first record alone; a
batch that cannot be opened is CORRUPT_MESSAGE and a codec that nobody knows INVALID_RECORD, where
Kafka says UNKNOWN_SERVER_ERROR; a partition without records is refused, where Kafka never answers.

The append is a write to the page cache and runs on the loop: a hop to a thread costs more than the
write. Large compressed batches that a rule wants opened, and fsyncs, do hop.
"""

from __future__ import annotations

from collections.abc import Coroutine
from typing import TYPE_CHECKING, Any

from siltstone.broker.handlers._produce_kernels import (
    AT_ONCE,
    PlainProduce,
    append_all,
    count_once,
    is_transactional,
    may_be_plain,
)
from siltstone.broker.handlers.authorized import split_many, split_topics, weave
from siltstone.broker.net._dispatch_kernels import AT_ONCE as READ_AT_ONCE
from siltstone.broker.process.loop_share import LoopShare, finish, finish_in_shares
from siltstone.broker.security.rights import TRANSACTIONAL_ID, WRITE
from siltstone.protocol.errors import (
    CorruptMessage,
    InvalidRequiredAcks,
    InvalidTopic,
    KafkaError,
    KafkaStorageError,
    ProtocolError,
    RecordListTooLarge,
    RecordTooLarge,
    TopicAuthorizationFailed,
    TransactionalIdAuthorizationFailed,
    UnknownTopicOrPartition,
)
from siltstone.protocol.messages.produce import (
    LeaderIdAndEpoch,
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceResponse,
    TopicProduceData,
    TopicProduceResponse,
)
from siltstone.protocol.names import INTERNAL_TOPICS
from siltstone.protocol.records.batch import ATTRIBUTES_POSITION, CODEC_MASK, TRANSACTIONAL
from siltstone.protocol.records.compression import MAX_RATIO
from siltstone.protocol.topic_key import FIRST_WITH_TOPIC_ID
from siltstone.storage.appending.validation import check_records, must_open, validate

if TYPE_CHECKING:
    from collections.abc import Generator, Mapping, Sequence

    from siltstone.broker.net._dispatch_kernels import RequestContext
    from siltstone.broker.transactions.producing import TransactionalProduce
    from siltstone.protocol.messages.produce import ProduceRequest
    from siltstone.protocol.topic_key import TopicKey
    from siltstone.storage.appending.values import ValidatedBatch
    from siltstone.storage.log.log import Log

__all__ = ["go_on", "handle", "judge"]

_PRODUCE = 0
_ACKS = frozenset({-1, 0, 1})
_WITHOUT_LOG_START = (CorruptMessage, KafkaStorageError, RecordListTooLarge, RecordTooLarge)
# Kafka counts as failures of its own what is none of these (ReplicaManager.appendRecordsToLeader).
_NOT_A_FAILURE = (
    CorruptMessage,
    KafkaStorageError,
    RecordListTooLarge,
    RecordTooLarge,
    UnknownTopicOrPartition,
)
_ADMIN_CLIENT = "__admin_client"
_CODEC_POSITION = ATTRIBUTES_POSITION + 1
# A batch that can unfold to more is opened on a thread: the hop there and back costs less, and 2 KB
# of hostile zstd held the loop for 47 ms. Then, by codec, the size that it may have as it is.
_UNFOLDED_INLINE_BYTES = 256 * 1024
_OPEN_INLINE_BYTES = (
    4 * 1024,
    *(_UNFOLDED_INLINE_BYTES // ratio for ratio in MAX_RATIO[1:]),
    *(4 * 1024,) * 3,
)
_NO_LEADER = LeaderIdAndEpoch()
# Where they stand in TopicProduceData.
_NAME = 0
_TOPIC_ID = 1
# Where they stand in PartitionProduceResponse.
_INDEX = 0
_ERROR_CODE = 1


def go_on(
    context: RequestContext,
    request: ProduceRequest,
    produced: list[Any],
    unflushed: list[Log],
    error: KafkaError | None,
) -> ProduceResponse | Coroutine[Any, Any, ProduceResponse | None] | None:
    """Go on from the first partition without an answer, rule by rule where one is not plain.

    ``produced`` has for each topic its name, its id and the answers for its partitions, as the
    fields of TopicProduceResponse and PartitionProduceResponse; ``unflushed`` the logs that must be
    flushed before the answer. ``error`` says that the first partition without an answer failed.
    """
    return _Produce(context, request, produced, unflushed).go_on(error)


def judge(
    context: RequestContext, request: ProduceRequest
) -> ProduceResponse | Coroutine[Any, Any, ProduceResponse | None] | None:
    """Append what the client may, and refuse the rest beside it.

    A transactional batch needs the right to its transaction, too.

    Raises:
        ProtocolError: acks=0 and nothing may be appended.
    """
    topics = request.topic_data
    if is_transactional(topics):
        name = request.transactional_id
        if name is None or not context.may(WRITE, TRANSACTIONAL_ID, name):
            if request.acks == 0:
                raise _closing(TransactionalIdAuthorizationFailed)
            refusal = TransactionalIdAuthorizationFailed()
            return ProduceResponse([_refuse_topic(each, refusal) for each in topics])
    by_id = context.version >= FIRST_WITH_TOPIC_ID
    if 2 * len(topics) > READ_AT_ONCE:  # so the frame is not others' meanwhile
        return _judge_many(context, request, by_id=by_id)
    return _append_some(context, request, *split_topics(context, WRITE, topics, by_id=by_id))


async def _judge_many(
    context: RequestContext, request: ProduceRequest, *, by_id: bool
) -> ProduceResponse | None:
    split = await split_many(context, WRITE, request.topic_data, by_id=by_id)
    answer = _append_some(context, request, *split)
    return await answer if isinstance(answer, Coroutine) else answer


def _append_some(
    context: RequestContext,
    request: ProduceRequest,
    topics: Sequence[TopicProduceData],
    refused: Mapping[int, TopicProduceData],
) -> ProduceResponse | Coroutine[Any, Any, ProduceResponse | None] | None:
    if not refused:
        return _plain.append(context, request)
    refusal = TopicAuthorizationFailed()
    rows = {place: _refuse_topic(each, refusal) for place, each in refused.items()}
    if topics:
        answer = _plain.append(context, request._replace(topic_data=topics))
        return _append_beside(request, answer, rows)
    if request.acks == 0:
        raise _closing(TopicAuthorizationFailed)
    return ProduceResponse(list(rows.values()))


async def _append_beside(
    request: ProduceRequest,
    answer: ProduceResponse | Coroutine[Any, Any, ProduceResponse | None] | None,
    refused: Mapping[int, TopicProduceResponse],
) -> ProduceResponse:
    """Answer what is appended beside what is refused.

    Raises:
        ProtocolError: acks=0: closing the connection is the only way to refuse something.
    """
    if isinstance(answer, Coroutine):
        answer = await answer
    if answer is None:
        raise _closing(TopicAuthorizationFailed)
    return ProduceResponse(weave(answer[0], refused, len(request.topic_data)))


def _refuse_topic(topic: TopicProduceData, refusal: KafkaError) -> TopicProduceResponse:
    code, message = refusal.code.value, refusal.message
    return TopicProduceResponse(
        topic.name,
        topic.topic_id,
        [
            PartitionProduceResponse(each[0], code, base_offset=-1, error_message=message)
            for each in topic.partition_data
        ],
    )


def _closing(error: type[KafkaError]) -> ProtocolError:
    return ProtocolError(f"acks=0 and the request failed with {error.code.name.upper()}")


_plain = PlainProduce(go_on, judge)
handle = _plain.handle


class _Produce:
    """A request that the compiled part does not serve, while it is served."""

    __slots__ = (
        "by_id",
        "context",
        "is_gathered",
        "now_ms",
        "produced",
        "request",
        "rooms",
        "transaction",
        "unflushed",
    )

    def __init__(
        self,
        context: RequestContext,
        request: ProduceRequest,
        produced: list[Any],
        unflushed: list[Log],
    ) -> None:
        self.context = context
        self.rooms = context.rooms
        self.request = request
        self.by_id = context.version >= FIRST_WITH_TOPIC_ID
        self.is_gathered = False
        self.now_ms = context.rooms.clock.now_ms()
        self.produced = produced
        self.unflushed = unflushed
        self.transaction: TransactionalProduce | None = None

    def go_on(
        self, error: KafkaError | None
    ) -> ProduceResponse | Coroutine[Any, Any, ProduceResponse | None] | None:
        """Append from the first partition without an answer on; ``error`` says that it failed."""
        topics = self.request.topic_data
        count = count_once(topics, _TOPIC_ID if self.by_id else _NAME)
        self.is_gathered = count < 0
        if sum(len(topic.partition_data) for topic in topics) > READ_AT_ONCE:
            return self.append_large()
        if self.is_gathered:
            topics = finish(gather(topics, self.context.version))
        if self.by_id:
            topics = self.rooms.topics.name_all(topics)
        if count < 0 or count > AT_ONCE:
            return self.append_rest(topics)
        is_plain = may_be_plain(self.request.acks, self.context.version)
        logs = self.rooms.topics.logs if is_plain else {}
        while True:
            try:
                if error is None and append_all(
                    logs, topics, self.now_ms, self.produced, self.unflushed
                ):
                    return self._flush() if self.unflushed else self._answer()
            except KafkaError as refusal:
                error = refusal
            if not self.append_next(topics, error):
                return self.append_rest(topics)
            error = None

    async def append_large(self) -> ProduceResponse | None:
        """Append all; so many were read in steps, and the frame is not others' meanwhile."""
        topics: Any = self.request.topic_data
        if self.is_gathered:
            topics = await finish_in_shares(gather(topics, self.context.version))
        self.produced.append((topics[0].name, topics[0].topic_id, []))
        return await self._append_slowly(topics)

    def append_next(self, topics: Sequence[TopicProduceData], error: KafkaError | None) -> bool:
        """Append the batch of the first partition without an answer; ``error`` says that it failed.

        Returns:
            False: nothing was done, since a codec must open it first.
        """
        name, topic_id, rows = self.produced[-1]
        index, records = topics[len(self.produced) - 1].partition_data[len(rows)]
        row = None
        try:
            if error is not None:
                raise error
            row = self._append_one(topic_id if self.by_id else name, index, records)
        except KafkaError as refusal:
            row = self.refuse(index, refusal)
        if row is not None:
            rows.append(row)
        return row is not None

    def _append_one(self, key: TopicKey, index: int, records: Any) -> Any:
        """Judge a batch rule by rule, and append it.

        Raises:
            KafkaError: Nothing is known of the partition, or nothing may be appended to it.
        """
        log = self.rooms.topics.find_log(key, index)
        whole = self._check(log, records)
        max_bytes = _OPEN_INLINE_BYTES[whole[_CODEC_POSITION] & CODEC_MASK]
        if len(whole) > max_bytes and must_open(whole, log.config):
            return None
        try:
            batch = log.end.rules.take(whole, self.now_ms)
            if batch is None:
                batch = validate(whole, log.config, self.now_ms)
        except KafkaError as error:
            return self.refuse(index, error, log)
        return self._store(log, index, batch)

    def _check(self, log: Log, records: Any) -> memoryview:
        """Refuse what needs no look into the records; return the one batch that they are."""
        whole = check_records(records, self.context.version)
        if self.request.acks not in _ACKS:
            raise InvalidRequiredAcks
        topic = log.topic_partition.topic
        if topic in INTERNAL_TOPICS and self.context.client_id != _ADMIN_CLIENT:
            raise InvalidTopic(f"{topic} is internal; clients may not produce to it")
        return whole

    def _store(self, log: Log, index: int, batch: ValidatedBatch) -> Any:
        """Append; return the partition's answer."""
        transaction = self._admit(log, batch) if batch.attributes & TRANSACTIONAL else None
        try:
            if transaction is not None:
                transaction.check_first(log, batch)
            result = log.end.append(log, batch)
            base_offset, _, append_time_ms, start_offset, _, is_flush_due = result
        except KafkaError as error:
            return self.refuse(index, error, log)
        if is_flush_due and log not in self.unflushed:
            self.unflushed.append(log)
        return index, 0, base_offset, append_time_ms, start_offset, (), None, _NO_LEADER

    def _admit(self, log: Log, batch: ValidatedBatch) -> TransactionalProduce:
        """Hold a transactional batch against its transaction."""
        if self.transaction is None:
            # Most clients have none: its modules are not to hold up the first ack.
            from siltstone.broker.transactions.producing import TransactionalProduce  # noqa: PLC0415

            self.transaction = TransactionalProduce(
                self.rooms.transactions(), self.rooms.topics, self.request, self.context.version
            )
        self.transaction.admit(log, batch)
        return self.transaction

    def refuse(
        self, index: int, error: KafkaError, log: Log | None = None
    ) -> PartitionProduceResponse:
        """Return the answer for a partition that was not appended, and count it.

        ``log`` is the one that did not take the batch, if it came as far.
        """
        is_told = log is not None and not isinstance(error, _WITHOUT_LOG_START)
        self.context.stats.refused_batch(error)
        if log is not None and not isinstance(error, _NOT_A_FAILURE):
            topic = self.rooms.topics.topics.get(log.topic_partition.topic)
            if topic is not None:
                topic.failed_produces += 1
        return PartitionProduceResponse(
            index,
            error.code.value,
            base_offset=-1,
            log_start_offset=log.log_start_offset if log is not None and is_told else -1,
            record_errors=list(error.record_errors),  # type: ignore[arg-type]  # bare tuples
            error_message=error.message,
        )

    def append_rest(
        self, topics: Sequence[TopicProduceData]
    ) -> Coroutine[Any, Any, ProduceResponse | None]:
        """Go on from the first partition without an answer, opening large batches on threads.

        The records are copied out of the receive buffer first, which others use meanwhile.
        """
        if not self.produced and topics:
            self.produced.append((topics[0].name, topics[0].topic_id, []))
        place = len(self.produced[-1][2]) if self.produced else 0
        rest = []
        for name, topic_id, partitions in topics[max(len(self.produced) - 1, 0) :]:
            kept = [
                (index, None if records is None else memoryview(bytearray(records)))  # type: ignore[arg-type]
                for index, records in partitions[place:]
            ]
            rest.append((name, topic_id, kept))
            place = 0
        return self._append_slowly(rest)

    async def _append_slowly(
        self, topics: list[tuple[str, bytes, list[tuple[int, memoryview | None]]]]
    ) -> ProduceResponse | None:
        """Append on the loop; open what is large on threads, where codecs release the GIL."""
        share = LoopShare()
        for number, (name, topic_id, partitions) in enumerate(topics):
            key = topic_id if self.by_id else name
            if number:
                self.produced.append((name, topic_id, []))
            rows = self.produced[-1][2]
            for index, records in partitions:
                await share.rest()
                try:
                    row = self._append_one(key, index, records)
                    if row is None:
                        log = self.rooms.topics.find_log(key, index)
                        whole = self._check(log, records)
                        row = await self._store_slowly(log, key, index, whole)
                except KafkaError as error:
                    row = self.refuse(index, error)
                rows.append(row)
        return await self._flush()

    async def _store_slowly(self, log: Log, key: TopicKey, index: int, whole: memoryview) -> Any:
        try:
            batch = await self.rooms.io.unpack(validate, whole, log.config, self.now_ms)
        except KafkaError as error:
            return self.refuse(index, error, log)
        # The topic may have gone, or come back as another, in the meantime.
        if self.rooms.topics.find_log(key, index) is not log:
            raise UnknownTopicOrPartition
        return self._store(log, index, batch)

    async def _flush(self) -> ProduceResponse | None:
        """Wait for the fsyncs that ``flush.messages`` asks for before answering."""
        for log in self.unflushed:
            try:
                await self.rooms.io.run(log.flush)
            except KafkaError as error:
                self._refuse_log(log, error)
        return self._answer()

    def _refuse_log(self, log: Log, error: KafkaError) -> None:
        """A failed fsync: nothing of that log was made durable, so nothing is acknowledged."""
        topic, partition = log.topic_partition
        for name, topic_id, rows in self.produced:
            if (topic_id != log.topic_id.bytes) if self.by_id else (name != topic):
                continue
            for place, row in enumerate(rows):
                if row[_INDEX] == partition and not row[_ERROR_CODE]:
                    rows[place] = self.refuse(partition, error)

    def _answer(self) -> ProduceResponse | None:
        """Return the response; nothing for acks=0.

        Raises:
            ProtocolError: acks=0 and a partition failed: closing is the only signal there is.
        """
        if self.is_gathered:
            self.produced = [(*topic, last_of_each(rows)) for *topic, rows in self.produced]
        if self.request.acks == 0:
            self._check_all()
            return None
        return ProduceResponse(self.produced)

    def _check_all(self) -> None:
        """Raise the first failure of a request that is answered by nothing; count them all."""
        failed = [
            (row, topic_id.hex() if self.by_id else name)
            for name, topic_id, rows in self.produced
            for row in rows
            if row[_ERROR_CODE]
        ]
        for row, _ in failed:
            self.context.stats.by_key[_PRODUCE].failed(row[_ERROR_CODE])
        if failed:
            row, topic = failed[0]
            raise ProtocolError(
                f"acks=0 and partition {row[_INDEX]} of {topic} failed with "
                f"error {row[_ERROR_CODE]}"
            )


def gather(
    topics: Sequence[TopicProduceData], version: int
) -> Generator[None, None, list[TopicProduceData]]:
    """Return each topic once, with the last records of a partition that are and that are no batch.

    It does so in steps. The latter come second, so that the last result of a partition is its
    answer.
    """
    gathered: dict[tuple[str, bytes], dict[int, dict[bool, Any]]] = {}
    for name, topic_id, partitions in topics:
        for index, records in partitions:
            last = gathered.setdefault((name, topic_id), {}).setdefault(index, {})
            last[_is_no_batch(records, version)] = PartitionProduceData(index, records)
            yield
    return [
        TopicProduceData(
            *key, [last[is_none] for last in each.values() for is_none in sorted(last)]
        )
        for key, each in gathered.items()
    ]


def last_of_each(rows: list[Any]) -> list[Any]:
    """Return one answer for each partition, whose index comes first in it."""
    return list({row[0]: row for row in rows}.values())


def _is_no_batch(records: Any, version: int) -> bool:
    if not records:
        return True
    try:
        check_records(records, version)
    except KafkaError:
        return True
    return False

"""Produce (0), versions 3-13: one batch per partition, validated, stamped and appended.

v3 record batches only (KIP-98) · v5 log start offset · v7 zstd (KIP-110) · v8 record errors
(KIP-467) · v9 compact encoding · v10 current leader (KIP-951) · v12 transactions without a second
request (KIP-890) · v13 topic ids (KIP-516). acks=0 is answered by nothing, and by closing the
connection when a partition fails.

The append is a write to the page cache and runs on the loop: a hop to a thread costs more than the
write. Large compressed batches that a rule wants opened, and fsyncs, do hop.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from broker.handlers.repeated_partitions import gather, is_each_once, last_of_each
from broker.loop_share import LoopShare
from protocol.errors import (
    CorruptMessage,
    InvalidRequiredAcks,
    InvalidTopic,
    KafkaError,
    KafkaStorageError,
    ProtocolError,
    RecordListTooLarge,
    RecordTooLarge,
    UnknownTopicOrPartition,
)
from protocol.messages.produce import (
    LeaderIdAndEpoch,
    PartitionProduceResponse,
    ProduceResponse,
)
from protocol.names import INTERNAL_TOPICS
from protocol.records.batch import ATTRIBUTES_POSITION, CODEC_MASK
from protocol.records.compression import MAX_RATIO
from protocol.topic_key import FIRST_WITH_TOPIC_ID
from storage.validation import check_records, must_open, validate

if TYPE_CHECKING:
    from collections.abc import Coroutine, Sequence

    from broker.context import RequestContext
    from broker.transactions.producing import TransactionalProduce
    from protocol.messages.produce import ProduceRequest, TopicProduceData
    from protocol.topic_key import TopicKey
    from storage.append_values import ValidatedBatch
    from storage.log import Log

_PRODUCE = 0
_ACKS = frozenset({-1, 0, 1})
_WITHOUT_LOG_START = (CorruptMessage, KafkaStorageError, RecordListTooLarge, RecordTooLarge)
_FIRST_WITH_ZSTD = 7
_ADMIN_CLIENT = "__admin_client"
_TRANSACTIONAL = 0x10
_CODEC_POSITION = ATTRIBUTES_POSITION + 1
# A batch that can unfold to more is opened on a thread: the hop there and back costs less, and 2 KB
# of hostile zstd held the loop for 47 ms. Then, by codec, the size that it may have as it is.
_UNFOLDED_INLINE_BYTES = 256 * 1024
_OPEN_INLINE_BYTES = (
    4 * 1024,
    *(_UNFOLDED_INLINE_BYTES // ratio for ratio in MAX_RATIO[1:]),
    *(4 * 1024,) * 3,
)
_AT_ONCE = 500
"""Of a request with more partitions others are served in between."""
_NO_LEADER = LeaderIdAndEpoch()
_REST_OF_RESPONSE = ProduceResponse()[1:]
# Where they stand in PartitionProduceResponse.
_INDEX = 0
_ERROR_CODE = 1


def handle(
    context: RequestContext, request: ProduceRequest
) -> ProduceResponse | Coroutine[Any, Any, ProduceResponse | None] | None:
    """Append inline and answer; return a coroutine if a batch must be opened or flushed first.

    Nearly every batch breaks no rule and is stored as it came: `PlainRules` knows it from its
    bytes. All others are left to `_Produce`, which is made by the first of them.
    """
    topics = request.topic_data
    if len(topics) == 1 and len(topics[0].partition_data) == 1:
        return _append_all(context, request, topics)
    is_gathered = not is_each_once(topics, by_id=context.version >= FIRST_WITH_TOPIC_ID)
    if is_gathered:
        topics = gather(topics, context.version)
    if (is_gathered and topics) or _count(topics) > _AT_ONCE:
        others = _Produce(context, request, [], context.rooms.clock.now_ms())
        others.is_gathered = is_gathered
        return others.append_in_shares(topics)
    return _append_all(context, request, topics)


def _count(topics: Sequence[TopicProduceData]) -> int:
    count = 0
    for topic in topics:
        count += len(topic[2])
    return count


def _append_all(
    context: RequestContext, request: ProduceRequest, topics: Sequence[TopicProduceData]
) -> ProduceResponse | Coroutine[Any, Any, ProduceResponse | None] | None:
    rooms = context.rooms
    now_ms = rooms.clock.now_ms()
    get_log = rooms.topics.get_log
    by_id = context.version >= FIRST_WITH_TOPIC_ID
    may_be_plain = request.acks in _ACKS and context.version >= _FIRST_WITH_ZSTD
    others: _Produce | None = None
    produced: list[Any] = []
    for number, (name, topic_id, partitions) in enumerate(topics):
        key = topic_id if by_id else name
        rows: list[Any] = []
        produced.append((name, topic_id, rows))
        for place, (index, records) in enumerate(partitions):
            log = get_log(key, index) if may_be_plain else None
            if log is not None and records and log.topic_partition.topic not in INTERNAL_TOPICS:
                batch = log.rules.take(records, now_ms)  # type: ignore[arg-type]  # a view
                if batch is not None and not batch.attributes & _TRANSACTIONAL:
                    try:
                        base, _, append_ms, start, _, is_flush_due = log.append(batch)
                    except KafkaError as error:
                        others = others or _Produce(context, request, produced, now_ms)
                        rows.append(others.refuse(index, error, log))
                        continue
                    rows.append((index, 0, base, append_ms, start, (), None, _NO_LEADER))
                    if is_flush_due:
                        others = others or _Produce(context, request, produced, now_ms)
                        others.flush_later(log)
                    continue
            others = others or _Produce(context, request, produced, now_ms)
            row = others.append(key, index, records)
            if row is None:
                return others.append_rest(topics[number:], place)
            rows.append(row)
    if others is None:
        return (produced, *_REST_OF_RESPONSE) if request.acks else None  # type: ignore[return-value]
    return others.finish()


class _Produce:
    """A request that is not like nearly all, while it is served.

    ``produced`` has for each topic its name, its id and the answers for its partitions, as the
    fields of TopicProduceResponse and PartitionProduceResponse.
    """

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
        now_ms: int,
    ) -> None:
        self.context = context
        self.rooms = context.rooms
        self.request = request
        self.by_id = context.version >= FIRST_WITH_TOPIC_ID
        self.is_gathered = False
        self.now_ms = now_ms
        self.produced = produced
        self.unflushed: list[Log] = []
        self.transaction: TransactionalProduce | None = None

    def finish(self) -> ProduceResponse | Coroutine[Any, Any, ProduceResponse | None] | None:
        """Answer, or return what answers when the fsyncs are done that are due."""
        return self._flush() if self.unflushed else self._answer()

    def flush_later(self, log: Log) -> None:
        """Have the answer wait for an fsync of the log."""
        if log not in self.unflushed:
            self.unflushed.append(log)

    def append_in_shares(
        self, topics: Sequence[TopicProduceData]
    ) -> Coroutine[Any, Any, ProduceResponse | None]:
        """Append as `append` does, and let others be served in between."""
        name, topic_id, _ = topics[0]
        self.produced.append((name, topic_id, []))
        return self.append_rest(topics, 0)

    def append(self, key: TopicKey, index: int, records: Any) -> Any:
        """Append a partition's batch; return its answer, or None if a codec must open it first."""
        try:
            return self._append_one(key, index, records)
        except KafkaError as error:
            return self.refuse(index, error)

    def _append_one(self, key: TopicKey, index: int, records: Any) -> Any:
        """Judge a batch rule by rule, and append it.

        Raises:
            KafkaError: Nothing is known of the partition, or nothing may be appended to it.
        """
        log = self.rooms.topics.find_log(key, index)
        whole = self._check(log, records)
        most = _OPEN_INLINE_BYTES[whole[_CODEC_POSITION] & CODEC_MASK]
        if len(whole) > most and must_open(whole, log.config):
            return None
        try:
            batch = log.rules.take(whole, self.now_ms)
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
        transaction = self._admit(log, batch) if batch.attributes & _TRANSACTIONAL else None
        try:
            if transaction is not None:
                transaction.check_first(log, batch)
            base_offset, _, append_time_ms, start_offset, _, is_flush_due = log.append(batch)
        except KafkaError as error:
            return self.refuse(index, error, log)
        if is_flush_due:
            self.flush_later(log)
        return index, 0, base_offset, append_time_ms, start_offset, (), None, _NO_LEADER

    def _admit(self, log: Log, batch: ValidatedBatch) -> TransactionalProduce:
        """Hold a transactional batch against its transaction."""
        if self.transaction is None:
            # Most clients have none: its modules are not to hold up the first ack.
            from broker.transactions.producing import TransactionalProduce  # noqa: PLC0415

            self.transaction = TransactionalProduce(
                self.rooms.transactions, self.rooms.topics, self.request, self.context.version
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
        return PartitionProduceResponse(
            index,
            error.code.value,
            base_offset=-1,
            log_start_offset=log.log_start_offset if log is not None and is_told else -1,
            record_errors=list(error.record_errors),  # type: ignore[arg-type]  # bare tuples
            error_message=error.message,
        )

    def append_rest(
        self, topics: Sequence[TopicProduceData], place: int
    ) -> Coroutine[Any, Any, ProduceResponse | None]:
        """Go on from a partition of the first of ``topics``, opening large batches on threads.

        The records are copied out of the receive buffer first, which others use meanwhile.
        """
        rest = []
        for name, topic_id, partitions in topics:
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

"""Produce (0), versions 3-13: one batch per partition, validated, stamped and appended.

v3 record batches only (KIP-98) · v5 log start offset · v7 zstd (KIP-110) · v8 record errors
(KIP-467) · v9 compact encoding · v10 current leader (KIP-951) · v12 transactions without a second
request (KIP-890) · v13 topic ids (KIP-516). acks=0 gets no answer; the connection is closed if a
partition fails.

Differs from Kafka: a compressed batch is opened only where a rule needs its records
([0002](decisions/0002-compressed-batches-stay-closed.md)), so a batch with wrong records or a wrong
max timestamp is stored, and of timestamps out of bounds only the first record's is reported; a
batch that cannot be opened is answered CORRUPT_MESSAGE, and an unknown codec INVALID_RECORD, where
Kafka answers UNKNOWN_SERVER_ERROR; a partition without records is refused, where Kafka never
answers.

The append is a write to the page cache and runs on the loop: a hop to a thread costs more than the
write. Fsyncs, and large compressed batches that must be opened, do run on threads.

A request is served from top to bottom: its version says how partitions are named; each batch is
checked (`Produce._append`), appended (`Produce._store`) and answered with the result (`answer`).
All of that is one call, unless a thread must open a batch first, an fsync is needed, or there are
very many partitions. Cython compiles the module; its C types are in ``produce.pxd``.
"""

from collections.abc import Coroutine
from typing import TYPE_CHECKING, Any

import cython

from siltstone.broker.context import Unwritten
from siltstone.broker.handlers.authorized import split_many, split_topics, weave
from siltstone.broker.process.loop_share import LoopShare
from siltstone.broker.security.rights import TOPIC, TRANSACTIONAL_ID, WRITE
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
from siltstone.protocol.messages import AT_ONCE as READ_AT_ONCE
from siltstone.protocol.messages.produce import (
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceResponse,
    TopicProduceData,
    TopicProduceResponse,
)
from siltstone.protocol.names import INTERNAL_TOPICS
from siltstone.protocol.records.batch import CODEC_MASK
from siltstone.protocol.records.compression import MAX_RATIO
from siltstone.storage.appending.validation import check_records, must_open, validate
from siltstone.storage.producers.checks import Origin

if not cython.compiled:  # for the type checkers: the names that the .pxd has
    from siltstone.protocol.core._format import (
        acquire,
        field_of,
        no_region,
        read_int16,
        release,
    )
    from siltstone.protocol.names import FIRST_WITH_TOPIC_ID
    from siltstone.protocol.records.batch import ATTRIBUTES_POSITION, TRANSACTIONAL
    from siltstone.storage.appending.batch import ValidatedBatch

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from siltstone.broker.services import RequestContext as Context
    from siltstone.broker.transactions.producing import TransactionalProduce
    from siltstone.protocol.messages.produce import ProduceRequest
    from siltstone.protocol.names import TopicKey
    from siltstone.storage.clock import Clock
    from siltstone.storage.log.end import LogEnd
    from siltstone.storage.log.log import Log

    Produced = ProduceResponse | Unwritten | Coroutine[Any, Any, ProduceResponse | None] | None

__all__ = ["handle"]

AT_ONCE = 500
"""If a request has more partitions, others are served in between."""

_PRODUCE = 0
_ACKS = frozenset({-1, 0, 1})
_WITHOUT_LOG_START = (CorruptMessage, KafkaStorageError, RecordListTooLarge, RecordTooLarge)
# Kafka counts all errors but these as its own failures (ReplicaManager.appendRecordsToLeader).
_NOT_A_FAILURE = (
    CorruptMessage,
    KafkaStorageError,
    RecordListTooLarge,
    RecordTooLarge,
    UnknownTopicOrPartition,
)
_ADMIN_CLIENT = "__admin_client"
_CODEC_POSITION = ATTRIBUTES_POSITION + 1
# A batch that can unfold to more bytes is opened on a thread: the hop there and back costs less,
# and 2 KB of hostile zstd held the loop for 47 ms. The second constant is the limit of the
# compressed size, by codec.
_UNFOLDED_INLINE_BYTES = 256 * 1024
_OPEN_INLINE_BYTES = (
    4 * 1024,
    *(_UNFOLDED_INLINE_BYTES // ratio for ratio in MAX_RATIO[1:]),
    *(4 * 1024,) * 3,
)
_CLIENT = Origin.CLIENT
_NO_LEADER = (-1, -1)
_STORED = memoryview(b"")  # in place of the batch's bytes, which are not kept until the answer
# Places of fields in TopicProduceData.
_NAME = 0
_TOPIC_ID = 1
# Places of fields in PartitionProduceResponse.
_INDEX = 0
_ERROR_CODE = 1
# The results of `_append_some`.
_ALL = 0
_SOME = 1
_CLOSED = 2


def handle(context: "Context", request: "ProduceRequest") -> "Produced":
    """Append what the client's rights allow; answer now, or when waiting batches are written."""
    if context.rights is not None and not _may_all(context, request):
        return judge(context, request)
    return _serve(context, request, False)


def _serve(context: "Context", request: "ProduceRequest", is_own: bool) -> "Produced":
    produce = Produce.__new__(Produce)  # __init__ costs as much as a read
    return produce.serve(context, request, is_own)


def _may_all(context: "Context", request: "ProduceRequest") -> bool:
    """Tell whether the client may write all of a request; False if it has many topics."""
    topics = request.topic_data
    if len(topics) > AT_ONCE:
        return False
    if is_transactional(topics):
        transactional_id = request.transactional_id
        if transactional_id is None or not context.sees(WRITE, TRANSACTIONAL_ID, transactional_id):
            return False
    by_id = context.version >= FIRST_WITH_TOPIC_ID
    known = context.services.topics.by_id
    for row in topics:
        name = row.name
        if by_id:
            topic = known.get(row.topic_id)
            if topic is None:
                continue
            name = topic.name
        if not context.sees(WRITE, TOPIC, name):
            return False
    return True


def is_transactional(topics: "Sequence[TopicProduceData]") -> bool:
    """Tell whether a batch of some topics says that it belongs to a transaction."""
    region = no_region()
    found = False
    for row in topics:
        for partition in field_of(row, 2):
            records = field_of(partition, 1)
            if records is not None:
                acquire(records, region)
                found = (
                    region.len >= ATTRIBUTES_POSITION + 2
                    and read_int16(region.buf, ATTRIBUTES_POSITION) & TRANSACTIONAL != 0
                )
                release(region)
                if found:
                    return True
    return found


def judge(context: "Context", request: "ProduceRequest") -> "Produced":
    """Append what the client's rights allow, and refuse the rest.

    A transactional batch also needs the right to its transactional id.

    Raises:
        ProtocolError: acks=0, and the client has no right to any partition.
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
    if len(topics) > AT_ONCE:
        kept = request._replace(topic_data=copy_of(topics))
        return _judge_many(context, kept, by_id=by_id)
    permitted, refused = split_topics(context, WRITE, topics, by_id=by_id)
    if not refused:
        return _serve(context, request, False)
    denial = TopicAuthorizationFailed()
    rows = {place: _refuse_topic(each, denial) for place, each in refused.items()}
    return _append_permitted(context, request, permitted, rows, is_own=False)


async def _judge_many(
    context: "Context", request: "ProduceRequest", *, by_id: bool
) -> "ProduceResponse | None":
    share = LoopShare()
    topics, refused = await split_many(context, WRITE, request.topic_data, share, by_id=by_id)
    refusal = TopicAuthorizationFailed()
    answered = await share.each(refused.values(), lambda each: _refuse_topic(each, refusal))
    rows = dict(zip(refused, answered, strict=True))
    answer: Any = _append_permitted(context, request, topics, rows, is_own=True)
    response: ProduceResponse | None = await answer if isinstance(answer, Coroutine) else answer
    return response


def _append_permitted(
    context: "Context",
    request: "ProduceRequest",
    topics: "Sequence[TopicProduceData]",
    rows: "Mapping[int, TopicProduceResponse]",
    *,
    is_own: bool,
) -> "Produced":
    if not rows:
        return _serve(context, request, is_own)
    if topics:
        context.may_wait = False  # its answer is joined with the refusals
        answer = _serve(context, request._replace(topic_data=topics), is_own)
        return _append_beside(request, answer, rows)
    if request.acks == 0:
        raise _closing(TopicAuthorizationFailed)
    return ProduceResponse(list(rows.values()))


async def _append_beside(
    request: "ProduceRequest",
    answer: Any,
    refused: "Mapping[int, TopicProduceResponse]",
) -> ProduceResponse:
    """Answer with the results of the append and the refusals.

    Raises:
        ProtocolError: acks=0: to close the connection is the only way to refuse.
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


class Produce(Unwritten):
    """One request while it is served.

    ``_produced`` has for each topic its name, its id and its rows, as the fields of
    TopicProduceResponse. A row is the result of a partition: a `ValidatedBatch` that was appended,
    or the answer of a batch that was refused.
    """

    __slots__ = (
        "_acks",
        "_by_id",
        "_has_names",
        "_is_gathered",
        "_is_own",
        "_is_plain",
        "_is_refused",
        "_logs",
        "_may_wait",
        "_now_ms",
        "_produced",
        "_request",
        "_services",
        "_topics",
        "_transaction",
        "_unflushed",
        "_waits",
    )

    def serve(self, context: "Context", request: "ProduceRequest", is_own: bool) -> "Produced":
        """Append all; return the response, or an object that gives it later.

        ``is_own`` says that no other request overwrites this request's bytes, however long it
        takes.
        """
        version = context.version
        self.context = context
        self._request: Any = request
        self._services = services = context.services
        self._acks = acks = request.acks
        self._topics: list[TopicProduceData] = request.topic_data  # type: ignore[assignment]
        self._logs = services.topics.logs
        clock: Clock = services.clock
        self._now_ms = clock.now_ms()
        self._by_id = version >= FIRST_WITH_TOPIC_ID
        self._is_plain = version >= 7 and -1 <= acks <= 1  # the first version with zstd
        self._has_names = True  # whether a topic's name identifies it
        self._may_wait = context.may_wait
        self._is_own = is_own
        self._is_refused = False
        self._waits = False
        self._produced: list[Any] = []
        self._unflushed: list[Log] | None = None
        self._transaction: TransactionalProduce | None = None

        count = count_once(self._topics, _TOPIC_ID if self._by_id else _NAME)
        self._is_gathered = count < 0
        if self._by_id and not self._is_gathered:
            self._topics = self._services.topics.name_all(self._topics)
        if count < 0 or count > AT_ONCE or self._append_some(AT_ONCE) != _ALL:
            self._keep()
            return self._append_later()
        if self._unflushed:
            return self._flush()
        if not self._waits:
            return self.answer()
        if self._is_refused and not self._acks:
            self._write()  # nothing behind it may be served
            return self.answer()
        self._topics = []  # many requests may wait: each keeps only what its answer needs
        self._request = None
        return self

    def _append_some(self, most: int) -> int:
        """Append at most ``most`` batches, from the first partition without a row on.

        Returns:
            _ALL, _SOME, or _CLOSED: the next batch must be opened by a thread.
        """
        topics = self._topics
        produced = self._produced
        number = max(len(produced) - 1, 0)
        while number < len(topics):
            topic = topics[number]
            name = field_of(topic, 0)
            topic_id = field_of(topic, 1)
            partitions = field_of(topic, 2)
            if number == len(produced):
                produced.append((name, topic_id, []))
            _, _, rows = produced[number]
            place = len(rows)
            while place < len(partitions):
                if not most:
                    return _SOME
                partition = partitions[place]
                row = self._append(name, topic_id, field_of(partition, 0), field_of(partition, 1))
                if row is None:
                    return _CLOSED
                rows.append(row)
                place += 1
                most -= 1
            number += 1
        return _ALL

    def _append(self, name: str, topic_id: bytes, index: int, records: Any) -> Any:
        """Check a partition's batch and append it; return its row, None if it must be opened first.

        All rules are checked at once, since nearly every batch obeys them. If this check fails, the
        batch is checked rule by rule to find out what is wrong.
        """
        log = self._logs.get((name, index)) if self._has_names else None
        try:
            if log is None:
                log = self._find_log(name, topic_id, index)
                name = log.topic_partition.topic
            if self._is_plain and records is not None and name not in INTERNAL_TOPICS:
                end: LogEnd = log.end
                batch = end.rules.take(records, self._now_ms)
                if batch is not None:
                    return self._store(log, index, batch)
            whole = self._check(log, records)
        except KafkaError as error:
            return self._refuse(index, error)
        max_bytes = _OPEN_INLINE_BYTES[whole[_CODEC_POSITION] & CODEC_MASK]
        if len(whole) > max_bytes and must_open(whole, log.config):
            return None
        try:
            batch = validate(whole, log.config, self._now_ms)
        except KafkaError as error:
            return self._refuse(index, error, log)
        return self._store(log, index, batch)

    def _find_log(self, name: str, topic_id: bytes, index: int) -> "Log":
        key: TopicKey = topic_id if self._by_id else name
        log: Log = self._services.topics.find_log(key, index)
        return log

    def _check(self, log: "Log", records: Any) -> memoryview:
        """Make the checks that need no look into the records; return the single batch."""
        whole = check_records(records, self.context.version)
        if self._acks not in _ACKS:
            raise InvalidRequiredAcks
        topic = log.topic_partition.topic
        if topic in INTERNAL_TOPICS and self.context.client_id != _ADMIN_CLIENT:
            raise InvalidTopic(f"{topic} is internal; clients may not produce to it")
        return whole

    def _store(self, log: "Log", index: int, batch: "ValidatedBatch") -> Any:
        """Append a valid batch, if its transaction accepts it; return its row."""
        batch.partition = index
        if batch.attributes & TRANSACTIONAL:
            try:
                self._admit(log, batch)
            except KafkaError as error:
                return self._refuse(index, error)
        if batch.error is None:
            end: LogEnd = log.end
            end.append(log, batch, _CLIENT, self._may_wait)
        if batch.error is not None:
            return self._say(batch)
        if batch.base_offset < 0:
            self._waits = True
            return batch
        batch.buffer = _STORED
        if batch.flush_due:
            self._unflushed = self._unflushed or []
            if log not in self._unflushed:
                self._unflushed.append(log)
        return batch

    def _admit(self, log: "Log", batch: "ValidatedBatch") -> None:
        """Check a transactional batch against its transaction, and a first one against its log."""
        transaction = self._transaction
        if transaction is None:
            # Most clients use no transactions: the import must not delay the first ack.
            from siltstone.broker.transactions.producing import TransactionalProduce  # noqa: PLC0415

            self._transaction = transaction = TransactionalProduce(
                self._services.transactions(),
                self._services.topics,
                self._request,
                self.context.version,
            )
        transaction.admit(log, batch)
        try:
            transaction.check_first(log, batch)
        except KafkaError as error:
            batch.log = log
            batch.error = error

    def _write(self) -> None:
        """Write the batches that wait, before the end of the round."""
        for _, _, rows in self._produced:
            for row in rows:
                if isinstance(row, ValidatedBatch) and row.is_awaited:
                    row.log.end.write(row.log)

    def _keep(self) -> None:
        """Copy the records that are not appended yet: other requests reuse the receive buffer."""
        self._has_names = not self._by_id  # another topic may have the name by then
        self._may_wait = False
        if not self._is_own:
            self._topics = copy_of(self._topics, sum(len(rows) for _, _, rows in self._produced))

    async def _append_later(self) -> "ProduceResponse | None":
        """Append on the loop; open large batches on threads, where codecs release the GIL."""
        share = LoopShare()
        if self._is_gathered:
            self._topics = await gather(self._topics, self.context.version, share)
        while True:
            await share.rest()
            come = self._append_some(1)
            if come == _ALL:
                return await self._flush()
            if come == _CLOSED:
                row = await self._open_and_append()
                self._produced[len(self._produced) - 1][2].append(row)

    async def _open_and_append(self) -> Any:
        """Have a thread check the next batch, append it and return its row."""
        number = len(self._produced) - 1
        name, topic_id, rows = self._produced[number]
        index, records = self._topics[number].partition_data[len(rows)]
        log = self._find_log(name, topic_id, index)
        whole = self._check(log, records)
        try:
            batch = await self._services.io.unpack(validate, whole, log.config, self._now_ms)
        except KafkaError as error:
            return self._refuse(index, error, log)
        try:  # the topic may have been deleted, or created again, meanwhile
            if self._find_log(name, topic_id, index) is not log:
                raise UnknownTopicOrPartition
        except KafkaError as error:
            return self._refuse(index, error)
        return self._store(log, index, batch)

    async def _flush(self) -> "ProduceResponse | None":
        """Wait for the fsyncs that ``flush.messages`` asks for before answering."""
        self._write()  # it may still be the turn in which the batches came
        for log in self._unflushed or ():
            try:
                await self._services.io.run(log.flush)
            except KafkaError as error:  # none of that log's batches became durable
                for _, _, rows in self._produced:
                    for row in rows:
                        if isinstance(row, ValidatedBatch) and row.log is log and not row.error:
                            row.error = error
        return self.answer()

    def answer(self) -> "ProduceResponse | None":
        """Return the response with the result of each partition; None for acks=0.

        Raises:
            ProtocolError: acks=0 and a partition failed: to close is the only possible signal.
        """
        for _, _, rows in self._produced:
            for place in range(len(rows)):
                if isinstance(rows[place], ValidatedBatch):
                    rows[place] = self._say(rows[place])
        if self._is_gathered:
            self._produced = [(*topic, last_of_each(rows)) for *topic, rows in self._produced]
        if not self._acks:
            self._check_all()
            return None
        return self._produced, 0, ()  # type: ignore[return-value]  # a bare tuple of its fields

    def _say(self, batch: "ValidatedBatch") -> Any:
        """Return the answer of a partition with the result of its batch."""
        error = batch.error
        index = batch.partition
        if error is None:
            if batch.base_offset < 0:
                raise RuntimeError(f"a batch of {batch.log.topic_partition} is not written yet")
            base_offset, append_time = batch.base_offset, batch.log_append_time_ms
            return (
                index, 0, base_offset, append_time, batch.log_start_offset, (), None, _NO_LEADER
            )  # fmt: skip
        batch.error = None  # its traceback may hold the batch, and so the bytes of a whole frame
        if isinstance(error, KafkaError):
            return self._refuse(index, error, batch.log)
        raise error

    def _refuse(
        self, index: int, error: KafkaError, log: "Log | None" = None
    ) -> PartitionProduceResponse:
        """Return the answer of a partition that was not appended, and count it.

        ``log`` is the log that refused the batch; None if the batch was refused before.
        """
        self._is_refused = True
        is_told = log is not None and not isinstance(error, _WITHOUT_LOG_START)
        self.context.stats.refused_batch(error)
        if log is not None and not isinstance(error, _NOT_A_FAILURE):
            topic = self._services.topics.topics.get(log.topic_partition.topic)
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

    def _check_all(self) -> None:
        """Count the failures of a request that gets no answer, and raise the first one."""
        failed = [
            (row, topic_id.hex() if self._by_id else name)
            for name, topic_id, rows in self._produced
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


def count_once(topics: "list[TopicProduceData]", key: int) -> int:
    """Count the partitions of a request; -1 if one or a topic repeats, or a topic has none.

    ``key`` is the column that identifies a topic: its name or its id.
    """
    if len(topics) > 1 and len({field_of(topic, key) for topic in topics}) < len(topics):
        return -1
    total = 0
    for topic in topics:
        partitions = field_of(topic, 2)
        count = len(partitions)
        if count != 1 and (not count or len({field_of(each, 0) for each in partitions}) < count):
            return -1
        total += count
    return total


async def gather(
    topics: "Sequence[TopicProduceData]", version: int, share: LoopShare
) -> "list[TopicProduceData]":
    """Return each topic once; of a partition's rows keep the last batch and the last non-batch.

    The non-batch comes second: the last result of a partition is its answer.
    """
    gathered: dict[tuple[str, bytes], dict[int, dict[bool, Any]]] = {}
    for name, topic_id, partitions in topics:
        for index, records in partitions:
            last = gathered.setdefault((name, topic_id), {}).setdefault(index, {})
            last[_is_no_batch(records, version)] = PartitionProduceData(index, records)
            await share.rest()
    return [
        TopicProduceData(
            *key, [last[is_none] for last in each.values() for is_none in sorted(last)]
        )
        for key, each in gathered.items()
    ]


def copy_of(topics: "Sequence[TopicProduceData]", done: int = 0) -> "list[TopicProduceData]":
    """Copy topics with their records out of the receive buffer, which other requests reuse.

    The first ``done`` partitions are copied without records. A request of so many partitions that
    it was read in steps has a buffer of its own, so its topics are returned as they are.
    """
    if sum(len(topic.partition_data) for topic in topics) > READ_AT_ONCE:
        return list(topics)
    kept = []
    for name, topic_id, partitions in topics:
        copied = []
        for index, records in partitions:
            if done or records is None:
                copied.append(PartitionProduceData(index, None))
            else:
                copied.append(PartitionProduceData(index, memoryview(bytearray(records))))  # type: ignore[arg-type]
            done -= done > 0
        kept.append(TopicProduceData(name, topic_id, copied))
    return kept


def last_of_each(rows: list[Any]) -> list[Any]:
    """Return the last row of each partition; a row begins with the partition's index."""
    return list({row[0]: row for row in rows}.values())


def _is_no_batch(records: Any, version: int) -> bool:
    if not records:
        return True
    try:
        check_records(records, version)
    except KafkaError:
        return True
    return False

"""Produce (0), versions 3-13: one batch per partition, validated, stamped and appended.

v3 record batches only (KIP-98) · v5 log start offset · v7 zstd (KIP-110) · v8 record errors
(KIP-467) · v9 compact encoding · v10 current leader (KIP-951) · v12 transactions without a second
request (KIP-890) · v13 topic ids (KIP-516). acks=0 is answered by nothing, and by closing the
connection when a partition fails.

The append is a write to the page cache and runs on the loop: a hop to a thread costs more than the
write. Large compressed batches that a rule wants opened, and fsyncs, do hop.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from broker.handlers.repeated_partitions import gather, is_each_once, last_of_each
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
from protocol.kernels import encode_single, find_single
from protocol.names import INTERNAL_TOPICS
from protocol.produce import (
    API_KEY,
    FIRST_FLEXIBLE,
    PartitionProduced,
    ProduceRequest,
    encode,
    parse,
)
from protocol.records.batch import ATTRIBUTES_POSITION, CODEC_MASK
from protocol.records.compression import MAX_RATIO
from storage.validation import check_records, must_open, validate

if TYPE_CHECKING:
    from broker.answers import Answer, Waiting
    from broker.connection import Connection
    from broker.transactions.producing import TransactionalProduce
    from protocol.produce import Topics
    from protocol.topic_key import TopicKey
    from storage.append_values import ValidatedBatch
    from storage.log import Log

_ACKS = frozenset({-1, 0, 1})
_ACKNOWLEDGED = frozenset({-1, 1})
_WITHOUT_LOG_START = (CorruptMessage, KafkaStorageError, RecordListTooLarge, RecordTooLarge)
_NEVER = (1 << 63) - 1  # of flush.messages
# Size and client's id of a head, behind key, version and correlation id.
_ADMIN_CLIENT = b"\0\x0e__admin_client"
_CLIENT_POSITION = 8
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


def handle(
    connection: Connection,
    version: int,
    correlation_id: int,
    buffer: memoryview,
    position: int,
    end: int,
) -> Answer | Waiting:
    """Append inline and answer; return a coroutine if a batch must be opened or flushed first.

    What nearly every request is, one batch that breaks no rule, goes the short way. Nothing is
    written before that is sure, so the general way begins anew.
    """
    single = find_single(buffer, position, end, version) if version >= FIRST_FLEXIBLE else None
    if single is None:
        return _append_all(connection, version, correlation_id, buffer, position, end)
    acks, key, index, start, stop = single
    rooms = connection.rooms
    log = rooms.topics.get_log(key, index)
    if log is None or acks not in _ACKNOWLEDGED or log.topic_partition.topic in INTERNAL_TOPICS:
        return _append_all(connection, version, correlation_id, buffer, position, end)
    batch = log.rules.take(buffer[start:stop], rooms.clock.now_ms())
    if batch is None or batch.attributes & _TRANSACTIONAL or log.config.flush_messages != _NEVER:
        return _append_all(connection, version, correlation_id, buffer, position, end)
    try:
        result = log.append(batch)
    except KafkaError as error:
        refused = _refuse(connection, index, error, log)
        return encode(version, correlation_id, [(key, [refused])])
    base_offset, _last_offset, log_append_time_ms, log_start_offset, _duplicate, _due = result
    return encode_single(
        correlation_id, key, index, base_offset, log_append_time_ms, log_start_offset
    )


def _append_all(
    connection: Connection,
    version: int,
    correlation_id: int,
    buffer: memoryview,
    position: int,
    end: int,
) -> Answer | Waiting:
    """Serve any request, partition by partition."""
    request = parse(version, buffer, position, end)
    produce = _Produce(connection, version, correlation_id, request)
    client = connection.listener.dispatcher.head + _CLIENT_POSITION
    produce.is_admin = buffer[client : client + len(_ADMIN_CLIENT)] == _ADMIN_CLIENT
    if not is_each_once(request.topics):
        request.topics = gather(request.topics, version)
        produce.is_gathered = True
    topics = connection.rooms.topics
    now_ms = connection.rooms.clock.now_ms()
    for key, partitions in request.topics:
        results: list[PartitionProduced] = []
        produce.produced.append((key, results))
        for place, (index, records) in enumerate(partitions):
            try:
                log = topics.find_log(key, index)
                whole = produce.check(log, records)
                most = _OPEN_INLINE_BYTES[whole[_CODEC_POSITION] & CODEC_MASK]
                if len(whole) > most and must_open(whole, log.config):
                    return produce.append_rest(place, now_ms)
                results.append(produce.store(log, index, whole, now_ms))
            except KafkaError as error:
                results.append(_refuse(connection, index, error))
    return produce.flush() if produce.unflushed else produce.answer()


def _refuse(
    connection: Connection, index: int, error: KafkaError, log: Log | None = None
) -> PartitionProduced:
    """Return the answer for a partition that was not appended, and count it.

    ``log`` is the one that did not take the batch, if it came as far.
    """
    is_told = log is not None and not isinstance(error, _WITHOUT_LOG_START)
    log_start_offset = log.log_start_offset if log is not None and is_told else -1
    code = error.code.value
    stats = connection.listener.dispatcher.stats
    stats.by_key[API_KEY].failed(code)
    stats.refused_batch(error)
    return PartitionProduced(
        index, code, -1, -1, log_start_offset, error.record_errors, error.message
    )


class _Produce:
    """One request while it is served: what became of its partitions so far."""

    __slots__ = (
        "connection",
        "correlation_id",
        "is_admin",
        "is_gathered",
        "produced",
        "request",
        "transaction",
        "unflushed",
        "version",
    )

    def __init__(
        self, connection: Connection, version: int, correlation_id: int, request: ProduceRequest
    ) -> None:
        self.connection = connection
        self.version = version
        self.correlation_id = correlation_id
        self.request = request
        self.is_admin = False
        self.is_gathered = False
        self.produced: list[tuple[TopicKey, list[PartitionProduced]]] = []
        self.unflushed: list[Log] = []
        self.transaction: TransactionalProduce | None = None

    def check(self, log: Log, records: memoryview | None) -> memoryview:
        """Refuse what needs no look into the records; return the one batch that they are."""
        whole = check_records(records, self.version)
        if self.request.acks not in _ACKS:
            raise InvalidRequiredAcks
        topic = log.topic_partition.topic
        if topic in INTERNAL_TOPICS and not self.is_admin:
            raise InvalidTopic(f"{topic} is internal; clients may not produce to it")
        return whole

    def store(self, log: Log, index: int, whole: memoryview, now_ms: int) -> PartitionProduced:
        """Validate a batch and append it."""
        try:
            batch = log.rules.take(whole, now_ms)
            if batch is None:
                batch = validate(whole, log.config, now_ms)
        except KafkaError as error:
            return _refuse(self.connection, index, error, log)
        return self.append(log, index, batch)

    def append(self, log: Log, index: int, batch: ValidatedBatch) -> PartitionProduced:
        """Append, for the transaction of the request if the batch is of one."""
        transaction = self._admit(log, batch) if batch.attributes & _TRANSACTIONAL else None
        try:
            if transaction is not None:
                transaction.check_first(log, batch)
            result = log.append(batch)
        except KafkaError as error:
            return _refuse(self.connection, index, error, log)
        if result.flush_due and log not in self.unflushed:
            self.unflushed.append(log)
        return PartitionProduced(
            index, 0, result.base_offset, result.log_append_time_ms, result.log_start_offset
        )

    def _admit(self, log: Log, batch: ValidatedBatch) -> TransactionalProduce:
        """Hold a transactional batch against its transaction."""
        if self.transaction is None:
            # Most clients have none: its modules are not to hold up the first ack.
            from broker.transactions.producing import TransactionalProduce  # noqa: PLC0415

            rooms = self.connection.rooms
            self.transaction = TransactionalProduce(
                rooms.transactions, rooms.topics, self.request, self.version
            )
        self.transaction.admit(log, batch)
        return self.transaction

    def append_rest(self, place: int, now_ms: int) -> Waiting:
        """Go on from a partition of the topic last begun, opening batches on codec threads.

        The records are copied out of the receive buffer first, which others use meanwhile.
        """
        begun = len(self.produced) - 1
        topics: Topics = []
        for number, (key, partitions) in enumerate(self.request.topics[begun:]):
            rest = partitions if number else partitions[place:]
            kept = [
                (index, None if records is None else memoryview(bytearray(records)))
                for index, records in rest
            ]
            topics.append((key, kept))
        return self._append_slowly(topics, now_ms)

    async def flush(self) -> Answer:
        """Wait for the fsyncs that ``flush.messages`` asks for before answering."""
        for log in self.unflushed:
            try:
                await self.connection.rooms.io.run(log.flush)
            except KafkaError as error:
                self._refuse_log(log, error)
        return self.answer()

    def answer(self) -> Answer:
        """Write the response; nothing for acks=0.

        Raises:
            ProtocolError: acks=0 and a partition failed: closing is the only signal there is.
        """
        if self.is_gathered:
            self.produced = [(key, last_of_each(results)) for key, results in self.produced]
        if self.request.acks == 0:
            for key, results in self.produced:
                for result in results:
                    if result.error_code:
                        raise ProtocolError(
                            f"acks=0 and partition {result.index} of {_printed(key)} failed with "
                            f"error {result.error_code}"
                        )
            return None
        return encode(self.version, self.correlation_id, self.produced)

    async def _store_slowly(
        self, log: Log, key: TopicKey, index: int, whole: memoryview, now_ms: int
    ) -> PartitionProduced:
        rooms = self.connection.rooms
        try:
            batch = await rooms.io.unpack(validate, whole, log.config, now_ms)
        except KafkaError as error:
            return _refuse(self.connection, index, error, log)
        # The topic may have gone, or come back as another, in the meantime.
        if rooms.topics.find_log(key, index) is not log:
            raise UnknownTopicOrPartition
        return self.append(log, index, batch)

    async def _append_slowly(
        self,
        topics: Topics,
        now_ms: int,
    ) -> Answer:
        """Validate on threads, where codecs release the GIL, and append on the loop."""
        for number, (key, partitions) in enumerate(topics):
            if number:
                self.produced.append((key, []))
            results = self.produced[-1][1]
            for index, records in partitions:
                try:
                    log = self.connection.rooms.topics.find_log(key, index)
                    whole = self.check(log, records)
                    results.append(await self._store_slowly(log, key, index, whole, now_ms))
                except KafkaError as error:
                    results.append(_refuse(self.connection, index, error))
        return await self.flush()

    def _refuse_log(self, log: Log, error: KafkaError) -> None:
        """A failed fsync: nothing of that log was made durable, so nothing is acknowledged."""
        names = {log.topic_partition.topic, log.topic_id.bytes}
        partition = log.topic_partition.partition
        for key, results in self.produced:
            for place, result in enumerate(results):
                if key in names and result.index == partition and not result.error_code:
                    results[place] = _refuse(self.connection, partition, error)


def _printed(key: TopicKey) -> str:
    return key if isinstance(key, str) else f"topic id {key.hex()}"

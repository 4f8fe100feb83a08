"""Produce (0), versions 3-13: one batch per partition, validated, stamped and appended.

v3 record batches only (KIP-98) · v5 log start offset · v7 zstd (KIP-110) · v8 record errors
(KIP-467) · v9 compact encoding · v10 current leader (KIP-951) · v12 transactions without a second
request (KIP-890) · v13 topic ids (KIP-516). acks=0 is answered by nothing, and by closing the
connection when a partition fails. Transactional batches are refused until transactions are served.

The append is a write to the page cache and runs on the loop: a hop to a thread costs more than the
write. Large compressed batches that a rule wants opened, and fsyncs, do hop.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from protocol.errors import (
    InvalidRequiredAcks,
    InvalidTopic,
    InvalidTxnState,
    KafkaError,
    ProtocolError,
    UnknownTopicId,
    UnknownTopicOrPartition,
)
from protocol.names import is_internal
from protocol.produce import API_KEY, PartitionProduced, ProduceRequest, encode, parse
from storage.validation import check_records, must_open, validate

if TYPE_CHECKING:
    from broker.connection import Connection
    from broker.dispatch import Answer, Waiting
    from storage.log import AppendResult, Log
    from storage.validation import ValidatedBatch

_ADMIN_CLIENT = "__admin_client"
_TRANSACTIONAL = 0x10
# Opening a larger batch takes longer than the hop to a thread and back, and a hostile one inflates
# a thousandfold: that must not happen on the loop.
_OPEN_INLINE_BYTES = 4 * 1024


def handle(
    connection: Connection,
    version: int,
    correlation_id: int,
    buffer: memoryview,
    position: int,
    end: int,
) -> Answer | Waiting:
    """Append inline and answer; return a coroutine if a batch must be opened or flushed first."""
    request = parse(version, buffer, position, end)
    produce = _Produce(connection, version, correlation_id, request)
    if produce.opens_large_batches():
        produce.keep_records()
        return produce.append_slowly()
    produce.append()
    if produce.unflushed:
        return produce.flush()
    return produce.answer()


class _Produce:
    """One request while it is served."""

    __slots__ = (
        "connection",
        "correlation_id",
        "produced",
        "request",
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
        self.produced: list[tuple[str | bytes, list[PartitionProduced]]] = []
        self.unflushed: list[Log] = []

    def opens_large_batches(self) -> bool:
        """Return whether a rule wants a compressed batch opened that is too large for the loop."""
        for key, partitions in self.request.topics:
            for index, records in partitions:
                if records is not None and len(records) > _OPEN_INLINE_BYTES:
                    log = self._find_log(key, index)
                    if log is not None and must_open(records, log.config):
                        return True
        return False

    def keep_records(self) -> None:
        """Copy the records out of the receive buffer, which others use while this one waits."""
        self.request.topics = [
            (
                key,
                [
                    (index, None if records is None else memoryview(bytearray(records)))
                    for index, records in partitions
                ],
            )
            for key, partitions in self.request.topics
        ]

    def append(self) -> None:
        """Validate and append every partition's batch on the loop."""
        now_ms = self.connection.rooms.clock.now_ms()
        for key, partitions in self.request.topics:
            results = []
            for index, records in partitions:
                try:
                    log, whole = self._check(key, index, records)
                    batch = validate(whole, log.config, now_ms)
                    results.append(self._append(log, index, batch))
                except KafkaError as error:
                    results.append(self._refuse(index, error))
            self.produced.append((key, results))

    async def append_slowly(self) -> Answer:
        """Validate on io threads, where codecs release the GIL, and append on the loop."""
        rooms = self.connection.rooms
        now_ms = rooms.clock.now_ms()
        for key, partitions in self.request.topics:
            results = []
            for index, records in partitions:
                try:
                    log, whole = self._check(key, index, records)
                    batch = await rooms.io.run(validate, whole, log.config, now_ms)
                    # The topic may have gone, or come back as another, in the meantime.
                    if self._find_log(key, index) is not log:
                        raise UnknownTopicOrPartition
                    results.append(self._append(log, index, batch))
                except KafkaError as error:
                    results.append(self._refuse(index, error))
            self.produced.append((key, results))
        return await self.flush()

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

    def _check(
        self, key: str | bytes, index: int, records: memoryview | None
    ) -> tuple[Log, memoryview]:
        """Refuse what needs no look into the records; return the log and the one batch."""
        log = self._find_log(key, index)
        if log is None:
            if type(key) is bytes and key not in self.connection.rooms.topics.by_id:
                raise UnknownTopicId
            raise UnknownTopicOrPartition
        whole = check_records(records, self.version)
        if self.request.acks not in {-1, 0, 1}:
            raise InvalidRequiredAcks
        topic = log.topic_partition.topic
        if is_internal(topic) and self.connection.client_id != _ADMIN_CLIENT:
            raise InvalidTopic(f"{topic} is internal; clients may not produce to it")
        return log, whole

    def _find_log(self, key: str | bytes, index: int) -> Log | None:
        topics = self.connection.rooms.topics
        if type(key) is str:
            return topics.logs.get((key, index))
        topic = topics.by_id.get(key)  # type: ignore[arg-type]  # not a str: the 16 bytes of an id
        return None if topic is None else topics.logs.get((topic.name, index))

    def _append(self, log: Log, index: int, batch: ValidatedBatch) -> PartitionProduced:
        if batch.attributes & _TRANSACTIONAL:
            raise InvalidTxnState("transactions are not served by this broker yet")
        result: AppendResult = log.append(batch)
        if result.flush_due and log not in self.unflushed:
            self.unflushed.append(log)
        if log.waiters:
            self.connection.rooms.waiting.wake(log)
        return PartitionProduced(
            index, 0, result.base_offset, result.log_append_time_ms, result.log_start_offset
        )

    def _refuse(self, index: int, error: KafkaError) -> PartitionProduced:
        code = error.code.value
        self.connection.listener.dispatcher.stats.by_key[API_KEY].failed(code)
        return PartitionProduced(index, code, -1, -1, -1, error.record_errors, error.message)

    def _refuse_log(self, log: Log, error: KafkaError) -> None:
        """A failed fsync: nothing of that log was made durable, so nothing is acknowledged."""
        topic = log.topic_partition.topic
        id_bytes = log.topic_id.bytes
        for key, results in self.produced:
            if key in {topic, id_bytes}:
                for place, result in enumerate(results):
                    if result.index == log.topic_partition.partition and not result.error_code:
                        results[place] = self._refuse(result.index, error)


def _printed(key: str | bytes) -> str:
    return key if isinstance(key, str) else f"topic id {key.hex()}"

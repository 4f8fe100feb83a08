"""Producers that send what a client of transaction.version 2 sends (KIP-890), and little else.

A transaction is two requests: Produce, whose epoch tells the broker that it begins, and EndTxn,
whose answer has the epoch of the next one. Frames are made once, by kio; only the epoch in them is
changed, and the batch's checksum, so that the load costs little beside a broker.
"""

from __future__ import annotations

import select
import struct
import time
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Final

from kio.schema.errors import ErrorCode

from bench.connection import SECONDS, Connection, frame, part, request_class
from siltstone.protocol.core import crc32c
from siltstone.protocol.core.constants import ATTRIBUTES_POSITION, CRC_POSITION, TRANSACTIONAL
from siltstone.protocol.records.build import build_batch
from siltstone.protocol.records.record import Record

if TYPE_CHECKING:
    from collections.abc import Callable

RECORDS: Final = 10
VALUE: Final = b"v" * 100
_TIMEOUT: Final = timedelta(seconds=30)
_EPOCH_AT: Final = 51  # in a batch
_ENDED: Final = struct.Struct(">hqh")  # error, producer id, epoch
_ENDED_AT: Final = 4 + 1 + 4  # in an answer: behind correlation id, tags and throttle time


class FrameProducer:
    """One producer on a connection of its own, with one request in flight."""

    def __init__(self, port: int, transactional_id: str, topic: str, partition: int) -> None:
        self.connection = Connection(port)
        self.count = 0  # transactions that have ended
        self.is_open = False
        self._id = transactional_id
        self._topic = topic
        self._partition = partition
        self._epoch = -1
        self._act: Callable[[bytes], None] = self._produced
        find = request_class(10, 4)(key_type=1, coordinator_keys=(transactional_id,))
        self.connection.ask_until(find, lambda answer: not answer.coordinators[0].error_code)
        init = request_class(22, 5)(transactional_id=transactional_id, transaction_timeout=_TIMEOUT)
        begun = self.connection.ask_until(init, lambda answer: answer.error_code is ErrorCode.none)
        self._make_frames(begun.producer_id)
        self._set_epoch(begun.producer_epoch)

    def begin(self) -> None:
        """Send the records of a transaction."""
        self.is_open = True
        self._act = self._produced
        self.connection.send(self._produce)

    def act(self) -> None:
        """Go on with the answer that has come, if it is all there, until the transaction ends."""
        body = self.connection.receive()
        if body is not None:
            self._act(body)

    def _produced(self, body: bytes) -> None:
        code = int.from_bytes(body[self._code_at : self._code_at + 2], "big", signed=True)
        if code:
            error = ErrorCode(code)
            if not error.retriable:
                raise RuntimeError(f"a batch was refused: {error.name}")
            self.begin()
            return
        self._act = self._ended
        self.connection.send(self._end)

    def _ended(self, body: bytes) -> None:
        code, producer_id, epoch = _ENDED.unpack_from(body, _ENDED_AT)
        if code:
            raise RuntimeError(f"the end was refused: {ErrorCode(code).name}")
        self.count += 1
        self.is_open = False
        if producer_id != self._producer_id:
            self._make_frames(producer_id)
        self._set_epoch(epoch)

    def _make_frames(self, producer_id: int) -> None:
        """Make the frames of a producer id; an id has as many transactions as epochs."""
        self._producer_id = producer_id
        now_ms = time.time_ns() // 1_000_000
        batch = bytes(
            build_batch(
                [Record(number, now_ms, b"%d" % number, VALUE) for number in range(RECORDS)],
                flags=TRANSACTIONAL,
                producer_id=producer_id,
                producer_epoch=0,
                base_sequence=0,
            )
        )
        self._produce = bytearray(frame(self._produce_request(batch)))
        self._batch_at = self._produce.index(batch)
        self._batch_end = self._batch_at + len(batch)
        # What an answer has before the error of its only partition: correlation id, tags, one
        # topic and its name, one partition and its index.
        self._code_at = 4 + 1 + 1 + 1 + len(self._topic) + 1 + 4
        self._end = bytearray(
            frame(
                request_class(26, 5)(
                    transactional_id=self._id,
                    producer_id=producer_id,
                    producer_epoch=0,
                    committed=True,
                )
            )
        )
        self._end_epoch_at = self._end.index(producer_id.to_bytes(8, "big")) + 8

    def _produce_request(self, batch: bytes) -> Any:
        request = request_class(0, 12)
        data = part(request, "PartitionProduceData")(index=self._partition, records=batch)
        topic = part(request, "TopicProduceData")(name=self._topic, partition_data=(data,))
        return request(transactional_id=self._id, acks=-1, timeout=_TIMEOUT, topic_data=(topic,))

    def _set_epoch(self, epoch: int) -> None:
        start = self._batch_at
        struct.pack_into(">h", self._produce, start + _EPOCH_AT, epoch)
        checksum = crc32c(memoryview(self._produce)[start + ATTRIBUTES_POSITION : self._batch_end])
        struct.pack_into(">I", self._produce, start + CRC_POSITION, checksum)
        struct.pack_into(">h", self._end, self._end_epoch_at, epoch)


def run_producers(port: int, topic: str, count: int, seconds: float) -> tuple[int, float]:
    """Return how many transactions so many producers have ended, and in how many seconds.

    None stays open: readers of committed records would wait until it is timed out.
    """
    producers = [FrameProducer(port, f"bench-{number}", topic, number) for number in range(count)]
    poll = select.epoll()
    for producer in producers:
        poll.register(producer.connection, select.EPOLLIN)
    by_number = {producer.connection.fileno(): producer for producer in producers}
    began = time.monotonic()
    for producer in producers:
        producer.begin()
    open_count = count
    while open_count:
        ready = poll.poll(SECONDS)
        if not ready:
            raise TimeoutError(f"no answer to a transaction within {SECONDS} s")
        is_over = time.monotonic() >= began + seconds
        for number, _ in ready:
            producer = by_number[number]
            producer.act()
            if producer.is_open:
                continue
            if is_over:
                open_count -= 1
            else:
                producer.begin()
    took = time.monotonic() - began
    for producer in producers:
        producer.connection.close()
    return sum(producer.count for producer in producers), took

"""Producers that commit one small transaction after another, and a reader of committed records.

``python -m bench.transaction_load KIND BOOTSTRAP TOPIC SECONDS NUMBER`` prints a line of JSON. The
kinds: ``librdkafka`` is one stock producer (transactions of KIP-98, AddPartitionsToTxn each time);
``frames`` is one connection that sends what a client of transaction.version 2 sends (KIP-890), made
by kio; ``latency`` is a librdkafka producer, paced, and a read_committed consumer beside it.
"""

from __future__ import annotations

import json
import socket
import statistics
import struct
import sys
import threading
import time
from datetime import timedelta
from io import BytesIO
from typing import TYPE_CHECKING, Any

from confluent_kafka import OFFSET_END, Consumer, Producer, TopicPartition
from kio.index import load_response_schema
from kio.schema.end_txn.v5.request import EndTxnRequest
from kio.schema.errors import ErrorCode
from kio.schema.init_producer_id.v5.request import InitProducerIdRequest
from kio.schema.produce.v12.request import (
    PartitionProduceData,
    ProduceRequest,
    TopicProduceData,
)
from kio.serial import entity_reader, entity_writer

from protocol.records.batch import TRANSACTIONAL
from protocol.records.build import build_batch
from protocol.records.record import Record

if TYPE_CHECKING:
    from collections.abc import Callable

RECORDS = 10
VALUE = b"v" * 100
PACE_SECONDS = 0.02
_TIMEOUT = timedelta(seconds=30)
_TIMEOUT_MS = 30_000


class Frames:
    """One connection, blocking, and the producer that it is."""

    def __init__(self, bootstrap: str, transactional_id: str) -> None:
        host, _, port = bootstrap.rpartition(":")
        self._socket = socket.create_connection((host, int(port)))
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._id = transactional_id
        begun = self._ask(
            InitProducerIdRequest(transactional_id=transactional_id, transaction_timeout=_TIMEOUT)
        )
        while begun.error_code is not ErrorCode.none:  # Apache Kafka makes its topic meanwhile
            time.sleep(0.1)
            begun = self._ask(
                InitProducerIdRequest(
                    transactional_id=transactional_id, transaction_timeout=_TIMEOUT
                )
            )
        self.producer = begun.producer_id, begun.producer_epoch

    def commit(self, topic: str, partition: int) -> None:
        """Write one transaction and wait for its end."""
        producer_id, epoch = self.producer
        now_ms = time.time_ns() // 1_000_000
        batch = build_batch(
            [Record(number, now_ms, b"%d" % number, VALUE) for number in range(RECORDS)],
            flags=TRANSACTIONAL,
            producer_id=producer_id,
            producer_epoch=epoch,
            base_sequence=0,
        )
        data = PartitionProduceData(index=partition, records=bytes(batch))
        while True:
            answer = self._ask(
                ProduceRequest(
                    transactional_id=self._id,
                    acks=-1,
                    timeout=_TIMEOUT,
                    topic_data=(TopicProduceData(name=topic, partition_data=(data,)),),
                )
            )
            code = answer.responses[0].partition_responses[0].error_code
            if code is ErrorCode.none:
                break
            if not code.retriable:
                raise RuntimeError(f"produce was answered by {code.name}")
        ended = self._ask(
            EndTxnRequest(
                transactional_id=self._id,
                producer_id=producer_id,
                producer_epoch=epoch,
                committed=True,
            )
        )
        if ended.error_code is not ErrorCode.none:
            raise RuntimeError(f"the end was answered by {ended.error_code.name}")
        self.producer = ended.producer_id, ended.producer_epoch

    def _ask(self, request: Any) -> Any:
        kind = type(request)
        body = BytesIO()
        body.write(struct.pack(">ihhih", 0, kind.__api_key__, kind.__version__, 1, -1) + b"\0")
        entity_writer(kind)(body, request)
        frame = body.getvalue()
        self._socket.sendall((len(frame) - 4).to_bytes(4) + frame[4:])
        answer = self._receive(int.from_bytes(self._receive(4)))
        response = load_response_schema(kind.__api_key__, kind.__version__)
        return entity_reader(response)(answer, 5)[0]

    def _receive(self, size: int) -> bytes:
        data = b""
        while len(data) < size:
            part = self._socket.recv(size - len(data))
            if not part:
                raise ConnectionError("the broker closed the connection")
            data += part
        return data


def run_frames(bootstrap: str, topic: str, seconds: float, number: int) -> dict[str, float]:
    """Return how many transactions a connection committed in the time."""
    frames = Frames(bootstrap, f"bench-frames-{number}")
    frames.commit(topic, number)
    return _count(lambda: frames.commit(topic, number), seconds)


def run_librdkafka(bootstrap: str, topic: str, seconds: float, number: int) -> dict[str, float]:
    """Return how many transactions a stock producer committed in the time."""
    producer = _producer(bootstrap, f"bench-librdkafka-{number}")

    def commit() -> None:
        producer.begin_transaction()
        for key in range(RECORDS):
            producer.produce(topic, VALUE, b"%d" % key, partition=number)
        producer.commit_transaction(30)

    commit()
    return _count(commit, seconds)


def run_latency(bootstrap: str, topic: str, seconds: float, number: int) -> dict[str, float]:
    """Return quantiles of the time from produce() to a reader of committed records."""
    latencies: list[float] = []
    ready, done = threading.Event(), threading.Event()

    def read() -> None:
        consumer = Consumer(
            {
                "bootstrap.servers": bootstrap,
                "group.id": "bench",
                "enable.auto.commit": False,
                "isolation.level": "read_committed",
            }
        )
        consumer.assign([TopicPartition(topic, number, OFFSET_END)])
        consumer.poll(1)
        ready.set()
        while not done.is_set():
            message = consumer.poll(0.2)
            if message is not None and message.error() is None:
                latencies.append(time.monotonic() - float(message.value() or b""))
        consumer.close()

    producer = _producer(bootstrap, f"bench-latency-{number}")
    reader = threading.Thread(target=read, name="reader")
    reader.start()
    ready.wait(30)

    def commit() -> None:
        producer.begin_transaction()
        producer.produce(topic, repr(time.monotonic()), partition=number)
        producer.commit_transaction(30)

    due = time.monotonic()
    end = due + seconds
    while due < end:
        commit()
        due += PACE_SECONDS
        time.sleep(max(0, due - time.monotonic()))
    time.sleep(1)
    done.set()
    reader.join()
    cuts = statistics.quantiles(latencies[5:], n=100)
    return {"p50 ms": cuts[49] * 1000, "p99 ms": cuts[98] * 1000, "samples": len(latencies)}


KINDS = {"frames": run_frames, "librdkafka": run_librdkafka, "latency": run_latency}


def _producer(bootstrap: str, transactional_id: str) -> Producer:
    producer = Producer(
        {
            "bootstrap.servers": bootstrap,
            "transactional.id": transactional_id,
            "transaction.timeout.ms": _TIMEOUT_MS,
            "linger.ms": 0,
        }
    )
    producer.init_transactions(60)
    return producer


def _count(commit: Callable[[], None], seconds: float) -> dict[str, float]:
    began = time.monotonic()
    end = began + seconds
    done = 0
    while time.monotonic() < end:
        commit()
        done += 1
    return {"transactions/s": done / (time.monotonic() - began), "count": done}


if __name__ == "__main__":
    kind, servers, name, *numbers = sys.argv[1:]
    print(json.dumps(KINDS[kind](servers, name, float(numbers[0]), int(numbers[1]))))

"""Producers that commit one small transaction after another, and a reader of committed records.

``python -m bench.transaction_load KIND BOOTSTRAP TOPIC SECONDS NUMBER`` prints a line of JSON. The
kinds: ``librdkafka`` is one stock producer (transactions of KIP-98, AddPartitionsToTxn each time);
``latency`` is such a producer, paced, and a read_committed consumer beside it.
"""

from __future__ import annotations

import json
import statistics
import sys
import threading
import time
from typing import TYPE_CHECKING

from confluent_kafka import Consumer, Producer, TopicPartition

from bench.transaction_frames import RECORDS, VALUE

if TYPE_CHECKING:
    from collections.abc import Callable

PACE_SECONDS = 0.02
_TIMEOUT_MS = 30_000


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
    """Return quantiles of the time from produce() to a reader of committed records.

    Raises:
        TimeoutError: The reader has not had every record.
    """
    producer = _producer(bootstrap, f"bench-latency-{number}")
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "bench",
            "enable.auto.commit": False,
            "isolation.level": "read_committed",
        }
    )
    _, end_offset = consumer.get_watermark_offsets(TopicPartition(topic, number), timeout=30)
    consumer.assign([TopicPartition(topic, number, end_offset)])
    latencies: list[float] = []
    count = int(seconds / PACE_SECONDS)

    def read() -> None:
        end = time.monotonic() + seconds + _TIMEOUT_MS / 1000
        while len(latencies) < count and time.monotonic() < end:
            message = consumer.poll(0.2)
            if message is not None and message.error() is None:
                latencies.append(time.monotonic() - float(message.value() or b""))

    reader = threading.Thread(target=read, name="reader")
    reader.start()
    due = time.monotonic()
    for _ in range(count):
        producer.begin_transaction()
        producer.produce(topic, repr(time.monotonic()), partition=number)
        producer.commit_transaction(30)
        due += PACE_SECONDS
        time.sleep(max(0, due - time.monotonic()))
    reader.join()
    consumer.close()
    if len(latencies) < count:
        raise TimeoutError(f"{len(latencies)} of {count} records have been read")
    cuts = statistics.quantiles(latencies[count // 20 :], n=100)
    return {"p50 ms": cuts[49] * 1000, "p99 ms": cuts[98] * 1000}


KINDS = {"librdkafka": run_librdkafka, "latency": run_latency}


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

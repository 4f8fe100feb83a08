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

from confluent_kafka import OFFSET_END, Consumer, Producer, TopicPartition

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

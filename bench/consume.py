"""Reads so many records with an assigned librdkafka consumer and prints how long it took.

``python -m bench.consume BOOTSTRAP TOPIC PARTITIONS COUNT``; the clock runs from the first record.
"""

from __future__ import annotations

import json
import sys
import time

from confluent_kafka import OFFSET_BEGINNING, Consumer, TopicPartition


def consume(bootstrap: str, topic: str, partitions: int, count: int) -> float:
    """Return the seconds from the first record to the last."""
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "bench",
            "enable.auto.commit": False,
            "fetch.wait.max.ms": 50,
        }
    )
    consumer.assign([TopicPartition(topic, each, OFFSET_BEGINNING) for each in range(partitions)])
    got, began = 0, 0.0
    while got < count:
        messages = consumer.consume(min(10_000, count - got), timeout=30)
        if not messages:
            raise TimeoutError(f"only {got} of {count} records came")
        began = began or time.monotonic()
        got += sum(message.error() is None for message in messages)
    took = time.monotonic() - began
    consumer.close()
    return took


if __name__ == "__main__":
    servers, name, *numbers = sys.argv[1:]
    print(json.dumps({"seconds": consume(servers, name, int(numbers[0]), int(numbers[1]))}))

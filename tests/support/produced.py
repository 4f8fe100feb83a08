"""Topics of a running broker filled by a stock client, for tests that read them otherwise."""

from collections.abc import Iterable, Mapping
from typing import Any

from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

from tests.support.waiting import PATIENCE


def create_topic(
    bootstrap: str, topic: str, *, partitions: int = 1, config: Mapping[str, str] | None = None
) -> None:
    """Create a topic and wait until it exists."""
    admin = AdminClient({"bootstrap.servers": bootstrap})
    new = NewTopic(topic, num_partitions=partitions, config=dict(config or {}))
    admin.create_topics([new])[topic].result(PATIENCE)


def delete_topic(bootstrap: str, topic: str) -> None:
    """Delete a topic and wait until it is gone."""
    admin = AdminClient({"bootstrap.servers": bootstrap})
    admin.delete_topics([topic])[topic].result(PATIENCE)


def produce(
    bootstrap: str, topic: str, records: Iterable[Mapping[str, Any]], **settings: Any
) -> None:
    """Send records, given as keyword arguments of the client's ``produce``, and wait for all."""
    producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 5, **settings})
    faults = []
    for number, record in enumerate(records):
        producer.produce(
            topic, on_delivery=lambda error, _: faults.append(error) if error else None, **record
        )
        if number % 1000 == 0:
            producer.poll(0)
    left = producer.flush(PATIENCE)
    if left or faults:
        raise RuntimeError(f"{left} records were not acknowledged: {faults[:1]}")


def numbered(count: int, *, first: int = 0, partition: int = 0) -> list[dict[str, Any]]:
    """Return records k0, k1, … for a partition."""
    return [
        {"key": b"k%d" % index, "value": b"v%d" % index, "partition": partition}
        for index in range(first, first + count)
    ]

"""A broker for users' tests: a real broker in a process of its own, ready in half a second.

With pytest the fixtures exist as soon as Siltstone is installed (`kafka`, `kafka_topic`); with
anything else::

    with siltstone.testing.broker() as kafka:
        producer = Producer({"bootstrap.servers": kafka.bootstrap_servers})

This package has the objects by which a test controls a broker. The broker's side of that is in
`broker.process.trial`.
"""

from siltstone.testing.asynchronous import AsyncKafka, async_broker
from siltstone.testing.errors import AskedInVain, Refused, StartFailed
from siltstone.testing.kafka import Kafka, KafkaClock, broker

__all__ = [
    "AskedInVain",
    "AsyncKafka",
    "Kafka",
    "KafkaClock",
    "Refused",
    "StartFailed",
    "async_broker",
    "broker",
]

"""A broker for the tests of others: a real one, in a process of its own, ready in half a second.

With pytest the fixtures exist as soon as Siltstone is installed (`kafka`, `kafka_topic`); with
anything else::

    with siltstone.testing.broker() as kafka:
        producer = Producer({"bootstrap.servers": kafka.bootstrap_servers})

Here goes what a test holds of a broker. What the broker lets it do is in `broker.process.trial`.
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

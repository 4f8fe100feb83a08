"""One record, produced to a topic and consumed again by a stock client of Python.

A client without the right raises its own exception, after a few tries at most.
"""

from collections.abc import Mapping
from typing import Any

import aiokafka
import confluent_kafka
import kafka
import pytest
from confluent_kafka import KafkaError

from tests.support.waiting import PATIENCE

TOPIC = "t"
LEAVES_SOCKETS = [
    pytest.mark.filterwarnings("ignore:unclosed <s:ResourceWarning"),
    pytest.mark.usefixtures("no_sockets_left"),
]
"""Marks of tests whose kafka-python fails: it closes no socket of a client that it cannot make."""
_FATAL = frozenset({KafkaError._AUTHENTICATION, KafkaError._SSL, KafkaError._ALL_BROKERS_DOWN})


def by_kafka_python(given: Mapping[str, Any]) -> bytes:
    """Return the record; ``given`` are the client's settings, the same as aiokafka's."""
    producer = kafka.KafkaProducer(**given, max_block_ms=5000, bootstrap_timeout_ms=3000)
    try:
        producer.send(TOPIC, b"kafka-python").get(5)
    finally:
        producer.close(timeout=1)
    consumer = kafka.KafkaConsumer(TOPIC, **given, auto_offset_reset="earliest")
    value: bytes = next(iter(consumer)).value
    consumer.close()
    return value


def by_confluent_kafka(given: Mapping[str, Any]) -> bytes:
    """Return the record; ``given`` are librdkafka's settings."""
    faults: list[KafkaError] = []
    settings = {**given, "error_cb": faults.append}
    producer = confluent_kafka.Producer(settings)
    producer.produce(TOPIC, b"confluent-kafka")
    for _ in range(int(PATIENCE * 10)):
        if not producer.flush(0.1):
            break
        if any(error.code() in _FATAL for error in faults):
            producer.purge()
            raise confluent_kafka.KafkaException(faults[0])
    consumer = confluent_kafka.Consumer(
        {**settings, "group.id": "g", "auto.offset.reset": "earliest"}
    )
    consumer.subscribe([TOPIC])
    message = consumer.poll(PATIENCE)
    consumer.close()
    assert message is not None
    value = message.value()
    assert isinstance(value, bytes)
    return value


async def by_aiokafka(given: Mapping[str, Any]) -> bytes:
    """Return the record."""
    producer = aiokafka.AIOKafkaProducer(**given)
    try:
        await producer.start()
        await producer.send_and_wait(TOPIC, b"aiokafka")
    finally:
        await producer.stop()
    consumer = aiokafka.AIOKafkaConsumer(TOPIC, **given, auto_offset_reset="earliest")
    await consumer.start()
    value: bytes = (await consumer.getone()).value
    await consumer.stop()
    return value

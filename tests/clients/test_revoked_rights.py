"""Rights that are taken away while Python's clients are connected: told at once, and no storm."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import aiokafka
import confluent_kafka
import kafka
import pytest
from aiokafka.errors import TopicAuthorizationFailedError as AioTopicError
from confluent_kafka import KafkaError
from confluent_kafka.admin import (
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ResourcePatternType,
    ResourceType,
)
from kafka.errors import GroupAuthorizationFailedError, TopicAuthorizationFailedError

from siltstone.config.security import STANDARD_AUTHORIZER
from tests.support.oracle import AT_ONCE
from tests.support.running import Running, running
from tests.support.waiting import PATIENCE

TOPIC = "t"
MOST_REQUESTS = 40
"""Of a client from the refusal to its exception, its heartbeats included."""
MODULE = "org.apache.kafka.common.security.plain.PlainLoginModule"
RULES = [
    AclBinding(
        kind,
        "*",
        ResourcePatternType.LITERAL,
        "User:bob",
        "*",
        AclOperation.ALL,
        AclPermissionType.ALLOW,
    )
    for kind in (ResourceType.TOPIC, ResourceType.GROUP)
]
ANYTHING: Any = None  # which the type hints of AclBindingFilter do not have
EVERY_RULE = AclBindingFilter(
    ResourceType.ANY,
    ANYTHING,
    ResourcePatternType.ANY,
    ANYTHING,
    ANYTHING,
    AclOperation.ANY,
    AclPermissionType.ANY,
)


@pytest.fixture
async def home(tmp_path: Path) -> AsyncIterator[Running]:
    """A broker with a topic, where bob may use everything."""
    async with running(
        tmp_path / "data",
        "listeners=SASL_PLAINTEXT://127.0.0.1:0",
        "sasl.enabled.mechanisms=PLAIN",
        "listener.name.sasl_plaintext.plain.sasl.jaas.config="
        f"{MODULE} required user_admin=pw user_bob=pw;",
        f"authorizer.class.name={STANDARD_AUTHORIZER}",
        "super.users=User:admin",
        *(f"{name}={value}" for name, value in AT_ONCE.items()),
    ) as started:
        await started.topics.create(TOPIC, 1, {})
        await asyncio.to_thread(change_rules, login(started, "admin"), granted=True)
        yield started


def login(home: Running, user: str) -> dict[str, Any]:
    """Return somebody's settings, as kafka-python and aiokafka name them."""
    return {
        "bootstrap_servers": f"127.0.0.1:{home.listeners[0].port}",
        "security_protocol": "SASL_PLAINTEXT",
        "sasl_mechanism": "PLAIN",
        "sasl_plain_username": user,
        "sasl_plain_password": "pw",
    }


def librdkafka(given: dict[str, Any]) -> dict[str, Any]:
    """Return them as librdkafka names them."""
    return {name.replace("plain_", "").replace("_", "."): value for name, value in given.items()}


def change_rules(given: dict[str, Any], *, granted: bool) -> None:
    """Have bob's rules made, or all rules deleted, by the super user."""
    client = AdminClient(librdkafka(given))
    changes = client.create_acls(RULES) if granted else client.delete_acls([EVERY_RULE])
    for change in changes.values():
        change.result(PATIENCE)


async def take_away(home: Running) -> int:
    """Take all rights from bob and return how many requests there were."""
    await asyncio.to_thread(change_rules, login(home, "admin"), granted=False)
    return count(home)


def count(home: Running) -> int:
    """Return how many requests were answered."""
    return sum(each.count for each in home.requests.by_key.values())


async def test_librdkafka_is_told(home: Running) -> None:
    """The producer by the report of a record, the consumer by an error in place of one."""
    given = librdkafka(login(home, "bob"))
    producer = confluent_kafka.Producer(given)
    consumer = confluent_kafka.Consumer({**given, "group.id": "g", "auto.offset.reset": "earliest"})
    consumer.subscribe([TOPIC])

    def send() -> KafkaError | None:
        reports: list[KafkaError | None] = []
        producer.produce(TOPIC, b"v", on_delivery=lambda error, _: reports.append(error))
        producer.flush(PATIENCE)
        (report,) = reports
        return report

    assert await asyncio.to_thread(send) is None
    message = await asyncio.to_thread(consumer.poll, PATIENCE)
    assert message is not None
    assert message.error() is None
    before = await take_away(home)
    refused = await asyncio.to_thread(send)
    message = await asyncio.to_thread(consumer.poll, PATIENCE)
    asked = count(home) - before
    await asyncio.to_thread(consumer.close)

    assert refused is not None
    assert refused.code() == KafkaError.TOPIC_AUTHORIZATION_FAILED
    assert message is not None
    error = message.error()
    assert error is not None
    assert error.code() == KafkaError.TOPIC_AUTHORIZATION_FAILED
    assert asked < MOST_REQUESTS


async def test_kafka_python_is_told(home: Running) -> None:
    """By TopicAuthorizationFailedError, both ways.

    Its consumer forgets the refusal of a fetch if its next metadata come first, which have no such
    topic. Then it asks for these ten times a second until its session ends, and the group refuses.
    """
    given = login(home, "bob")
    producer = await asyncio.to_thread(kafka.KafkaProducer, **given)
    consumer = await asyncio.to_thread(
        kafka.KafkaConsumer,
        TOPIC,
        group_id="g",
        auto_offset_reset="earliest",
        enable_auto_commit=False,
        session_timeout_ms=6000,
        heartbeat_interval_ms=1000,
        **given,
    )

    def send() -> None:
        producer.send(TOPIC, b"v").get(PATIENCE)

    await asyncio.to_thread(send)
    assert (await asyncio.to_thread(next, consumer)).value == b"v"
    before = await take_away(home)
    with pytest.raises(TopicAuthorizationFailedError):
        await asyncio.to_thread(send)
    with pytest.raises((TopicAuthorizationFailedError, GroupAuthorizationFailedError)) as told:
        await asyncio.to_thread(next, consumer)
    asked = count(home) - before
    await asyncio.to_thread(producer.close)
    await asyncio.to_thread(consumer.close)

    assert asked < MOST_REQUESTS or told.type is GroupAuthorizationFailedError


async def test_aiokafka_is_told(home: Running) -> None:
    """By TopicAuthorizationFailedError, both ways."""
    given = login(home, "bob")
    producer = aiokafka.AIOKafkaProducer(**given)
    consumer = aiokafka.AIOKafkaConsumer(
        TOPIC, group_id="g", auto_offset_reset="earliest", enable_auto_commit=False, **given
    )
    await producer.start()
    await consumer.start()
    await producer.send_and_wait(TOPIC, b"v")
    assert (await consumer.getone()).value == b"v"
    before = await take_away(home)
    with pytest.raises(AioTopicError):
        await producer.send_and_wait(TOPIC, b"v")
    with pytest.raises(AioTopicError):
        await consumer.getone()
    asked = count(home) - before
    await producer.stop()
    await consumer.stop()

    assert asked < MOST_REQUESTS

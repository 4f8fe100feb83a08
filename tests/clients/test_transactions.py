"""Transactions of each client library, and of two that get in each other's way."""

import time

import pytest
from confluent_kafka import KafkaException

from tests.clients.conftest import NewTopic, settle
from tests.support.broker import SiltstoneProcess
from tests.support.clients.confluent import Confluent as Maker
from tests.support.clients.transactional import (
    Aiokafka,
    Confluent,
    KafkaPython,
    Transactional,
    committed_offset,
    read,
)
from tests.support.kafka import KafkaBroker, KafkaTools
from tests.support.waiting import PATIENCE, wait_until

pytestmark = pytest.mark.client

Broker = SiltstoneProcess | KafkaBroker
LIBRARIES = {each.name: each for each in (Confluent, KafkaPython, Aiokafka)}
VALUES = [b"%02d" % number for number in range(12)]


@pytest.fixture(params=sorted(LIBRARIES))
def library(request: pytest.FixtureRequest, broker: Broker) -> Transactional:
    """Each client library in turn."""
    made: Transactional = LIBRARIES[request.param](broker.bootstrap)
    return made


@pytest.mark.slow
def test_readers_see_what_was_committed(
    broker: Broker, library: Transactional, new_topic: NewTopic
) -> None:
    """Whole transactions or nothing; a reader of uncommitted records sees all of them."""
    topic = new_topic(partitions=2)

    library.write(topic, topic, [(VALUES[:4], True), (VALUES[4:8], False), (VALUES[8:], True)])

    assert read(broker.bootstrap, topic, committed=True) == VALUES[:4] + VALUES[8:]
    assert read(broker.bootstrap, topic, committed=False) == VALUES


@pytest.mark.slow
def test_offsets_are_committed_with_the_records(
    broker: Broker, library: Transactional, new_topic: NewTopic
) -> None:
    """send_offsets_to_transaction: an abort takes the offset back as well."""
    topic = new_topic(partitions=2)

    library.write(topic, topic, [(VALUES[:2], False)], (f"{topic}-readers", topic, 5))
    aborted = committed_offset(broker.bootstrap, f"{topic}-readers", topic)
    library.write(topic, topic, [(VALUES[2:4], True)], (f"{topic}-readers", topic, 7))

    assert aborted < 0
    assert committed_offset(broker.bootstrap, f"{topic}-readers", topic) == 7
    assert read(broker.bootstrap, topic, committed=True) == VALUES[2:4]


@pytest.mark.slow
def test_a_second_producer_fences_the_first(broker: Broker, new_topic: NewTopic) -> None:
    """It takes the first one's open transaction back; the first one's commit fails for good."""
    topic = new_topic(partitions=2)
    confluent = Confluent(broker.bootstrap)
    first = confluent.producer(topic)
    first.begin_transaction()
    first.produce(topic, b"first", partition=0)
    first.flush(PATIENCE)

    second = confluent.producer(topic)
    second.begin_transaction()
    second.produce(topic, b"second", partition=0)
    second.commit_transaction(PATIENCE)

    with pytest.raises(KafkaException) as fenced:
        first.commit_transaction(PATIENCE)
    assert fenced.value.args[0].fatal()
    assert read(broker.bootstrap, topic, committed=True) == [b"second"]


@pytest.mark.slow
def test_a_dead_producer_holds_nobody_up_for_longer_than_its_time_out(
    broker: Broker, new_topic: NewTopic
) -> None:
    """Readers of committed records get past it, without what it left behind."""
    topic = new_topic(partitions=2)
    confluent = Confluent(broker.bootstrap)
    dead = confluent.producer(f"{topic}-dead", timeout_ms=1000)
    dead.begin_transaction()
    dead.produce(topic, b"dead", partition=0)
    dead.flush(PATIENCE)
    began = time.monotonic()
    confluent.write(f"{topic}-living", topic, [([b"living"], True)])

    shown = wait_until(
        lambda: read(broker.bootstrap, topic, committed=True), "what the living one committed"
    )

    assert shown == [b"living"]
    assert time.monotonic() - began < 40  # not the minute that is the client's default


@pytest.mark.java
def test_kafkas_own_copier_copies_exactly_once(
    broker: Broker, kafka_tools: KafkaTools, new_topic: NewTopic
) -> None:
    """TransactionalMessageCopier: consume, transform, produce, with the group's offsets."""
    topic = new_topic(partitions=2)
    source, target = topic, f"{topic}-copy"
    confluent = Confluent(broker.bootstrap)
    values = [b"%03d" % number for number in range(100)]
    confluent.write(f"{topic}-fill", source, [(values, True)])
    Maker(broker.bootstrap).create(target, 2, {})
    settle(broker, target, 2)

    kafka_tools.run(
        "TransactionalMessageCopier",
        *("--broker-list", broker.bootstrap, "--transactional-id", f"{topic}-copier"),
        *("--input-topic", source, "--input-partition", "0", "--output-topic", target),
        *("--consumer-group", f"{topic}-copiers", "--max-messages", "50"),
        *("--transaction-size", "10", "--enable-random-aborts", "--use-group-metadata"),
    )

    assert read(broker.bootstrap, target, committed=True) == values[::2]
    assert committed_offset(broker.bootstrap, f"{topic}-copiers", source) == 50

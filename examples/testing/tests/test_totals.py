"""Orders are summed up: with kafka-python, on a topic of each test's own."""

import pytest
from shop.totals import place_orders, sum_orders

from siltstone.testing import Kafka

ORDERS = [("ada", 3), ("bob", 5), ("ada", 4)]


def test_orders_are_summed_by_customer(kafka: Kafka, kafka_topic: str) -> None:
    """The plainest test: a topic, some records, and the code that reads them."""
    place_orders(kafka.bootstrap_servers, kafka_topic, ORDERS)

    assert sum_orders(kafka.bootstrap_servers, kafka_topic) == {"ada": 7, "bob": 5}


@pytest.mark.kafka_topic(partitions=3)
def test_all_partitions_are_read(kafka: Kafka, kafka_topic: str) -> None:
    """The marker says what the topic is like."""
    place_orders(kafka.bootstrap_servers, kafka_topic, ORDERS)

    assert sum_orders(kafka.bootstrap_servers, kafka_topic) == {"ada": 7, "bob": 5}


def test_a_group_goes_on_where_it_was(kafka: Kafka, kafka_topic: str) -> None:
    """Groups of a test are gone after it, as its topics are."""
    place_orders(kafka.bootstrap_servers, kafka_topic, ORDERS)
    sum_orders(kafka.bootstrap_servers, kafka_topic, group="billing")
    place_orders(kafka.bootstrap_servers, kafka_topic, [("bob", 1)])

    assert sum_orders(kafka.bootstrap_servers, kafka_topic, group="billing") == {"bob": 1}


@pytest.mark.kafka_topic(config={"retention.ms": 24 * 3_600_000})
def test_yesterdays_orders_are_gone(kafka: Kafka, kafka_topic: str) -> None:
    """A day passes for the broker, in milliseconds."""
    place_orders(kafka.bootstrap_servers, kafka_topic, ORDERS)

    kafka.clock.advance(hours=25)

    assert sum_orders(kafka.bootstrap_servers, kafka_topic) == {}

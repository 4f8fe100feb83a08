"""Events are published, or their sender is told: with confluent-kafka, and a broker in trouble."""

import threading

import pytest
from shop.outbox import Outbox, PublishError

from siltstone.testing import Kafka


def test_it_tries_again_when_the_leader_moves(kafka: Kafka, kafka_topic: str) -> None:
    """Two requests fail with an error of Kafka's that a client may try again."""
    outbox = Outbox(kafka.bootstrap_servers, kafka_topic)
    kafka.fail_next("Produce", error="NOT_LEADER_OR_FOLLOWER", times=2)

    assert outbox.publish(b"shipped") == 0


def test_a_refused_event_is_told(kafka: Kafka, kafka_topic: str) -> None:
    """One that it may not try again."""
    outbox = Outbox(kafka.bootstrap_servers, kafka_topic)
    kafka.fail_next("Produce", error="INVALID_RECORD", topic=kafka_topic)

    with pytest.raises(PublishError, match="failed to validate record"):
        outbox.publish(b"shipped")


def test_a_broker_that_does_not_answer_is_told(kafka: Kafka, kafka_topic: str) -> None:
    """The connection stays, and nothing comes; the next test finds the broker awake."""
    outbox = Outbox(kafka.bootstrap_servers, kafka_topic, patience=0.3)
    kafka.pause()

    with pytest.raises(PublishError):
        outbox.publish(b"shipped")


def test_it_outlives_a_broker(kafka: Kafka, kafka_topic: str) -> None:
    """The broker comes back on the same address, with what it had acknowledged."""
    outbox = Outbox(kafka.bootstrap_servers, kafka_topic)
    outbox.publish(b"paid")

    kafka.kill()
    restart = threading.Thread(target=kafka.restart)
    restart.start()

    assert outbox.publish(b"shipped") == 1
    restart.join()

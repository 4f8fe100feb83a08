"""Events that leave the shop, with confluent-kafka: an event is out, or its sender is told."""

from __future__ import annotations

from confluent_kafka import KafkaError, Message, Producer


class PublishError(Exception):
    """An event did not leave; the text says why."""


class Outbox:
    """Publishes one event at a time, and tries again what may be tried again."""

    def __init__(self, bootstrap_servers: str, topic: str, patience: float = 10.0) -> None:
        self._topic = topic
        self._producer = Producer(
            {
                "bootstrap.servers": bootstrap_servers,
                "message.timeout.ms": int(patience * 1000),
                "retry.backoff.ms": 10,
                "reconnect.backoff.ms": 10,
                "linger.ms": 0,
            }
        )

    def publish(self, event: bytes) -> int:
        """Return the offset of an event that is published.

        Raises:
            PublishError: The broker refuses it, or does not answer in time.
        """
        reports: list[tuple[KafkaError | None, Message]] = []
        self._producer.produce(
            self._topic, event, on_delivery=lambda error, message: reports.append((error, message))
        )
        self._producer.flush()
        ((error, message),) = reports
        if error is not None:
            raise PublishError(error.str())
        return message.offset() or 0

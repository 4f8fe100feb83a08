"""confluent-kafka (librdkafka) as a Client."""

from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any

from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition
from confluent_kafka import Message as Delivered
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewPartitions,
    NewTopic,
)

from tests.support.clients.client import SMALL_BATCH, SMALL_FETCH, Codec
from tests.support.messages import Message, Stored
from tests.support.waiting import PATIENCE


class Confluent:
    """confluent-kafka at one broker."""

    name = "confluent-kafka"

    def __init__(
        self, bootstrap: str, settings: Mapping[str, str | int | bool] | None = None
    ) -> None:
        self.bootstrap = bootstrap
        self.settings = dict(settings or {})

    def produce(
        self,
        topic: str,
        messages: Sequence[Message],
        *,
        codec: Codec = "none",
        acks: int = -1,
        idempotent: bool = False,
    ) -> list[int]:
        producer = Producer(
            {
                "bootstrap.servers": self.bootstrap,
                "compression.type": codec,
                "acks": acks,
                "enable.idempotence": idempotent,
                "batch.size": SMALL_BATCH,
                "linger.ms": 20,
            }
        )
        offsets: list[int] = []
        faults: list[KafkaError] = []

        def delivered(fault: KafkaError | None, message: Delivered) -> None:
            if fault is not None:
                faults.append(fault)
            elif acks:
                offsets.append(message.offset() or 0)

        for each in messages:
            producer.produce(
                topic,
                key=each.key,
                value=each.value,
                headers=list(each.headers),
                timestamp=each.timestamp,
                partition=0,
                on_delivery=delivered,
            )
        left = producer.flush(PATIENCE)
        if faults:
            raise KafkaException(faults[0])
        if left:
            raise TimeoutError(f"{left} of {len(messages)} messages not acknowledged")
        return offsets

    def read(self, topic: str, start: int, count: int) -> list[Stored]:
        consumer = self._consumer()
        try:
            consumer.assign([TopicPartition(topic, 0, start)])
            return _take(consumer, count)
        finally:
            consumer.close()

    def read_from_time(self, topic: str, timestamp: int, count: int) -> list[Stored]:
        consumer = self._consumer()
        try:
            found = consumer.offsets_for_times([TopicPartition(topic, 0, timestamp)], PATIENCE)
            if found[0].offset < 0:
                return []
            consumer.assign(found)
            return _take(consumer, count)
        finally:
            consumer.close()

    def bounds(self, topic: str) -> tuple[int, int]:
        consumer = self._consumer()
        try:
            low, high = consumer.get_watermark_offsets(TopicPartition(topic, 0), PATIENCE)
        finally:
            consumer.close()
        return low, high

    def create(self, topic: str, partitions: int, configs: Mapping[str, str]) -> None:
        new = NewTopic(topic, num_partitions=partitions, config=dict(configs))
        _wait(self._admin.create_topics([new]))

    def partitions(self, topic: str) -> list[int]:
        described = self._admin.list_topics(topic, PATIENCE).topics[topic]
        if described.error is not None:
            raise KafkaException(described.error)
        return sorted(p.id for p in described.partitions.values() if p.leader >= 0)

    def add_partitions(self, topic: str, total: int) -> None:
        _wait(self._admin.create_partitions([NewPartitions(topic, total)]))

    def topics(self) -> set[str]:
        return set(self._admin.list_topics(timeout=PATIENCE).topics)

    def delete(self, topic: str) -> None:
        _wait(self._admin.delete_topics([topic]))

    def configs(self, topic: str) -> dict[str, str]:
        resource = ConfigResource(ConfigResource.Type.TOPIC, topic)
        entries = _wait(self._admin.describe_configs([resource]))
        return {name: entry.value for name, entry in entries.items()}

    def alter(self, topic: str, configs: Mapping[str, str]) -> None:
        changes = [
            ConfigEntry(name, value, incremental_operation=AlterConfigOpType.SET)
            for name, value in configs.items()
        ]
        resource = ConfigResource(ConfigResource.Type.TOPIC, topic, incremental_configs=changes)
        _wait(self._admin.incremental_alter_configs([resource]))

    def delete_records(self, topic: str, before: int) -> int:
        deleted = _wait(self._admin.delete_records([TopicPartition(topic, 0, before)]))
        return int(deleted.low_watermark)

    @cached_property
    def _admin(self) -> AdminClient:
        return AdminClient({"bootstrap.servers": self.bootstrap, **self.settings})

    def _consumer(self) -> Consumer:
        return Consumer(
            {
                "bootstrap.servers": self.bootstrap,
                "group.id": "never-joined",
                "enable.auto.commit": False,
                "auto.offset.reset": "error",
                "fetch.message.max.bytes": SMALL_FETCH,
                "fetch.wait.max.ms": 100,
            }
        )


def _wait(futures: dict[Any, Any]) -> Any:
    (future,) = futures.values()
    return future.result(PATIENCE)


def _take(consumer: Consumer, count: int) -> list[Stored]:
    taken: list[Stored] = []
    while len(taken) < count:
        message = consumer.poll(PATIENCE)
        if message is None:
            raise TimeoutError(f"{len(taken)} of {count} records after {PATIENCE} s")
        if (fault := message.error()) is not None:
            raise KafkaException(fault)
        taken.append(
            Stored(
                offset=message.offset() or 0,
                message=Message(
                    key=message.key(),
                    value=message.value(),
                    headers=_headers(message),
                    timestamp=message.timestamp()[1],
                ),
            )
        )
    return taken


def _headers(message: Delivered) -> tuple[tuple[str, bytes | None], ...]:
    found: Any = message.headers() or ()
    return tuple(found)

"""kafka-python as a Client."""

from collections.abc import Mapping, Sequence
from typing import Any

from kafka import KafkaConsumer, KafkaProducer, TopicPartition
from kafka.admin import ConfigResource, ConfigResourceType, KafkaAdminClient
from kafka.errors import KafkaError

from tests.support.clients.client import SMALL_BATCH, SMALL_FETCH, Codec
from tests.support.messages import Message, Stored
from tests.support.waiting import PATIENCE


class KafkaPython:
    """kafka-python at one broker."""

    name = "kafka-python"

    def __init__(self, bootstrap: str) -> None:
        self.bootstrap = bootstrap

    def produce(
        self,
        topic: str,
        messages: Sequence[Message],
        *,
        codec: Codec = "none",
        acks: int = -1,
        idempotent: bool = False,
    ) -> list[int]:
        producer = KafkaProducer(
            bootstrap_servers=self.bootstrap,
            compression_type=None if codec == "none" else codec,
            acks=acks,
            enable_idempotence=idempotent,
            batch_size=SMALL_BATCH,
            linger_ms=20,
        )
        try:
            sent = [
                producer.send(
                    topic,
                    key=each.key,
                    value=each.value,
                    headers=list(each.headers),
                    timestamp_ms=each.timestamp,
                    partition=0,
                )
                for each in messages
            ]
            producer.flush(PATIENCE)
            delivered = [future.get(PATIENCE) for future in sent]
        finally:
            producer.close()
        return [each.offset for each in delivered] if acks else []

    def read(self, topic: str, start: int, count: int) -> list[Stored]:
        consumer = self._consumer()
        try:
            partition = TopicPartition(topic, 0)
            consumer.assign([partition])
            consumer.seek(partition, start)
            return _take(consumer, count)
        finally:
            consumer.close()

    def read_from_time(self, topic: str, timestamp: int, count: int) -> list[Stored]:
        consumer = self._consumer()
        try:
            partition = TopicPartition(topic, 0)
            found = consumer.offsets_for_times({partition: timestamp})[partition]
            if found is None:
                return []
            consumer.assign([partition])
            consumer.seek(partition, found.offset)
            return _take(consumer, count)
        finally:
            consumer.close()

    def bounds(self, topic: str) -> tuple[int, int]:
        consumer = self._consumer()
        try:
            partition = TopicPartition(topic, 0)
            low = consumer.beginning_offsets([partition])[partition]
            high = consumer.end_offsets([partition])[partition]
        finally:
            consumer.close()
        return low, high

    def create(self, topic: str, partitions: int, configs: Mapping[str, str]) -> None:
        with self._admin() as admin:
            admin.create_topics({topic: {"num_partitions": partitions, "configs": dict(configs)}})

    def partitions(self, topic: str) -> list[int]:
        with self._admin() as admin:
            (described,) = admin.describe_topics([topic])
        return sorted(
            each["partition_index"] for each in described["partitions"] if each["leader_id"] >= 0
        )

    def add_partitions(self, topic: str, total: int) -> None:
        with self._admin() as admin:
            admin.create_partitions({topic: total})

    def topics(self) -> set[str]:
        with self._admin() as admin:
            return set(admin.list_topics())

    def delete(self, topic: str) -> None:
        with self._admin() as admin:
            admin.delete_topics([topic])

    def configs(self, topic: str) -> dict[str, str]:
        resource = ConfigResource(ConfigResourceType.TOPIC, topic)
        with self._admin() as admin:
            described = admin.describe_configs([resource], config_filter="all")
        return {name: entry["value"] for name, entry in described["topic"][topic].items()}

    def alter(self, topic: str, configs: Mapping[str, str]) -> None:
        resource = ConfigResource(ConfigResourceType.TOPIC, topic, configs=dict(configs))
        with self._admin() as admin:
            altered = admin.alter_configs([resource], raise_on_unknown=False)
        if (answer := altered["topic"][topic]) != "OK":
            raise KafkaError(answer)

    def delete_records(self, topic: str, before: int) -> int:
        partition = TopicPartition(topic, 0)
        with self._admin() as admin:
            deleted: dict[str, Any] = admin.delete_records({partition: before})[partition]
        return int(deleted["low_watermark"])

    def _admin(self) -> KafkaAdminClient:
        return KafkaAdminClient(bootstrap_servers=self.bootstrap)

    def _consumer(self) -> KafkaConsumer:
        return KafkaConsumer(
            bootstrap_servers=self.bootstrap,
            group_id=None,
            enable_auto_commit=False,
            auto_offset_reset="none",
            max_partition_fetch_bytes=SMALL_FETCH,
            fetch_max_wait_ms=100,
            consumer_timeout_ms=int(PATIENCE * 1000),
        )


def _take(consumer: KafkaConsumer, count: int) -> list[Stored]:
    taken: list[Stored] = []
    while len(taken) < count:
        record = next(consumer)
        taken.append(
            Stored(
                offset=record.offset,
                message=Message(
                    key=record.key,
                    value=record.value,
                    headers=tuple(record.headers),
                    timestamp=record.timestamp,
                ),
            )
        )
    return taken

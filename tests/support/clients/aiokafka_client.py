"""aiokafka as a Client: each call runs an event loop of its own."""

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
from aiokafka.admin import AIOKafkaAdminClient, NewPartitions, NewTopic, RecordsToDelete
from aiokafka.admin.config_resource import ConfigResource, ConfigResourceType
from aiokafka.errors import for_code

from tests.support.clients.client import SMALL_BATCH, SMALL_FETCH, Codec
from tests.support.messages import Message, Stored
from tests.support.waiting import within


class Aiokafka:
    """aiokafka at one broker."""

    name = "aiokafka"

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
        return asyncio.run(
            self._produce(topic, messages, codec=codec, acks=acks, idempotent=idempotent)
        )

    def read(self, topic: str, start: int, count: int) -> list[Stored]:
        async def work() -> list[Stored]:
            async with self._consumer(topic) as consumer:
                consumer.seek(TopicPartition(topic, 0), start)
                return await _take(consumer, count)

        return asyncio.run(work())

    def read_from_time(self, topic: str, timestamp: int, count: int) -> list[Stored]:
        async def work() -> list[Stored]:
            partition = TopicPartition(topic, 0)
            async with self._consumer(topic) as consumer:
                found = (await consumer.offsets_for_times({partition: timestamp}))[partition]
                if found is None:
                    return []
                consumer.seek(partition, found.offset)
                return await _take(consumer, count)

        return asyncio.run(work())

    def bounds(self, topic: str) -> tuple[int, int]:
        async def work() -> tuple[int, int]:
            partition = TopicPartition(topic, 0)
            async with self._consumer(topic) as consumer:
                low = await consumer.beginning_offsets([partition])
                high = await consumer.end_offsets([partition])
            return low[partition], high[partition]

        return asyncio.run(work())

    def create(self, topic: str, partitions: int, configs: Mapping[str, str]) -> None:
        new = NewTopic(topic, partitions, 1, topic_configs=dict(configs))
        answer = self._ask(lambda admin: admin.create_topics([new]))
        _check(answer.topic_errors)

    def partitions(self, topic: str) -> list[int]:
        (described,) = self._ask(lambda admin: admin.describe_topics([topic]))
        _check([(topic, described["error_code"])])
        return sorted(each["partition"] for each in described["partitions"] if each["leader"] >= 0)

    def add_partitions(self, topic: str, total: int) -> None:
        self._ask(lambda admin: admin.create_partitions({topic: NewPartitions(total)}))

    def topics(self) -> set[str]:
        return set(self._ask(lambda admin: admin.list_topics()))

    def delete(self, topic: str) -> None:
        answer = self._ask(lambda admin: admin.delete_topics([topic]))
        _check(answer.topic_error_codes)

    def configs(self, topic: str) -> dict[str, str]:
        resource = ConfigResource(ConfigResourceType.TOPIC, topic)
        (answer,) = self._ask(lambda admin: admin.describe_configs([resource]))
        (described,) = answer.resources
        _check([(topic, described[0])])
        return {entry[0]: entry[1] for entry in described[4]}

    def alter(self, topic: str, configs: Mapping[str, str]) -> None:
        resource = ConfigResource(ConfigResourceType.TOPIC, topic, configs=dict(configs))
        (answer,) = self._ask(lambda admin: admin.alter_configs([resource]))
        _check([(topic, each[0]) for each in answer.resources])

    def delete_records(self, topic: str, before: int) -> int:
        partition = TopicPartition(topic, 0)
        wanted = {partition: RecordsToDelete(before)}
        return int(self._ask(lambda admin: admin.delete_records(wanted))[partition])

    async def _produce(
        self, topic: str, messages: Sequence[Message], *, codec: Codec, acks: int, idempotent: bool
    ) -> list[int]:
        producer = AIOKafkaProducer(
            bootstrap_servers=self.bootstrap,
            compression_type=None if codec == "none" else codec,
            acks=acks,
            enable_idempotence=idempotent,
            max_batch_size=SMALL_BATCH,
            linger_ms=20,
        )
        await producer.start()
        try:
            sent = [
                await producer.send(
                    topic,
                    key=each.key,
                    value=each.value,
                    headers=list(each.headers),
                    timestamp_ms=each.timestamp,
                    partition=0,
                )
                for each in messages
            ]
            await producer.flush()
            delivered = [await future for future in sent]
        finally:
            await producer.stop()
        return [each.offset for each in delivered] if acks else []

    @asynccontextmanager
    async def _consumer(self, topic: str) -> AsyncIterator[AIOKafkaConsumer]:
        consumer = AIOKafkaConsumer(
            bootstrap_servers=self.bootstrap,
            group_id=None,
            auto_offset_reset="none",
            max_partition_fetch_bytes=SMALL_FETCH,
            fetch_max_wait_ms=100,
        )
        await consumer.start()
        try:
            consumer.assign([TopicPartition(topic, 0)])
            yield consumer
        finally:
            await consumer.stop()

    def _ask(self, question: Any) -> Any:
        async def work() -> Any:
            admin = AIOKafkaAdminClient(bootstrap_servers=self.bootstrap)
            await admin.start()
            try:
                return await question(admin)
            finally:
                await admin.close()

        return asyncio.run(work())


def _check(answers: Sequence[Sequence[Any]]) -> None:
    for name, code, *_ in answers:
        if code:
            raise for_code(code)(f"{name}: error {code}")


async def _take(consumer: AIOKafkaConsumer, count: int) -> list[Stored]:
    taken: list[Stored] = []
    while len(taken) < count:
        record = await within(consumer.getone(), "the next record")
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

"""Transactions through each client library, one call for a whole one."""

import asyncio
from collections.abc import Sequence
from contextlib import closing
from typing import Any, Protocol

import confluent_kafka
from aiokafka import AIOKafkaProducer
from aiokafka.structs import TopicPartition as AioTopicPartition
from kafka import KafkaProducer
from kafka import TopicPartition as PyTopicPartition
from kafka.structs import OffsetAndMetadata

from tests.support.waiting import PATIENCE

TRANSACTION_TIMEOUT_MS = 30_000


class Transactional(Protocol):
    """A client library, as a test of transactions needs it."""

    name: str

    def write(
        self,
        transactional_id: str,
        topic: str,
        transactions: Sequence[tuple[Sequence[bytes], bool]],
        consumed: tuple[str, str, int] | None = None,
    ) -> None:
        """Write transactions as one producer: values to partitions in turn, and whether to commit.

        ``consumed`` is (group, topic, offset of partition 0), committed with each transaction.
        """


class Confluent:
    """librdkafka."""

    name = "confluent-kafka"

    def __init__(self, bootstrap: str) -> None:
        self.bootstrap = bootstrap

    def producer(self, transactional_id: str, timeout_ms: int = TRANSACTION_TIMEOUT_MS) -> Any:
        """Return a producer that has begun its epoch."""
        made = confluent_kafka.Producer(
            {
                "bootstrap.servers": self.bootstrap,
                "transactional.id": transactional_id,
                "transaction.timeout.ms": timeout_ms,
            }
        )
        made.init_transactions(PATIENCE)
        return made

    def write(
        self,
        transactional_id: str,
        topic: str,
        transactions: Sequence[tuple[Sequence[bytes], bool]],
        consumed: tuple[str, str, int] | None = None,
    ) -> None:
        producer = self.producer(transactional_id)
        for values, commit in transactions:
            producer.begin_transaction()
            for number, value in enumerate(values):
                producer.produce(topic, value, partition=number % 2)
            if consumed is not None:
                group, source, offset = consumed
                consumer = confluent_kafka.Consumer(
                    {"bootstrap.servers": self.bootstrap, "group.id": group}
                )
                producer.send_offsets_to_transaction(
                    [confluent_kafka.TopicPartition(source, 0, offset)],
                    consumer.consumer_group_metadata(),
                    PATIENCE,
                )
                consumer.close()
            producer.flush(PATIENCE)  # so that an abort has records to remove
            if commit:
                producer.commit_transaction(PATIENCE)
            else:
                producer.abort_transaction(PATIENCE)


class KafkaPython:
    """kafka-python."""

    name = "kafka-python"

    def __init__(self, bootstrap: str) -> None:
        self.bootstrap = bootstrap

    def write(
        self,
        transactional_id: str,
        topic: str,
        transactions: Sequence[tuple[Sequence[bytes], bool]],
        consumed: tuple[str, str, int] | None = None,
    ) -> None:
        with closing(
            KafkaProducer(
                bootstrap_servers=self.bootstrap,
                transactional_id=transactional_id,
                transaction_timeout_ms=TRANSACTION_TIMEOUT_MS,
            )
        ) as producer:
            producer.init_transactions()
            for values, commit in transactions:
                producer.begin_transaction()
                for number, value in enumerate(values):
                    producer.send(topic, value, partition=number % 2)
                if consumed is not None:
                    group, source, offset = consumed
                    producer.send_offsets_to_transaction(
                        {PyTopicPartition(source, 0): OffsetAndMetadata(offset, "", -1)}, group
                    )
                producer.flush(PATIENCE)
                if commit:
                    producer.commit_transaction()
                else:
                    producer.abort_transaction()


class Aiokafka:
    """aiokafka."""

    name = "aiokafka"

    def __init__(self, bootstrap: str) -> None:
        self.bootstrap = bootstrap

    def write(
        self,
        transactional_id: str,
        topic: str,
        transactions: Sequence[tuple[Sequence[bytes], bool]],
        consumed: tuple[str, str, int] | None = None,
    ) -> None:
        async def write_all() -> None:
            producer = AIOKafkaProducer(
                bootstrap_servers=self.bootstrap,
                transactional_id=transactional_id,
                transaction_timeout_ms=TRANSACTION_TIMEOUT_MS,
            )
            await producer.start()
            for values, commit in transactions:
                await producer.begin_transaction()
                for number, value in enumerate(values):
                    await producer.send_and_wait(topic, value, partition=number % 2)
                if consumed is not None:
                    group, source, offset = consumed
                    await producer.send_offsets_to_transaction(
                        {AioTopicPartition(source, 0): offset}, group
                    )
                if commit:
                    await producer.commit_transaction()
                else:
                    await producer.abort_transaction()
            await producer.stop()

        asyncio.run(write_all())


def read(bootstrap: str, topic: str, *, committed: bool, partitions: int = 2) -> list[bytes]:
    """Return the values up to the end for this isolation level, sorted."""
    level = "read_committed" if committed else "read_uncommitted"
    consumer = confluent_kafka.Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "reader",
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "isolation.level": level,
        }
    )
    beginning = confluent_kafka.OFFSET_BEGINNING
    consumer.assign(
        [confluent_kafka.TopicPartition(topic, each, beginning) for each in range(partitions)]
    )
    values: list[bytes] = []
    ended: set[int | None] = set()
    while len(ended) < partitions:
        message = consumer.poll(PATIENCE)
        if message is None:
            raise TimeoutError(f"only {len(values)} records and no end of {topic}")
        fault = message.error()
        if fault is None:
            values.append(message.value() or b"")
        elif fault.code() == confluent_kafka.KafkaError._PARTITION_EOF:
            ended.add(message.partition())
        else:
            raise confluent_kafka.KafkaException(fault)
    consumer.close()
    return sorted(values)


def committed_offset(bootstrap: str, group: str, topic: str) -> int:
    """Return the offset that a group has committed for partition 0; negative without one."""
    consumer = confluent_kafka.Consumer({"bootstrap.servers": bootstrap, "group.id": group})
    (found,) = consumer.committed([confluent_kafka.TopicPartition(topic, 0)], PATIENCE)
    consumer.close()
    offset: int = found.offset
    return offset

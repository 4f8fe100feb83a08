"""The dead letters of a queue beside those that Apache Kafka writes."""

from pathlib import Path
from typing import Any, Final

import pytest
from confluent_kafka import Consumer, Producer

from tests.support.clients.confluent import Confluent
from tests.support.kafka import KafkaJars
from tests.support.rows import Asker
from tests.support.side_by_side import both
from tests.support.waiting import wait_until

pytestmark = [pytest.mark.client, pytest.mark.java, pytest.mark.timeout(240)]

SETTINGS: Final = {
    "errors.deadletterqueue.auto.create.topics.enable": "true",
    "share.coordinator.state.topic.num.partitions": "1",
    "offsets.topic.num.partitions": "1",
    "num.partitions": "3",
}
OWN: Final = {
    "errors.deadletterqueue.topic.name": "dlq.g",
    "errors.deadletterqueue.copy.record.enable": "true",
    "share.auto.offset.reset": "earliest",
    "share.delivery.count.limit": "2",
}
MEMBER: Final = "AAAAAAAAAAAAAAAAAAAAAA"
GROUP_RESOURCE: Final = 32
RELEASE, REJECT = 2, 3


def work_off(bootstrap: str) -> list[Any]:
    """Reject two records, release the others twice, and return the letters."""
    Confluent(bootstrap).create("t", 1, {})
    with Asker(bootstrap) as asker:
        _settle(asker)
        _join(asker)
        producer = Producer({"bootstrap.servers": bootstrap, "compression.type": "zstd"})
        for number in range(6):
            producer.produce("t", b"v%d" % number, b"k%d" % number, partition=0)
        assert producer.flush(30) == 0
        session = Session(asker)
        first, last = session.acquire()
        assert (first, last) == (0, 5)
        session.say(0, 1, REJECT)
        session.say(2, 5, RELEASE)
        assert session.acquire() == (2, 5)
        session.say(2, 5, RELEASE)
        return read_letters(bootstrap)


def _settle(asker: Asker) -> None:
    configs = [{"name": name, "config_operation": 0, "value": value} for name, value in OWN.items()]
    resource = {"resource_type": GROUP_RESOURCE, "resource_name": "g", "configs": configs}
    told = asker.ask("IncrementalAlterConfigs", 1, {"resources": [resource]})
    assert told["responses"][0]["error_code"] == 0


def _join(asker: Asker) -> None:
    wait_until(
        lambda: asker.ask("FindCoordinator", 6, {"key_type": 0, "coordinator_keys": ["g"]}),
        "the coordinator",
        lambda told: told["coordinators"][0]["error_code"] == 0,
    )
    values = {"group_id": "g", "member_id": MEMBER, "subscribed_topic_names": ["t"]}
    epoch = 0

    def beat() -> Any:
        nonlocal epoch
        told = asker.ask("ShareGroupHeartbeat", 1, {**values, "member_epoch": epoch})
        epoch = told["member_epoch"] if not told["error_code"] else epoch
        return told

    wait_until(beat, "a partition", lambda told: (told["assignment"] or {}).get("topic_partitions"))


class Session:
    """The share session of the member."""

    def __init__(self, asker: Asker) -> None:
        self.asker = asker
        self.epoch = 0
        told = asker.ask("Metadata", 12, {"topics": [{"name": "t"}]})
        self.topic_id = told["topics"][0]["topic_id"]

    def acquire(self) -> tuple[int, int]:
        """Return the first and the last offset of the records that were acquired."""

        def fetch() -> list[Any]:
            topics = [{"topic_id": self.topic_id, "partitions": [{"partition_index": 0}]}]
            told = self.asker.ask(
                "ShareFetch",
                1,
                {
                    "group_id": "g",
                    "member_id": MEMBER,
                    "share_session_epoch": self.epoch,
                    "max_wait_ms": 500,
                    "min_bytes": 1,
                    "max_bytes": 1 << 20,
                    "max_records": 500,
                    "batch_size": 500,
                    "topics": [] if self.epoch else topics,
                },
            )
            if not told["error_code"]:
                self.epoch += 1
            return [
                row
                for topic in told["responses"]
                for partition in topic["partitions"]
                for row in partition["acquired_records"]
            ]

        rows = wait_until(fetch, "records")
        return rows[0]["first_offset"], rows[-1]["last_offset"]

    def say(self, first: int, last: int, kind: int) -> None:
        """Acknowledge a range."""
        batch = {"first_offset": first, "last_offset": last, "acknowledge_types": [kind]}
        partition = {"partition_index": 0, "acknowledgement_batches": [batch]}
        topics = [{"topic_id": self.topic_id, "partitions": [partition]}]
        told = self.asker.ask(
            "ShareAcknowledge",
            1,
            {
                "group_id": "g",
                "member_id": MEMBER,
                "share_session_epoch": self.epoch,
                "topics": topics,
            },
        )
        self.epoch += 1
        assert not told["error_code"]
        assert not told["responses"][0]["partitions"][0]["error_code"]


def read_letters(bootstrap: str) -> list[Any]:
    """Return partition, key, value and headers of the six letters, by the offset they tell."""
    consumer = Consumer(
        {"bootstrap.servers": bootstrap, "group.id": "readers", "auto.offset.reset": "earliest",
         "topic.metadata.refresh.interval.ms": "500"}
    )  # fmt: skip
    consumer.subscribe(["^dlq[.].*"])
    letters: list[Any] = []

    def poll() -> int:
        message = consumer.poll(0.5)
        if message is not None and not message.error():
            row = message.partition(), message.key(), message.value(), message.headers()
            letters.append(row)
        return len(letters)

    wait_until(poll, "six letters", lambda count: count >= 6)
    consumer.close()
    return sorted(letters, key=lambda row: row[3][2])


def test_the_letters_are_kafkas(kafka_jars: KafkaJars, tmp_path: Path) -> None:
    """Key, value, headers in their order, and the partition."""
    with both(kafka_jars, tmp_path, SETTINGS) as (ours, theirs):
        mine, other = work_off(ours.bootstrap), work_off(theirs.bootstrap)

    assert mine == other
    assert [row[1] for row in mine] == [b"k%d" % number for number in range(6)]

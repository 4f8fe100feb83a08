"""Groups of both protocols that move between Apache Kafka and our broker, in one folder."""

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, ConsumerGroupTopicPartitions, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient

from tests.support.broker import SiltstoneProcess
from tests.support.clients.confluent import Confluent
from tests.support.kafka import KafkaBroker
from tests.support.waiting import wait_until

pytestmark = [pytest.mark.client, pytest.mark.java, pytest.mark.timeout(240)]

LONG = "300000"  # nobody is missed while the folder moves
SETTINGS = {
    "offsets.topic.num.partitions": "1",
    "group.initial.rebalance.delay.ms": "0",
    "group.consumer.heartbeat.interval.ms": "200",
    "group.consumer.min.heartbeat.interval.ms": "100",
    "group.consumer.session.timeout.ms": LONG,
    "group.consumer.max.session.timeout.ms": LONG,
}
FOLDERS = ("__consumer_offsets-0", "topic-1-0", "topic-1-1")


class Group:
    """A consumer group of one static classic member and one of KIP-848, a partition each."""

    def __init__(self, name: str, bootstrap: str) -> None:
        common = {"bootstrap.servers": bootstrap, "group.id": name}
        classic = {"group.instance.id": "i", "session.timeout.ms": int(LONG)}
        self.classic = Consumer({**common, **classic})
        self.modern = Consumer({**common, "group.protocol": "consumer", "client.rack": "r"})

    def settle(self) -> None:
        """Have the classic member begin and the other one join it, then commit an offset."""
        self.classic.subscribe(["topic-1"])
        self._poll(lambda: len(self.classic.assignment()) == 2, self.classic)
        self.modern.subscribe(["topic-1"])
        self._poll(
            lambda: len(self.classic.assignment()) == len(self.modern.assignment()) == 1,
            self.classic,
            self.modern,
        )
        mine = self.modern.assignment()[0].partition
        self.modern.commit(
            offsets=[TopicPartition("topic-1", mine, 7, "noted")], asynchronous=False
        )

    def _poll(self, holds: Callable[[], bool], *members: Consumer) -> None:
        def look() -> list[Any]:
            for member in members:
                member.poll(0.02)
            return [each.assignment() for each in members]

        wait_until(look, "the members' partitions", lambda _: holds())

    def close(self) -> None:
        """Let the clients go, whose broker is gone."""
        self.classic.close()
        self.modern.close()


def describe(bootstrap: str, name: str) -> dict[str, Any]:
    """Return what an administrator sees of a group, and what it has committed."""
    admin = AdminClient({"bootstrap.servers": bootstrap})

    def look() -> tuple[Any, Any]:
        group = admin.describe_consumer_groups([name])[name].result()
        asked = [ConsumerGroupTopicPartitions(name)]
        return group, admin.list_consumer_group_offsets(asked)[name].result()

    group, offsets = wait_until(look, f"{bootstrap} to describe {name}", despite=KafkaException)
    return {
        "state": group.state,
        "type": group.type,
        "assignor": group.partition_assignor,
        "members": {
            (
                each.member_id,
                each.client_id,
                each.group_instance_id,
                partitions(each.assignment),
                partitions(each.target_assignment),
            )
            for each in group.members
        },
        "offsets": {
            (each.topic, each.partition, each.offset, each.metadata.rstrip("\0"))
            for each in offsets.topic_partitions
        },
    }


def partitions(assignment: Any) -> tuple[tuple[str, int], ...]:
    """Return the partitions of an assignment, sorted."""
    held = assignment.topic_partitions if assignment else ()
    return tuple(sorted((each.topic, each.partition) for each in held))


def copy(source: Path, target: Path) -> None:
    """Put the folders of one broker into the place of the other's."""
    for name in FOLDERS:
        shutil.rmtree(target / name, ignore_errors=True)
        shutil.copytree(source / name, target / name)


def test_groups_live_on(siltstone: SiltstoneProcess, kafka_broker: KafkaBroker) -> None:
    """Kafka's group on our broker and ours on Kafka: members, assignments, epochs, offsets."""
    kafka_broker.settings |= SETTINGS
    siltstone.settings |= SETTINGS
    kafka_broker.start()
    Confluent(kafka_broker.bootstrap).create("topic-1", 2, {})
    theirs = Group("theirs", kafka_broker.bootstrap)
    theirs.settle()
    on_kafka = describe(kafka_broker.bootstrap, "theirs")
    kafka_broker.stop()
    theirs.close()

    copy(kafka_broker.folder, siltstone.folder)
    siltstone.start()
    assert describe(siltstone.bootstrap, "theirs") == on_kafka
    ours = Group("ours", siltstone.bootstrap)
    ours.settle()
    on_ours = describe(siltstone.bootstrap, "ours")
    siltstone.kill()
    ours.close()

    copy(siltstone.folder, kafka_broker.folder)
    kafka_broker.start()
    assert describe(kafka_broker.bootstrap, "theirs") == on_kafka
    assert describe(kafka_broker.bootstrap, "ours") == on_ours
    for said in (on_kafka, on_ours):
        assert [len(held) for *_, held, _ in sorted(said["members"])] == [1, 1]
        assert {each[2] for each in said["members"]} == {"i", None}
        assert [offset for _, _, offset, _ in said["offsets"]] == [7]

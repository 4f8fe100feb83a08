"""Kafka's dump tool reads what groups wrote into `__consumer_offsets`."""

import json
import re
from typing import Any

import pytest
from confluent_kafka import Consumer, TopicPartition

from tests.support.broker import SiltstoneProcess
from tests.support.clients.confluent import Confluent
from tests.support.kafka import KafkaTools
from tests.support.members import poll_assigned
from tests.support.waiting import equals, wait_until

pytestmark = [pytest.mark.client, pytest.mark.java, pytest.mark.timeout(120)]

SETTINGS = {
    "offsets.topic.num.partitions": "1",
    "group.initial.rebalance.delay.ms": "0",
    "group.consumer.assignment.interval.ms": "0",
    "group.consumer.heartbeat.interval.ms": "200",
    "group.consumer.min.heartbeat.interval.ms": "100",
}


def settle(partitions: int, *members: Consumer) -> None:
    """Poll members until each has so many partitions."""
    wait_until(
        lambda: [poll_assigned(member) for member in members],
        f"{partitions} partitions each",
        equals([partitions] * len(members)),
    )


def dump(tools: KafkaTools, broker: SiltstoneProcess) -> list[tuple[int, Any, Any, Any]]:
    """Return type, key, version and value of every record, as Kafka's decoder prints them."""
    [log] = sorted((broker.folder / "__consumer_offsets-0").glob("*.log"))
    printed = tools.run("DumpLogSegments", "--offsets-decoder", "--files", str(log))
    rows = re.findall(r" key: (\{.*\}) payload: (.*)$", printed, re.MULTILINE)
    records = []
    for key, payload in rows:
        said = json.loads(key)
        value = {"version": None, "data": None} if payload == "<DELETE>" else json.loads(payload)
        records.append((int(said["type"]), said["data"], value["version"], value["data"]))
    assert len(records) == printed.count(" keySize: ")
    return records


def test_kafkas_decoder_reads_every_record(
    siltstone: SiltstoneProcess, kafka_tools: KafkaTools
) -> None:
    """A classic group that goes up and down again, an expression, offsets: all types, by fields."""
    siltstone.settings |= SETTINGS
    siltstone.start()
    Confluent(siltstone.bootstrap).create("topic-1", 2, {})
    common = {"bootstrap.servers": siltstone.bootstrap, "group.id": "g"}
    classic = Consumer({**common, "group.instance.id": "i", "session.timeout.ms": 6000})
    classic.subscribe(["topic-1"])
    settle(2, classic)
    modern = Consumer({**common, "group.protocol": "consumer", "client.rack": "r"})
    modern.subscribe(["^topic-.*"])
    settle(1, classic, modern)
    modern.commit(offsets=[TopicPartition("topic-1", 0, 7, "noted")], asynchronous=False)
    modern.close()
    settle(2, classic)
    classic.close()
    siltstone.stop()

    records = dump(kafka_tools, siltstone)

    last: dict[tuple[int, str], Any] = {}
    written: dict[int, list[Any]] = {}
    for kind, key, version, value in records:
        assert key["group"] == "g" if kind in {1, 2} else key["groupId"] == "g"
        if value is not None:
            assert version in {"0", "3"}
            written.setdefault(kind, []).append(value)
        last[kind, json.dumps(key)] = value
    assert written.keys() == {1, 2, 3, 5, 6, 7, 8, 16}
    assert {kind for (kind, _), value in last.items() if value is not None} == {1, 2}
    assert written[1][0]["offset"] == 7
    assert written[1][0]["metadata"].rstrip("\0") == "noted"  # the client sends its terminator
    assert written[2][0]["protocolType"] in {"", "consumer"}
    assert all(each["metadataHash"] for each in written[3])
    members = {each["instanceId"]: each for each in written[5]}
    assert members["i"]["classicMemberMetadata"]["sessionTimeoutMs"] == 6000
    assert members[None]["subscribedTopicRegex"] == "(^topic-.*)"
    assert members[None]["rackId"] == "r"
    assert written[6][-1]["assignmentTimestamp"] > 0
    assert {len(each["topicPartitions"]) for each in written[7]} <= {0, 1}
    held = [topic for each in written[8] for topic in each["assignedPartitions"]]
    assert all(len(each["partitions"]) == len(each["assignmentEpochs"]) for each in held)
    assert written[16][0]["topics"] == ["topic-1"]

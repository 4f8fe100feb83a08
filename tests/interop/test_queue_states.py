"""The states of queues beside Apache Kafka: its answers, its records, and a folder that moves."""

import json
import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any, Final
from uuid import UUID

import pytest

from siltstone.protocol.names import uuid_text
from tests.support.broker import SiltstoneProcess
from tests.support.clients.confluent import Confluent
from tests.support.kafka import KafkaBroker, KafkaJars, KafkaTools
from tests.support.rows import Asker
from tests.support.side_by_side import both, compare
from tests.support.waiting import wait_until

pytestmark = [pytest.mark.client, pytest.mark.java, pytest.mark.timeout(240)]

SETTINGS: Final = {
    "share.coordinator.state.topic.num.partitions": "1",
    "share.coordinator.snapshot.update.records.per.snapshot": "4",
}
FOLDERS: Final = ("__share_group_state-0", "t-0", "t-1")
GROUPS: Final = ("g", "a:b", "")
BUSY: Final = {14, 15, 16}
"""The coordinator does not exist yet, or reads its topic."""


class Caller:
    """Sends the persister's requests to one broker, about its topic of two partitions."""

    def __init__(self, asker: Asker) -> None:
        self.asker = asker
        self.topic_id = _find_id(asker)
        self.find("g")

    def find(self, group_id: str) -> Any:
        """Return the answer to FindCoordinator, once it names a broker."""
        text = self._text()
        values = {"key_type": 2, "coordinator_keys": [f"{group_id}:{text}:0"]}
        return wait_until(
            lambda: self.asker.ask("FindCoordinator", 6, values),
            "the coordinator of queues",
            lambda told: told["coordinators"][0]["error_code"] not in BUSY,
        )

    def _text(self) -> str:
        return uuid_text(UUID(bytes=self.topic_id))

    def call(self, what: str, group_id: str, version: int, **fields: Any) -> Any:
        """Return the answer about one partition, once the coordinator is ready."""
        missing = fields.pop("missing", False)
        topic_id = bytes(15) + b"\7" if missing else self.topic_id
        topics = [{"topic_id": topic_id, "partitions": [fields]}]

        def ask() -> Any:
            return self.asker.ask(
                f"{what}ShareGroupState{'Summary' if what == 'Read' and version > 0 else ''}",
                version,
                {"group_id": group_id, "topics": topics},
            )

        answer = wait_until(ask, "an answer of the coordinator", lambda told: not _is_busy(told))
        for result in answer["results"]:
            result["topic_id"] = None
        return answer

    def read_all(self) -> list[Any]:
        """Return all states by the newest leader, and their summaries."""
        return [
            self.call("Read", group_id, version, partition=partition, leader_epoch=99)
            for group_id in GROUPS
            for partition in (0, 1)
            for version in (0, 1)
        ]


def _is_busy(answer: Any) -> bool:
    return any(
        each["error_code"] in BUSY for result in answer["results"] for each in result["partitions"]
    )


def _find_id(asker: Asker) -> bytes:
    told = wait_until(
        lambda: asker.ask("Metadata", 12, {"topics": [{"name": "t"}]}),
        "the topic",
        lambda answer: not answer["topics"][0]["error_code"],
    )
    topic_id: bytes = told["topics"][0]["topic_id"]
    return topic_id


def steps(seed: int, count: int) -> Iterator[tuple[str, str, int, dict[str, Any]]]:
    """Draw calls: mostly such as a leader makes, some with old epochs and odd numbers."""
    numbers = Random(seed)
    for _ in range(count):
        group_id = numbers.choice(GROUPS[:2]) if numbers.random() < 0.95 else ""
        fields: dict[str, Any] = {"partition": numbers.choice((*(0, 1) * 6, -1, 7))}
        epoch = numbers.choice((*(1,) * 12, 0, 2, -1))
        leader = numbers.choice((*(2,) * 12, 0, 1, -1))
        if numbers.random() < 0.04:
            fields["missing"] = True
        match numbers.choice("irwwwwwwwwwwwwds"):
            case "i":
                fields["start_offset"] = numbers.choice((-1, 0, 5))
                fields["state_epoch"] = min(epoch, 1)
                yield "Initialize", group_id, 0, fields
            case "r":
                yield "Read", group_id, 0, fields | {"leader_epoch": leader}
            case "s":
                yield "Read", group_id, 1, fields | {"leader_epoch": leader}
            case "d":
                if numbers.random() < 0.3:
                    yield "Delete", group_id, 0, fields
            case _:
                first = numbers.randrange(40)
                batches = [
                    {
                        "first_offset": at,
                        "last_offset": at + numbers.randrange(6),
                        "delivery_state": numbers.choice((0, 2, 4)),
                        "delivery_count": numbers.choice((1, 1, 2, 3)),
                    }
                    for at in sorted(numbers.sample(range(first, first + 20), 3))
                ][: numbers.randrange(4)]
                fields |= {"state_epoch": epoch, "leader_epoch": leader}
                fields |= {"start_offset": numbers.choice((-1, 0, 5, first)),
                           "state_batches": batches}  # fmt: skip
                if numbers.random() < 0.7:
                    fields["delivery_complete_count"] = numbers.randrange(5)
                yield "Write", group_id, 1, fields


def dump(tools: KafkaTools, folder: Path) -> list[tuple[Any, Any]]:
    """Return key and value of each record of the journal as Kafka's decoder prints them."""
    rows = []
    for log in sorted((folder / "__share_group_state-0").glob("*.log")):
        said = tools.run("DumpLogSegments", "--share-group-state-decoder", "--files", str(log))
        found = re.findall(r" key: (\{.*\}) payload: (.*)$", said, re.MULTILINE)
        assert len(found) == said.count(" keySize: ")
        for key, value in found:
            told = None if value == "<DELETE>" else json.loads(value)
            data = told["data"] if told else {}
            for name in ("createTimestamp", "writeTimestamp"):
                if name in data:
                    data[name] = bool(data[name])
            named = json.loads(key)
            named["data"]["topicId"] = None
            rows.append((named, told))
    return rows


def test_the_same_answers_and_records(
    kafka_jars: KafkaJars, kafka_tools: KafkaTools, tmp_path: Path
) -> None:
    """Six hundred drawn calls: field by field, words too where they are Kafka's own."""
    differences = []
    with (
        both(kafka_jars, tmp_path, SETTINGS) as (ours, theirs),
        Asker(ours.bootstrap) as our_asker,
        Asker(theirs.bootstrap) as their_asker,
    ):
        for each in (ours, theirs):
            Confluent(each.bootstrap).create("t", 2, {})
        mine, other = Caller(our_asker), Caller(their_asker)
        for step in steps(1, 600):
            what, group_id, version, fields = step
            told = mine.call(what, group_id, version, **fields)
            also_told = other.call(what, group_id, version, **fields)
            _leave_out_words_of_codes(told, also_told)
            differences += [f"{step}: {each}" for each in compare(told, also_told)]
        ours.stop()
        theirs.stop()

        assert not differences, "\n".join(differences[:20])
        records = dump(kafka_tools, ours.folder)
        assert len(records) > 100
        assert records == dump(kafka_tools, theirs.folder)


def _leave_out_words_of_codes(told: Any, also_told: Any) -> None:
    """Leave out sentences that Kafka has for each code, where ours are our own."""
    for answer in (told, also_told):
        for result in answer["results"]:
            for each in result["partitions"]:
                if each["error_code"] != 42:
                    each["error_message"] = bool(each["error_message"])


def test_a_folder_moves_to_us_and_back(
    siltstone: SiltstoneProcess, kafka_broker: KafkaBroker
) -> None:
    """The states that Kafka wrote are those that we read, and Kafka goes on with ours."""
    kafka_broker.settings |= SETTINGS
    siltstone.settings |= SETTINGS
    kafka_broker.start()
    Confluent(kafka_broker.bootstrap).create("t", 2, {})
    with Asker(kafka_broker.bootstrap) as asker:
        caller = Caller(asker)
        for what, group_id, version, fields in steps(2, 150):
            caller.call(what, group_id, version, **fields)
        theirs = caller.read_all()
    kafka_broker.stop()

    _copy(kafka_broker.folder, siltstone.folder)
    siltstone.start()
    with Asker(siltstone.bootstrap) as asker:
        caller = Caller(asker)
        assert caller.read_all() == theirs
        for what, group_id, version, fields in steps(3, 150):
            if "leader_epoch" in fields:
                fields["leader_epoch"] = 99
            caller.call(what, group_id, version, **fields)
        ours = caller.read_all()
    siltstone.kill()

    _copy(siltstone.folder, kafka_broker.folder)
    kafka_broker.start()
    with Asker(kafka_broker.bootstrap) as asker:
        assert Caller(asker).read_all() == ours
    assert ours != theirs


def _copy(source: Path, target: Path) -> None:
    for name in FOLDERS:
        shutil.rmtree(target / name, ignore_errors=True)
        shutil.copytree(source / name, target / name)

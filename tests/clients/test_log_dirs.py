"""Partitions that move between log directories, by Kafka's tools and by single requests."""

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.clients.conftest import settle
from tests.support.clients.confluent import Confluent
from tests.support.kafka import KafkaTools
from tests.support.kio_messages import request
from tests.support.messages import sample, stored
from tests.support.oracle import Broker, serving
from tests.support.ports import address_of
from tests.support.running import Caller, Client
from tests.support.waiting import wait_until

pytestmark = [pytest.mark.client, pytest.mark.java]

Dirs = dict[str, dict[str, tuple[int, ...]]]

REASSIGN = "reassign.ReassignPartitionsCommand"


@pytest.fixture
def two_disks(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Broker]:
    """A broker with two log directories, data and more."""
    log_dirs = f"{tmp_path / 'data'},{tmp_path / 'more'}"
    with serving(request, tmp_path, {"log.dirs": log_dirs}) as broker:
        yield broker


def test_answers(two_disks: Broker, tmp_path: Path) -> None:
    """Each partition has its own answer, in both versions."""
    Confluent(two_disks.bootstrap).create("orders", 2, {})
    settle(two_disks, "orders", 2)
    long_name = "x" * 220
    Confluent(two_disks.bootstrap).create(long_name, 1, {})
    settle(two_disks, long_name, 1)
    data = str(tmp_path / "data")
    dirs: Dirs = {
        "/nowhere": {"orders": (0,)},
        "data": {"orders": (0,), "missing": (7,)},
        "": {"missing": (1,)},
        f"{data}/": {"orders": (1,)},
        data: {"missing": (0,), "orders": (5, -1), long_name: (0,)},
    }
    first, second = asyncio.run(_ask(two_disks, dirs))

    assert first == second
    assert second == {
        ("orders", 0): 57,
        ("orders", 1): 57,
        ("orders", 5): 3,
        ("orders", -1): 3,
        ("missing", 0): 3,
        ("missing", 1): 57,
        ("missing", 7): 57,
        (long_name, 0): 17,
    }
    assert asyncio.run(_ask(two_disks, {"/nowhere": {"orders": (0,)}, data: {"orders": (0,)}})) == (
        {("orders", 0): 0},
        {("orders", 0): 0},
    )


def test_a_topic_is_made_where_it_was_wanted(
    two_disks: Broker, kafka_tools: KafkaTools, tmp_path: Path
) -> None:
    """A directory named for a partition that does not exist yet gets it when it is made."""
    for number in range(4):
        place = str(tmp_path / ("data" if number % 2 else "more"))
        wanted: Dirs = {place: {f"later-{number}": (0,)}}
        assert asyncio.run(_ask(two_disks, wanted)) == ({(f"later-{number}", 0): 3},) * 2
    for number in range(4):
        Confluent(two_disks.bootstrap).create(f"later-{number}", 1, {})
        settle(two_disks, f"later-{number}", 1)

    found = _describe(two_disks, kafka_tools)
    assert {name: Path(place).name for name, (place, _) in found.items() if "later" in name} == {
        f"later-{number}-0": "data" if number % 2 else "more" for number in range(4)
    }


def test_reassign_tool_moves_replicas(
    two_disks: Broker, kafka_tools: KafkaTools, tmp_path: Path
) -> None:
    """kafka-reassign-partitions with log_dirs executes, verifies, and nothing is lost."""
    confluent = Confluent(two_disks.bootstrap)
    confluent.create("orders", 2, {})
    settle(two_disks, "orders", 2)
    messages = sample(200)
    confluent.produce("orders", messages)
    before = _describe(two_disks, kafka_tools)
    targets = {
        index: str(tmp_path / ("data" if "more" in before[f"orders-{index}"][0] else "more"))
        for index in range(2)
    }
    plan = tmp_path / "plan.json"
    plan.write_text(
        json.dumps(
            {
                "version": 1,
                "partitions": [
                    {"topic": "orders", "partition": index, "replicas": [1], "log_dirs": [path]}
                    for index, path in targets.items()
                ],
            }
        )
    )
    at = ("--bootstrap-server", two_disks.bootstrap, "--reassignment-json-file", str(plan))
    executed = kafka_tools.run(
        REASSIGN, *at, "--execute", "--replica-alter-log-dirs-throttle", "50000000"
    )

    verified = wait_until(
        lambda: kafka_tools.run(REASSIGN, *at, "--verify"),
        "the end of the reassignment",
        lambda said: "still in progress" not in said,
    )
    after = _describe(two_disks, kafka_tools)

    for index, path in targets.items():
        started = f"Successfully started moving log directory to {path} for replica orders-{index}"
        assert started in executed
        assert f"Reassignment of replica orders-{index}-1 completed successfully." in verified
    assert {name: place for name, (place, _) in after.items() if name.startswith("orders")} == {
        f"orders-{index}": path for index, path in targets.items()
    }
    assert all(partition["isFuture"] is False for _, partition in after.values())
    assert confluent.read("orders", 0, len(messages)) == stored(messages)


def _describe(broker: Broker, tools: KafkaTools) -> dict[str, tuple[str, dict[str, Any]]]:
    """Return the directory of each partition and what kafka-log-dirs says of it."""
    told = tools.run("LogDirsCommand", "--describe", "--bootstrap-server", broker.bootstrap)
    answer = json.loads(told.splitlines()[-1])
    return {
        partition["partition"]: (directory["logDir"], partition)
        for node in answer["brokers"]
        for directory in node["logDirs"]
        for partition in directory["partitions"]
    }


async def _ask(
    broker: Broker, dirs: Dirs
) -> tuple[dict[tuple[str, int], int], dict[tuple[str, int], int]]:
    """Return the error codes that the two versions answer."""
    client = Client(*await asyncio.open_connection(*address_of(broker.bootstrap)))
    caller = Caller(client)
    codes = []
    for version in (1, 2):
        answer = await caller.ask(_request(version, dirs))
        assert len({topic.topic_name for topic in answer.results}) == len(answer.results)
        codes.append(
            {
                (topic.topic_name, each.partition_index): int(each.error_code)
                for topic in answer.results
                for each in topic.partitions
            }
        )
    await client.close()
    return codes[0], codes[1]


def _request(version: int, dirs: Dirs) -> Any:
    rows = [
        {
            "path": path,
            "topics": [{"name": name, "partitions": each} for name, each in topics.items()],
        }
        for path, topics in dirs.items()
    ]
    return request(34, version, dirs=rows)

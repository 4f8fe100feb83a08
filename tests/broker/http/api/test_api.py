"""Answers of /api/ about a running broker."""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from siltstone.broker.http.api import groups
from siltstone.broker.http.api.broker import MAX_ROWS
from siltstone.broker.http.api.topics import MAX_PIECES, Piece, _join
from siltstone.broker.http.control.token import read_address
from siltstone.cleaner.explaining.explanation import Rule
from siltstone.protocol.names import uuid_text
from tests.support.commits import commit
from tests.support.common_requests import software
from tests.support.http_client import Answer, ask
from tests.support.ports import address_of
from tests.support.running import Running, a_broker, running
from tests.support.traffic import Traffic
from tests.support.waiting import give_turns_until

LONG = "x" * 30_000


broker = a_broker("log.cleaner.backoff.ms=10", "log.dirs.reserve.bytes=1000")


async def get(broker: Running, path: str) -> Answer:
    """Return an answer of /api/."""
    address = read_address(broker.logs.directories[0].path)
    assert address is not None
    return await ask(address_of(address)[1], f"/api/{path}")


async def value(broker: Running, path: str) -> dict[str, Any]:
    """Return an answer that is fine."""
    answer = await get(broker, path)
    assert answer.status == 200, answer.body
    told: dict[str, Any] = json.loads(answer.body)
    return told


async def test_overview(broker: Running) -> None:
    """Health, the broker, its disks."""
    told = await value(broker, "overview")

    assert told["ready"]
    assert told["fault"] is None
    assert told["cluster_id"] == broker.logs.cluster_id
    (disk,) = told["disks"]
    assert disk["path"] == str(broker.logs.directories[0].path)
    assert (disk["level"], disk["reserve_bytes"], disk["trouble"]) == ("plenty", 1000, None)
    assert 0 < disk["free_bytes"] <= disk["total_bytes"]


async def test_topics_are_chosen_and_sorted(broker: Running) -> None:
    """By a part of the name, by size; how many there are is told when some are left out."""
    for name, partitions in (("orders", 3), ("orders-late", 1), ("events", 1)):
        await broker.topics.create(name, partitions, {})
    await Traffic(await broker.call(), "events").produce(b"x" * 1000)

    every = await value(broker, "topics?sort=size")
    some = await value(broker, "topics?q=orders&limit=1")

    assert every["topics"][0]["name"] == "events"
    assert every["topics"][0]["id"] == uuid_text(broker.topics.topics["events"].id)
    assert every["topics"][0]["size_bytes"] > 1000
    assert every["bytes_in"] == every["topics"][0]["bytes_in"]
    assert [each["name"] for each in some["topics"]] == ["orders"]
    assert (some["total"], some["left_out"]) == (2, 1)


async def test_a_topic_has_its_segments_as_a_strip(broker: Running) -> None:
    """Dirty below the active one, then clean; each with the reason why it is not cleaned."""
    settings = {"cleanup.policy": "compact", "segment.bytes": "1200"}
    await broker.topics.create("state", 1, {**settings, "min.compaction.lag.ms": "3600000"})
    traffic = Traffic(await broker.call(), "state")
    for _ in range(4):
        assert await traffic.produce(b"x" * 900) == 0
    before = (await value(broker, "topic?name=state"))["partition_details"][0]
    assert [each["kind"] for each in before["strip"]] == [*["dirty"] * 3, "active"]
    assert before["strip"][0]["base_offset"] == 0
    assert before["rule"] == "young-segment"
    assert "min.compaction.lag.ms" in before["advice"]

    topic = broker.topics.topics["state"]
    await broker.topics.alter(topic, settings)

    async def is_clean() -> bool:
        told = await value(broker, "topic?name=state")
        kinds = [each["kind"] for each in told["partition_details"][0]["strip"]]
        return kinds == [*["clean"] * 3, "active"]

    async def passes() -> int:
        return len((await value(broker, "cleaner"))["passes"])

    await give_turns_until(is_clean, "a strip that is clean")
    await give_turns_until(passes, "a pass that is told")  # noted after its files are in place
    told = await value(broker, "cleaner")
    assert told["passes"][-1]["topic"] == "state"
    assert "receipt" not in told["passes"][-1]
    assert told["passes"][-1]["outcome"] == "cleaned"
    sources = {
        each["name"]: each["source"]
        for each in (await value(broker, "topic?name=state"))["settings"]
    }
    assert sources["segment.bytes"] == "topic"
    assert sources["retention.ms"] == "default"


def test_a_strip_of_many_segments_has_few_pieces() -> None:
    """Neighbours of a kind are put together; no byte and no segment is lost."""
    pieces = [
        *(Piece("clean", each, 10, 1) for each in range(3000)),
        *(Piece("dirty", each, 20, 1) for each in range(3000, 3010)),
        Piece("active", 3010, 5, 1),
    ]

    joined = list(_join(pieces))

    assert len(joined) <= MAX_PIECES + 3
    assert sum(each.size_bytes for each in joined) == sum(each.size_bytes for each in pieces)
    assert sum(each.segments for each in joined) == len(pieces)
    assert [each.kind for each in joined][-2:] == ["dirty", "active"]


async def test_groups_and_their_lag(broker: Running) -> None:
    """How far a group is behind; a partition that is gone has no lag."""
    assert await value(broker, "groups") == {"total": 0, "left_out": 0, "groups": []}
    await broker.topics.create("orders", 1, {})
    traffic = Traffic(await broker.call(), "orders")
    for _ in range(3):
        await traffic.produce(b"x")
    await commit(broker, "billing", 1)

    listed = await value(broker, "groups?q=bill")
    told = await value(broker, "group?id=billing")

    assert [(each["id"], each["lag"]) for each in listed["groups"]] == [("billing", 2)]
    assert told["offsets"] == [
        {"topic": "orders", "partition": 0, "committed_offset": 1, "end_offset": 3, "lag": 2}
    ]
    assert told["member_details"] == []


async def test_connections_by_software(broker: Running) -> None:
    """Names that clients say of themselves, and their ids; those without a name are one sort."""
    caller = await broker.call()
    caller.client_id = "billing"
    await caller.ask(software("librdkafka", "2.6"))
    await broker.connect()

    async def both() -> bool:
        return int((await value(broker, "connections"))["total"]) == 2

    await give_turns_until(both, "two connections")
    told = await value(broker, "connections")
    rows = {each["software"]: each for each in told["connections"]}
    assert rows["librdkafka 2.6"]["client_ids"] == ["billing"]
    assert rows["does not say"]["count"] == 1


async def test_what_strangers_call_themselves_has_a_bound(broker: Running) -> None:
    """Kept and told are 256 characters of each, and 200 kinds of clients; others are counted."""
    callers = [await broker.call() for _ in range(MAX_ROWS + 10)]
    for number, caller in enumerate(callers):
        caller.client_id = f"{number}-{LONG}"[:30_000]
        await caller.ask(software(f"{number}-{LONG}", LONG))

    answer = await get(broker, "connections")
    told = json.loads(answer.body)

    kept = [each.software for each in broker.listeners[0].connections]
    assert {max(len(name), len(version)) for name, version in kept if name} == {256}
    assert (told["total"], len(told["connections"])) == (MAX_ROWS + 10, MAX_ROWS)
    assert told["left_out"] == 10
    assert {len(each["client_ids"][0]) for each in told["connections"]} == {256}
    (listener,) = broker.listeners
    listener.close_idle()
    assert {len(each.client_id or "") for each in listener.connections} <= {0, 256}
    assert len(answer.body) < MAX_ROWS * 1100


async def test_names_of_groups_have_a_bound(
    broker: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One answer has so many characters of them at most; the others are counted."""
    monkeypatch.setattr(groups, "MAX_CHARACTERS", 100)
    await broker.topics.create("orders", 1, {})
    for letter in "abcde":
        await commit(broker, letter * 30, 1)

    told = await value(broker, "groups")

    assert (told["total"], told["left_out"], len(told["groups"])) == (5, 2, 3)


async def test_settings_of_a_listener_say_what_they_do(tmp_path: Path) -> None:
    """Users and limits of one listener have an effect, and their row says which."""
    users = "listener.name.lan.plain.sasl.jaas.config"
    module = "org.apache.kafka.common.security.plain.PlainLoginModule"
    sets = (
        "listeners=LAN://127.0.0.1:0",
        "listener.security.protocol.map=LAN:SASL_PLAINTEXT",
        "sasl.enabled.mechanisms=PLAIN",
        f"{users}={module} required user_a=a;",
        "listener.name.lan.max.connections=50",
        "http.anonymous.reads=true",
    )
    async with running(tmp_path, *sets) as started:
        rows = {each["name"]: each for each in (await value(started, "settings"))["settings"]}

    assert rows[users]["hidden"]
    assert rows[users]["documentation"].startswith("Of the listener lan alone. How its clients")
    limit = rows["listener.name.lan.max.connections"]["documentation"]
    assert limit.startswith("Of the listener lan alone. ")
    assert "no effect" not in rows[users]["documentation"] + limit


async def test_settings_have_sources(broker: Running) -> None:
    """Those of the command line beside the defaults."""
    rows = {each["name"]: each for each in (await value(broker, "settings"))["settings"]}

    assert rows["log.cleaner.backoff.ms"]["source"] == "--set"
    assert rows["num.partitions"]["source"] == "default"
    await broker.broker._settings.alter(cluster={"max.connections": "99"})
    rows = {each["name"]: each for each in (await value(broker, "settings"))["settings"]}
    assert rows["max.connections"]["value"] == "99"
    assert rows["max.connections"]["source"] == "dynamic for all brokers"


@pytest.mark.parametrize(
    ("path", "status", "sentence"),
    [
        ("topic", 400, "/api/topic wants ?name="),
        ("topic?name=nobody", 404, "there is no topic 'nobody' here"),
        ("group?id=nobody", 404, "there is no group 'nobody' here"),
        ("overview?verbose=1", 400, "/api/overview takes no query, and not 'verbose'"),
        ("cleaner?since_ms=yesterday", 400, "since_ms is 'yesterday'"),
        ("nothing", 404, "there is no page '/api/nothing' here"),
    ],
)
async def test_nonsense(broker: Running, path: str, status: int, sentence: str) -> None:
    """A sentence each, and no traceback."""
    answer = await get(broker, path)

    assert answer.status == status
    assert sentence in answer.body.decode()


async def test_every_path_is_documented(broker: Running) -> None:
    """In docs/http.md: those of /api/, and all that the port answers besides."""
    page = (Path(__file__).parents[4] / "docs" / "http.md").read_text()
    told = (await get(broker, "nothing")).body.decode()
    paths = told.partition("there are ")[2].split(", ")

    assert len(paths) > 20
    assert [path for path in map(str.strip, paths) if f"`{path}`" not in page] == []


def fields_of(value: Any) -> Iterator[str]:
    """Yield the names of all fields in an answer."""
    if isinstance(value, list):
        for each in value:
            yield from fields_of(each)
    elif isinstance(value, dict):
        for name, each in value.items():
            yield name
            if name != "advertised":  # by names of listeners
                yield from fields_of(each)


async def test_every_field_is_documented(broker: Running) -> None:
    """In the section JSON of docs/http.md, and every rule that may decide."""
    page = (Path(__file__).parents[4] / "docs" / "http.md").read_text()
    section = page.partition("## JSON\n")[2].partition("\n## Readers")[0]
    known = set(re.findall("`([a-z_-]+)`", section))
    settings = {"cleanup.policy": "compact", "segment.bytes": "1200"}
    await broker.topics.create("state", 1, settings)
    await broker.topics.create("orders", 1, {})
    traffic = Traffic(await broker.call(), "state")
    for _ in range(4):
        assert await traffic.produce(b"x" * 900) == 0
    await commit(broker, "billing", 1)
    passes: list[Any] = []
    for _ in range(1000):
        passes = (await value(broker, "cleaner"))["passes"]
        if passes:
            break
    assert passes

    fields = set(Rule) | {"unreadable"}
    paths = ("overview", "topics", "topic?name=state", "cleaner", "groups", "group?id=billing")
    for path in (*paths, "connections", "settings"):
        fields |= set(fields_of(await value(broker, path)))

    assert len(fields) > 100
    assert sorted(fields - known) == []

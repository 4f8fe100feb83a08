"""Limits to what clients make the broker keep: a late client is refused, and counted."""

import asyncio
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from kio.schema.errors import ErrorCode

from siltstone.broker.http.metrics.quotas import QUOTA_METRICS
from siltstone.broker.net.addresses import Addresses
from siltstone.broker.net.login import Login
from siltstone.broker.process.bounded_lines import MAX_PER_SECOND
from siltstone.broker.process.client_limits import Limits
from siltstone.broker.process.first_use import OnFirstUse
from siltstone.config.load import load
from tests.support import group_requests
from tests.support.batches import make_batch, make_producer_batch
from tests.support.clock import FakeClock, now
from tests.support.common_requests import authenticate, create_topics, handshake, metadata
from tests.support.limited import create_partitions, init_producer, transactions_at
from tests.support.metrics import make_sources, rows_of
from tests.support.produce_requests import request_entity as produce
from tests.support.running import Caller, running
from tests.support.waiting import give_turns_until

PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule"
SASL = (
    "listeners=LAN://127.0.0.1:0",
    "listener.security.protocol.map=LAN:SASL_PLAINTEXT",
    "sasl.enabled.mechanisms=PLAIN",
    f"listener.name.lan.plain.sasl.jaas.config={PLAIN} required user_alice=secret;",
)
TOO_MANY = ErrorCode.policy_violation


def metadata_of(name: str) -> Any:
    """Return a Metadata that makes a topic."""
    return metadata(name, create=True)


async def test_one_topic_too_many_is_refused(tmp_path: Path) -> None:
    """Also one that would only be judged, and one that Metadata makes; a deleted one makes room."""
    async with running(tmp_path, "topics.max.count=2", "auto.create.topics.enable=true") as home:
        caller = await home.call()
        made = await caller.ask(create_topics("a", "b", "c"))
        judged = await caller.ask(create_topics("d", validate_only=True))
        found = await caller.ask(metadata_of("e"))

        codes = [topic.error_code for topic in made.topics]
        assert sorted(codes) == [ErrorCode.none, ErrorCode.none, TOO_MANY]
        (refused,) = (topic for topic in made.topics if topic.error_code)
        assert refused.error_message.startswith("there would be 3 topics, and topics.max.count is")
        assert judged.topics[0].error_code is TOO_MANY
        assert found.topics[0].error_code is TOO_MANY
        assert len(home.topics.topics) == 2
        assert home.refused == {"topics.max.count": 3}

        await home.topics.delete(home.topics.topics["a"])
        again = await caller.ask(create_topics("f"))
        assert again.topics[0].error_code is ErrorCode.none


async def test_partitions_of_all_topics_have_a_limit(tmp_path: Path) -> None:
    """A topic's own at its start, and those that are added."""
    async with running(tmp_path, "partitions.max.count=5") as home:
        caller = await home.call()
        made = await caller.ask(create_topics("a", "b", partitions=3))
        more = await caller.ask(create_partitions("a", 6))
        judged = await caller.ask(create_partitions("a", 6, validate_only=True))
        fewer = await caller.ask(create_partitions("a", 5))

        codes = {topic.name: topic.error_code for topic in made.topics}
        assert codes == {"a": ErrorCode.none, "b": TOO_MANY}
        assert more.results[0].error_code is judged.results[0].error_code is TOO_MANY
        assert fewer.results[0].error_code is ErrorCode.none
        assert home.topics.topics["a"].partitions == 5
        assert home.refused == {"partitions.max.count": 3}


async def test_topics_that_are_made_together_do_not_pass_the_limit(tmp_path: Path) -> None:
    """Each counts what others have begun to make."""
    async with running(tmp_path, "topics.max.count=3") as home:
        made = [home.topics.create(f"t{number}", 1, {}) for number in range(8)]
        ends = await asyncio.gather(*made, return_exceptions=True)

        assert sum(isinstance(end, Exception) for end in ends) == 5
        assert len(home.topics.topics) == 3


async def test_the_brokers_own_topics_are_always_made(tmp_path: Path) -> None:
    """Or the last topic would leave no room for groups."""
    async with running(tmp_path, "topics.max.count=0", "offsets.topic.num.partitions=1") as home:
        caller = await home.call()
        await caller.ask(group_requests.find("g"))
        await home.groups.loaded.wait()
        joined = await caller.ask(group_requests.join("g"))

        assert joined.error_code is ErrorCode.member_id_required


@pytest.mark.parametrize("first", ["join", "commit", "beat"])
async def test_one_group_too_many_is_refused(tmp_path: Path, first: str) -> None:
    """Whichever way it comes to be; existing ones go on."""
    sets = ("groups.max.count=1", "offsets.topic.num.partitions=1")
    async with running(tmp_path, *sets) as home:
        caller = await home.call()
        await home.topics.create("orders", 1, {})
        await caller.ask(group_requests.find("a"))
        await home.groups.loaded.wait()

        async def join(group: str) -> ErrorCode:
            return ErrorCode((await caller.ask(group_requests.join(group))).error_code)

        async def commit(group: str) -> ErrorCode:
            answer = await caller.ask(group_requests.commit(group, {("orders", 0): 5}))
            return ErrorCode(answer.topics[0].partitions[0].error_code)

        async def beat(group: str) -> ErrorCode:
            answer = await caller.ask(group_requests.consumer_beat(group, "m", 0))
            return ErrorCode(answer.error_code)

        ways = {"join": join, "commit": commit, "beat": beat}
        full = ErrorCode.group_max_size_reached
        assert await ways[first]("a") in {ErrorCode.none, ErrorCode.member_id_required}
        assert [await way("b") for way in ways.values()] == [full] * 3
        assert await ways[first]("a") in {ErrorCode.none, ErrorCode.member_id_required}
        assert set(home.groups.groups) == {"a"}
        assert home.refused == {"groups.max.count": 3}


async def test_one_transactional_id_too_many_is_refused(tmp_path: Path) -> None:
    """One that is known may begin again, and producers without one are not concerned."""
    async with transactions_at(tmp_path, "transactional.ids.max.count=1") as (home, caller):
        codes = [
            (await caller.ask(init_producer(each))).error_code for each in ("a", "b", "a", None)
        ]

        assert codes == [ErrorCode.none, TOO_MANY, ErrorCode.none, ErrorCode.none]
        assert home.refused == {"transactional.ids.max.count": 1}


async def test_one_producer_too_many_is_refused(tmp_path: Path) -> None:
    """Of a partition; one that is known goes on, and one without an id is not concerned."""
    async with running(tmp_path, "producer.ids.max.count=1") as home:
        await home.topics.create("t", 2, {})
        caller = await home.call()

        async def send(partition: int, producer_id: int, sequence: int) -> ErrorCode:
            batch = bytes(make_producer_batch(sequence, producer_id=producer_id))
            request = produce(9, 1, 1000, None, [("t", [(partition, batch)])])
            answer = (await caller.ask(request)).responses[0].partition_responses[0]
            return ErrorCode(answer.error_code)

        assert await send(0, 7, 0) is ErrorCode.none
        assert await send(0, 8, 0) is TOO_MANY
        assert await send(0, 7, 1) is ErrorCode.none
        assert await send(1, 8, 0) is ErrorCode.none
        assert home.topics.logs["t", 0].log_end_offset == 2
        assert home.requests.invalid_records["ProducerLimit"] == 1


async def test_producers_of_all_partitions_have_a_limit(tmp_path: Path) -> None:
    """They make room when they expire or their topic goes, and count after a restart as before."""
    limit = "producer.states.max.count=3"

    async def send(caller: Caller, topic: str, producer_id: int, sequence: int = 0) -> ErrorCode:
        known = {"producer_id": producer_id, "producer_epoch": 0, "base_sequence": sequence}
        batch = bytes(make_batch(1, timestamp=now(), **known))
        request = produce(9, 1, 1000, None, [(topic, [(0, batch)])])
        answer = (await caller.ask(request)).responses[0].partition_responses[0]
        return ErrorCode(answer.error_code)

    async with running(tmp_path, limit) as home:
        caller = await home.call()
        for name in "ab":
            await home.topics.create(name, 1, {})
        codes = [await send(caller, *each) for each in (("a", 1), ("a", 2), ("b", 1), ("b", 2))]
        again = await send(caller, "a", 1, 1)

        assert codes == [*[ErrorCode.none] * 3, TOO_MANY]
        assert again is ErrorCode.none
        assert home.requests.invalid_records["AllProducersLimit"] == 1
    async with running(tmp_path, limit) as home:
        caller = await home.call()
        assert await send(caller, "b", 3) is TOO_MANY
        await home.topics.delete(home.topics.topics["a"])
        codes = [await send(caller, "b", each) for each in (4, 5, 6)]
        assert codes == [ErrorCode.none, ErrorCode.none, TOO_MANY]
        log = home.topics.logs["b", 0]
        assert log.remove_expired_producers(now() + 2 * 86_400_000) == 3
        assert await send(caller, "b", 7) is ErrorCode.none


async def test_a_frame_that_is_too_large_is_counted(tmp_path: Path) -> None:
    """By the limit of clients that are known, or of those that are not."""
    async with running(tmp_path / "open", "socket.request.max.bytes=1000") as home:
        client = await home.connect()
        await client.send((1001).to_bytes(4, "big"))
        assert await client.is_closed()
        assert home.refused == {"socket.request.max.bytes": 1}

    (tmp_path / "shut").mkdir()
    async with running(tmp_path / "shut", *SASL, "sasl.server.max.receive.size=900") as home:
        client = await home.connect()
        await client.send((901).to_bytes(4, "big"))
        assert await client.is_closed()
        assert home.refused == {"sasl.server.max.receive.size": 1}


async def test_who_does_not_log_in_is_closed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """At the next look after connections.max.login.ms; a client that has logged in stays."""
    async with running(tmp_path, *SASL, "connections.max.login.ms=600000") as home:
        known = await home.call()
        await known.ask(handshake())
        await known.ask(authenticate(b"\0alice\0secret"))
        silent = await home.connect()
        connections = home.listeners[0].connections
        await give_turns_until(
            lambda: any(each.login and each.login.is_open for each in connections), "a login"
        )
        home.listeners[0].close_idle()
        assert home.refused == {}
        monkeypatch.setattr(Login, "age", 600.001)
        home.listeners[0].close_idle()

        assert await silent.is_closed()
        assert (await known.ask(metadata_of("t"))).brokers
        assert home.refused == {"connections.max.login.ms": 1}


async def test_who_is_not_let_in_is_in_the_audit_log(tmp_path: Path) -> None:
    """Requests before the login, and connections above a limit; so many a second, no more."""
    file = tmp_path / "audit.jsonl"
    sets = (*SASL, f"audit.log.file={file}", "max.connections.per.ip=1")
    async with running(tmp_path / "data", *sets) as home:
        caller = await home.call()
        await caller.client.send(caller.frame(metadata_of("t")))
        assert await caller.client.is_closed()
        await home.call()
        addresses = home.broker.addresses
        await give_turns_until(lambda: addresses.count("127.0.0.1") == 1, "it is counted")
        for _ in range(MAX_PER_SECOND + 5):
            assert await (await home.connect()).is_closed()
    lines = [json.loads(line) for line in file.read_text().splitlines()]
    first, second = lines[:2]

    assert {line["event"] for line in lines} == {"connection refused"}
    assert first["principal"] == second["principal"] == "User:ANONYMOUS"
    assert "ILLEGAL_SASL_STATE" in first["reason"]
    assert first["listener"] == "LAN"
    assert second["reason"] == "max.connections.per.ip is reached"
    assert second["peer"].startswith("127.0.0.1:")


async def test_connections_are_accepted_at_their_rate(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Those that come too soon wait in the kernel."""
    async with running(tmp_path) as home:
        before = home.listeners[0].accepted_count  # that of the broker's own first round trip
        monkeypatch.setattr(home.broker.addresses, "find_pause", lambda: 1000.0)
        first = await home.call()
        await first.ask(metadata_of("t"))
        await home.connect()
        await first.ask(metadata_of("t"))

        assert home.listeners[0].accepted_count == before + 1
        assert home.refused == {"max.connection.creation.rate": 1}


def test_a_rate_of_connections_holds_over_an_hour() -> None:
    """Within a tenth, and with what a quiet broker takes at once within a minute, too."""
    layers = load(None, {}, ["max.connection.creation.rate=20"])
    clock = FakeClock()
    addresses = Addresses(layers.server, OnFirstUse(lambda: None), lambda: 0, clock.monotonic)  # type: ignore[arg-type, return-value]
    accepted = []
    while clock.monotonic() < 4_600:
        accepted.append(clock.monotonic() - 1_000)
        clock.advance(1000 * max(addresses.find_pause(), 0.001))

    assert len(accepted) == pytest.approx(20 * 3600, rel=0.1)
    assert sum(moment < 60 for moment in accepted) == pytest.approx(20 * 60, rel=0.1)


def test_each_limit_is_a_metric() -> None:
    """From the start on, so that alerts see the first refusal; those of batches, too."""
    limits = Limits(load(None, {}, []).server)
    limits.note("groups.max.count")
    sources = replace(make_sources({}), limits=limits)
    sources.requests.invalid_records["UnfoldsTooFar"] = 2
    (metric,) = (each for each in QUOTA_METRICS if each.name == "siltstone_limit_refused")
    rows = dict(rows_of(metric, sources))

    assert rows["groups.max.count",] == 1
    assert rows["decompressed bytes",] == 2
    assert {name for (name,) in rows} == {
        *limits.refused,
        "producer.ids.max.count",
        "producer.states.max.count",
        "decompressed bytes",
    }

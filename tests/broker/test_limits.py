"""The limits to what clients make the broker keep: who comes too late is refused, and counted."""

from __future__ import annotations

import asyncio
import json
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import timedelta
from typing import TYPE_CHECKING, Any

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
from tests.support.batches import make_producer_batch
from tests.support.clock import FakeClock
from tests.support.kio_schemas import request_class
from tests.support.metrics import make_sources
from tests.support.produce_requests import request_entity as produce
from tests.support.running import Caller, Running, running
from tests.support.waiting import give_turns_until

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule"
SASL = (
    "listeners=LAN://127.0.0.1:0",
    "listener.security.protocol.map=LAN:SASL_PLAINTEXT",
    "sasl.enabled.mechanisms=PLAIN",
    f"listener.name.lan.plain.sasl.jaas.config={PLAIN} required user_alice=secret;",
)
TOO_MANY = ErrorCode.policy_violation


def create_topics(*wanted: tuple[str, int], validate_only: bool = False) -> Any:
    """Return a CreateTopics."""
    topic = request_class(19, 7, "CreatableTopic")
    topics = tuple(
        topic(name=name, num_partitions=count, replication_factor=1, assignments=(), configs=())
        for name, count in wanted
    )
    return request_class(19, 7)(
        topics=topics, timeout=timedelta(seconds=5), validate_only=validate_only
    )


def create_partitions(name: str, count: int, *, validate_only: bool = False) -> Any:
    """Return a CreatePartitions."""
    topic = request_class(37, 3, "CreatePartitionsTopic")(name=name, count=count, assignments=None)
    return request_class(37, 3)(
        topics=(topic,), timeout=timedelta(seconds=5), validate_only=validate_only
    )


def metadata_of(name: str) -> Any:
    """Return a Metadata that makes a topic."""
    topic = request_class(3, 12, "MetadataRequestTopic")(name=name, topic_id=None)
    return request_class(3, 12)(
        topics=(topic,),
        allow_auto_topic_creation=True,
        include_topic_authorized_operations=False,
    )


def init_producer(transactional_id: str | None) -> Any:
    """Return an InitProducerId."""
    return request_class(22, 4)(
        transactional_id=transactional_id,
        transaction_timeout=timedelta(seconds=60),
        producer_id=-1,
        producer_epoch=-1,
    )


async def test_one_topic_too_many_is_refused(tmp_path: Path) -> None:
    """Also one that would only be judged, and one that Metadata makes; a deleted one makes room."""
    async with running(tmp_path, "topics.max.count=2", "auto.create.topics.enable=true") as home:
        caller = await home.call()
        made = await caller.ask(create_topics(("a", 1), ("b", 1), ("c", 1)))
        judged = await caller.ask(create_topics(("d", 1), validate_only=True))
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
        again = await caller.ask(create_topics(("f", 1)))
        assert again.topics[0].error_code is ErrorCode.none


async def test_partitions_of_all_topics_have_a_limit(tmp_path: Path) -> None:
    """A topic's own at its start, and those that are added."""
    async with running(tmp_path, "partitions.max.count=5") as home:
        caller = await home.call()
        made = await caller.ask(create_topics(("a", 3), ("b", 3)))
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
    """Whichever way it comes to be; those that are there go on."""
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


FULL = ErrorCode.group_max_size_reached
TOO_LARGE = ErrorCode.invalid_commit_offset_size
MEMBER_SETS = ("group.members.max.bytes=100000", "offsets.topic.num.partitions=1")


@asynccontextmanager
async def groups_at(tmp_path: Path, *sets: str) -> AsyncIterator[tuple[Running, Caller]]:
    """Run a broker whose members may have 100,000 bytes."""
    async with running(tmp_path, *MEMBER_SETS, *sets) as home:
        caller = await home.call()
        await caller.ask(group_requests.find("a"))
        await home.groups.loaded.wait()
        yield home, caller


async def test_metadata_of_members_has_a_limit_over_all_groups(tmp_path: Path) -> None:
    """It stays as long as the session, which needs no connection; who leaves makes room."""
    large = (("range", bytes(60_000)),)
    async with groups_at(tmp_path, "group.initial.rebalance.delay.ms=0") as (home, caller):
        given = await caller.ask(group_requests.join("a", protocols=large))
        joined = await caller.ask(group_requests.join("a", given.member_id, protocols=large))
        other = await caller.ask(group_requests.join("b"))
        refused = await caller.ask(group_requests.join("b", other.member_id, protocols=large))
        more = (("range", bytes(100_000)),)
        grown = await caller.ask(group_requests.join("a", given.member_id, protocols=more))
        first = await caller.ask(group_requests.sync("a", given.member_id, joined.generation_id))
        too_much = {given.member_id: bytes(50_000)}
        again = await caller.ask(group_requests.join("a", given.member_id, protocols=large))
        assigned = await caller.ask(
            group_requests.sync("a", given.member_id, again.generation_id, too_much)
        )

        assert joined.error_code is first.error_code is ErrorCode.none
        assert refused.error_code is grown.error_code is assigned.error_code is FULL
        assert home.refused == {"group.members.max.bytes": 3}
        assert 60_000 < home.groups.member_bytes.size < 70_000

        await caller.ask(group_requests.leave("a", (given.member_id, None)))
        taken = await caller.ask(group_requests.join("b", other.member_id, protocols=large))
        assert taken.error_code is ErrorCode.none


async def test_ids_that_never_join_count_as_members(tmp_path: Path) -> None:
    """Each has the client id in it, which may be long, and stays as long as a session."""
    async with groups_at(tmp_path) as (home, caller):
        caller.client_id = "x" * 20_000
        codes = [(await caller.ask(group_requests.join("a"))).error_code for _ in range(6)]

        assert codes == [*[ErrorCode.member_id_required] * 4, FULL, FULL]
        home.groups.groups["a"].close()
        assert home.groups.member_bytes.size == 0


async def test_members_of_consumer_groups_count_too(tmp_path: Path) -> None:
    """What they say, when it grows as well, and after a restart; refused is only what is more."""
    names = tuple(f"topic-that-is-not-there-{number}" for number in range(500))
    async with groups_at(tmp_path) as (home, caller):
        codes = [
            (
                await caller.ask(
                    group_requests.consumer_beat(group, "m", 0, subscribed_topic_names=names)
                )
            ).error_code
            for group in "abc"
        ]
        one = await caller.ask(
            group_requests.consumer_beat("c", "m", 0, subscribed_topic_names=("t",))
        )
        size = home.groups.member_bytes.size

        assert codes == [ErrorCode.none, ErrorCode.none, FULL]
        assert one.error_code is ErrorCode.none
        more = await caller.ask(
            group_requests.consumer_beat("c", "m", one.member_epoch, subscribed_topic_names=names)
        )
        assert more.error_code is FULL
        assert home.groups.member_bytes.size == size
        beat = await caller.ask(group_requests.consumer_beat("c", "m", one.member_epoch))
        assert beat.error_code is ErrorCode.none
    async with groups_at(tmp_path, "group.members.max.bytes=50000") as (home, caller):
        assert home.groups.member_bytes.size == size
        refused = await caller.ask(
            group_requests.consumer_beat("d", "m", 0, subscribed_topic_names=("t",))
        )
        assert refused.error_code is FULL
        await caller.ask(group_requests.consumer_beat("a", "m", -1))
        await caller.ask(group_requests.consumer_beat("b", "m", -1))
        assert home.groups.member_bytes.size < 2000


async def test_one_transactional_id_too_many_is_refused(tmp_path: Path) -> None:
    """One that is known may begin again, and producers without one are not concerned."""
    sets = ("transactional.ids.max.count=1", "transaction.state.log.num.partitions=1")
    async with running(tmp_path, *sets) as home:
        caller = await home.call()
        await caller.ask(group_requests.find("a", 1))
        coordinators = home.broker.coordinators.get()
        await give_turns_until(
            lambda: not coordinators.transactions.journal.loading_count, "the journal is read"
        )
        codes = [
            (await caller.ask(init_producer(each))).error_code for each in ("a", "b", "a", None)
        ]

        assert codes == [ErrorCode.none, TOO_MANY, ErrorCode.none, ErrorCode.none]
        assert home.refused == {"transactional.ids.max.count": 1}


@asynccontextmanager
async def transactions_at(tmp_path: Path, *sets: str) -> AsyncIterator[tuple[Running, Caller]]:
    """Run a broker that has read what there is of transactions."""
    async with running(tmp_path, "transaction.state.log.num.partitions=1", *sets) as home:
        caller = await home.call()
        await caller.ask(group_requests.find("a", 1))
        coordinators = home.broker.coordinators.get()
        await give_turns_until(
            lambda: not coordinators.transactions.journal.loading_count, "the journal is read"
        )
        yield home, caller


def add_to_txn(transactional_id: str, producer: Any, topic: str, partitions: range) -> Any:
    """Return an AddPartitionsToTxn of a client."""
    wanted = request_class(24, 3, "AddPartitionsToTxnTopic")
    return request_class(24, 3)(
        v3_and_below_transactional_id=transactional_id,
        v3_and_below_producer_id=producer.producer_id,
        v3_and_below_producer_epoch=producer.producer_epoch,
        v3_and_below_topics=(wanted(name=topic, partitions=tuple(partitions)),),
    )


def end_txn(transactional_id: str, producer: Any) -> Any:
    """Return an EndTxn that aborts."""
    return request_class(26, 3)(
        transactional_id=transactional_id,
        producer_id=producer.producer_id,
        producer_epoch=producer.producer_epoch,
        committed=False,
    )


async def test_transactional_ids_have_a_limit_in_bytes(tmp_path: Path) -> None:
    """Their names count; those that are known go on, and after a restart they count as before."""
    limit = "transactional.ids.max.bytes=70000"
    names = ["a" * 30_000, "b" * 30_000, "c" * 30_000, "d"]
    async with transactions_at(tmp_path, limit) as (home, caller):
        codes = [(await caller.ask(init_producer(each))).error_code for each in (*names, names[0])]
        size = home.broker.coordinators.get().transactions.size

        assert codes == [ErrorCode.none, ErrorCode.none, TOO_MANY, ErrorCode.none, ErrorCode.none]
        assert home.refused == {"transactional.ids.max.bytes": 1}
        assert 60_000 < size < 65_000
    async with transactions_at(tmp_path, "transactional.ids.max.bytes=100") as (home, caller):
        again = await caller.ask(init_producer(names[1]))
        new = await caller.ask(init_producer("e"))

        assert again.error_code is ErrorCode.none
        assert new.error_code is TOO_MANY
        assert home.broker.coordinators.get().transactions.size == size


async def test_partitions_of_open_transactions_have_a_limit_in_bytes(tmp_path: Path) -> None:
    """A transaction that was refused more may end, and makes room for others."""
    async with transactions_at(tmp_path, "transactional.ids.max.bytes=20000") as (home, caller):
        await home.topics.create("t", 200, {})
        one, two = [await caller.ask(init_producer(each)) for each in ("one", "two")]

        async def add(name: str, producer: Any, count: int) -> ErrorCode:
            answer = await caller.ask(add_to_txn(name, producer, "t", range(count)))
            (topic,) = answer.results_by_topic_v3_and_below
            return ErrorCode(topic.results_by_partition[0].partition_error_code)

        assert await add("one", one, 90) is ErrorCode.none
        assert await add("two", two, 90) is TOO_MANY
        assert await add("one", one, 200) is TOO_MANY
        assert await add("one", one, 80) is ErrorCode.none  # it has them
        assert home.refused == {"transactional.ids.max.bytes": 2}
        ended = await caller.ask(end_txn("one", one))
        assert ended.error_code is ErrorCode.none
        assert await add("two", two, 90) is ErrorCode.none
        await caller.ask(end_txn("two", two))
        assert home.broker.coordinators.get().transactions.size < 2000


async def test_committed_offsets_have_a_limit_in_bytes(tmp_path: Path) -> None:
    """Those that are there may change, but for longer metadata; deleted ones make room."""
    limit = "group.offsets.max.bytes=20000"
    async with groups_at(tmp_path, limit) as (home, caller):
        await home.topics.create("t", 200, {})

        async def commit(group: str, count: int, metadata: str = "", first: int = 0) -> ErrorCode:
            said = {("t", index): 7 for index in range(first, first + count)}
            answer = await caller.ask(group_requests.commit(group, said, metadata=metadata))
            (code,) = {each.partitions[0].error_code for each in answer.topics}
            return ErrorCode(code)

        assert await commit("a", 100) is ErrorCode.none
        size = home.groups.offsets.size
        assert 12_000 < size < 13_000
        assert await commit("b", 100) is TOO_LARGE
        assert await commit("a", 100, first=100) is TOO_LARGE
        assert await commit("a", 100, "x" * 200) is TOO_LARGE
        assert await commit("g" * 8000, 1) is TOO_LARGE
        assert await commit("a", 100, "twelve chars") is ErrorCode.none
        assert await commit("a", 10, "x" * 200) is ErrorCode.none
        assert home.groups.offsets.size == size + 10 * 184
        assert home.refused == {"group.offsets.max.bytes": 4}
        assert set(home.groups.offsets) == {"a"}
    async with groups_at(tmp_path, "group.offsets.max.bytes=100") as (home, caller):
        assert home.groups.offsets.size == size + 10 * 184
        assert await commit("a", 100) is ErrorCode.none
        assert await commit("b", 1) is TOO_LARGE
        assert home.groups.offsets.size == size
        named = [("t", index) for index in range(100)]
        await caller.ask(group_requests.delete_offsets("a", *named))
        assert home.groups.offsets.size == 0


async def test_names_of_groups_count(tmp_path: Path) -> None:
    """Of groups without a member, too, as long as they are there."""
    async with groups_at(tmp_path, "groups.max.count=1000") as (home, caller):
        caller.client_id = "x"
        names = [letter * 8000 for letter in "abcdefghijklmno"]
        codes = []
        for name in names:
            joined = await caller.ask(group_requests.join(name))
            codes.append(joined.error_code)
            await caller.ask(group_requests.leave(name, (joined.member_id, None)))

        assert set(codes[:12]) == {ErrorCode.member_id_required}
        assert set(codes[12:]) == {FULL}
        assert home.groups.member_bytes.size == 12 * 8060
        await caller.ask(group_requests.delete(*names[:6]))
        assert home.groups.member_bytes.size == 6 * 8060


async def test_assignments_of_consumer_groups_count(tmp_path: Path) -> None:
    """What a member has is as large as the topics that it subscribes to, however short its word."""
    async with groups_at(tmp_path) as (home, caller):
        await home.topics.create("t", 200, {})
        codes = [
            (
                await caller.ask(
                    group_requests.consumer_beat(group, "m", 0, subscribed_topic_names=("t",))
                )
            ).error_code
            for group in "ab"
        ]

        assert codes == [ErrorCode.none, FULL]
        assert 70_000 < home.groups.member_bytes.size < 75_000
        await caller.ask(group_requests.consumer_beat("a", "m", -1))
        assert home.groups.member_bytes.size < 1000


async def test_metadata_of_very_many_topics_is_not_read(tmp_path: Path) -> None:
    """It is kept as it came: the group goes on, and nobody waits for its topics to be found."""
    count = 60_000
    topics = b"".join(b"\0\5%05d" % number for number in range(count))
    metadata = b"\0\0" + count.to_bytes(4, "big") + topics + b"\xff\xff\xff\xff"
    sets = ("group.members.max.bytes=10000000", "group.initial.rebalance.delay.ms=0")
    async with groups_at(tmp_path, *sets) as (home, caller):
        protocols = (("range", metadata),)
        given = await caller.ask(group_requests.join("a", protocols=protocols))
        joined = await caller.ask(group_requests.join("a", given.member_id, protocols=protocols))
        size = home.groups.member_bytes.size

        assert joined.error_code is ErrorCode.none
        assert joined.members[0].metadata == metadata
        assert home.groups.groups["a"].is_subscribed_to("any")
        assert size < len(metadata) + 2000


async def test_members_that_no_record_could_hold_are_refused(tmp_path: Path) -> None:
    """Whoever joins with more than sixteen times the largest batch of the journal."""
    sets = ("group.members.max.bytes=100000000", "group.initial.rebalance.delay.ms=0")
    async with groups_at(tmp_path, *sets) as (_, caller):
        large = (("range", bytes(17_000_000)),)
        given = await caller.ask(group_requests.join("a", protocols=large))
        joined = await caller.ask(group_requests.join("a", given.member_id, protocols=large))
        fitting = await caller.ask(group_requests.join("a", given.member_id))

        assert joined.error_code is FULL
        assert fitting.error_code is ErrorCode.none


def alter_configs(kind: int, name: str, **values: str) -> Any:
    """Return an IncrementalAlterConfigs that sets values."""
    config = request_class(44, 1, "AlterableConfig")
    resource = request_class(44, 1, "AlterConfigsResource")(
        resource_type=kind,
        resource_name=name,
        configs=tuple(
            config(name=key.replace("_", "."), config_operation=0, value=value)
            for key, value in values.items()
        ),
    )
    return request_class(44, 1)(resources=(resource,), validate_only=False)


async def test_settings_of_topics_groups_and_subscriptions_have_a_limit(tmp_path: Path) -> None:
    """In bytes of all together, and of subscriptions in number; fewer are always taken."""
    topic, group, subscription = 2, 32, 16
    async with running(tmp_path, "configs.max.bytes=10000", "client.metrics.max.count=1") as home:
        await home.topics.create("t", 1, {})
        caller = await home.call()

        async def alter(kind: int, name: str, **values: str) -> ErrorCode:
            answer = await caller.ask(alter_configs(kind, name, **values))
            return ErrorCode(answer.responses[0].error_code)

        long = ",".join(f"{number}:1" for number in range(1000))
        assert await alter(group, "g" * 9000, consumer_session_timeout_ms="50000") is ErrorCode.none
        assert await alter(group, "h" * 9000, consumer_session_timeout_ms="50000") is TOO_MANY
        throttled = {"leader_replication_throttled_replicas": long}
        assert await alter(topic, "t", **throttled) is TOO_MANY
        assert await alter(topic, "t", retention_ms="50000") is ErrorCode.none
        assert await alter(subscription, "s", metrics="*") is ErrorCode.none
        assert await alter(subscription, "s", metrics="a.") is ErrorCode.none
        assert await alter(subscription, "u", metrics="*") is TOO_MANY
        assert home.refused == {"configs.max.bytes": 2, "client.metrics.max.count": 1}


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
    """At the next look after connections.max.login.ms; who has logged in stays."""
    async with running(tmp_path, *SASL, "connections.max.login.ms=600000") as home:
        known = await home.call()
        await known.ask(request_class(17, 1)(mechanism="PLAIN"))
        await known.ask(request_class(36, 2)(auth_bytes=b"\0alice\0secret"))
        silent = await home.connect()
        connections = home.listeners[0].connections
        await give_turns_until(
            lambda: any(each.login and each.login.is_open for each in connections), "it is there"
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
        await give_turns_until(lambda: addresses.count("127.0.0.1") == 1, "it is there")
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
    rows = dict(filter(None, metric.read(sources)))

    assert rows["groups.max.count",] == 1
    assert rows["decompressed bytes",] == 2
    assert {name for (name,) in rows} == {
        *limits.refused,
        "producer.ids.max.count",
        "decompressed bytes",
    }

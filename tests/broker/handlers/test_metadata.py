"""Metadata: what a client has to know to find its leaders."""

import asyncio
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from kio.index import load_request_schema
from kio.schema.errors import ErrorCode

from siltstone.broker.handlers import metadata
from siltstone.broker.handlers.metadata import handle
from siltstone.broker.topics import internal
from siltstone.broker.topics.internal import Preset
from siltstone.broker.topics.topic import MAX_FORMS
from siltstone.config.server import ServerConfig
from siltstone.protocol.messages.metadata import RESPONSE
from siltstone.protocol.messages.metadata import MetadataRequest as Wanted
from tests.support.ask import ask
from tests.support.kio_messages import request
from tests.support.line import others_first
from tests.support.services import HOST, PORT, ServicesOnDisk

KEY = 3


def _request(*names: str | UUID | None, create: bool = False, operations: bool = False) -> Any:
    rows = [{"topic_id" if isinstance(each, UUID) else "name": each} for each in names]
    asked = {"include_topic_authorized_operations": operations}
    return request(3, 13, topics=rows, allow_auto_topic_creation=create, **asked)


ALL = request(3, 13)


async def test_the_broker_is_told_by_the_address_of_the_listener(home: ServicesOnDisk) -> None:
    """Node id, advertised address, controller and cluster are told even if no topic is asked."""
    answer = await ask(home, KEY, _request())

    assert [(each.node_id, each.host, each.port) for each in answer.brokers] == [(1, HOST, PORT)]
    assert answer.controller_id == 1
    assert answer.cluster_id == home.services.logs.cluster_id
    assert answer.topics == ()


async def test_null_means_all_and_hidden_logs_are_in_none(home: ServicesOnDisk) -> None:
    """Every topic with every partition; what is only in `logs` is nowhere."""
    topics = home.services.topics
    await topics.create("a", 2, {})
    await topics.create("b", 1, {})
    topics.logs["hidden", 0] = topics.logs["b", 0]
    answer = await ask(home, KEY, ALL)

    assert {each.name: len(each.partitions) for each in answer.topics} == {"a": 2, "b": 1}
    for topic in answer.topics:
        assert topic.topic_id == topics.topics[topic.name].id
        assert not topic.is_internal
        for index, partition in enumerate(topic.partitions):
            assert partition.partition_index == index
            assert (partition.leader_id, partition.leader_epoch) == (1, 0)
            assert partition.replica_nodes == partition.isr_nodes == (1,)
            assert partition.offline_replicas == ()
            assert partition.error_code is ErrorCode.none


@pytest.mark.parametrize(
    ("name", "code"),
    [
        ("missing", ErrorCode.unknown_topic_or_partition),
        ("a/b", ErrorCode.invalid_topic_exception),
        ("..", ErrorCode.invalid_topic_exception),
        ("", ErrorCode.invalid_topic_exception),
        ("x" * 250, ErrorCode.invalid_topic_exception),
    ],
)
async def test_topics_that_are_not_there(home: ServicesOnDisk, name: str, code: ErrorCode) -> None:
    """Nothing is made for a client that does not want it, and no partition is invented."""
    answer = await ask(home, KEY, _request(name))

    assert [(each.name, each.error_code, each.partitions) for each in answer.topics] == [
        (name, code, ())
    ]
    assert not home.services.topics.topics


async def test_a_topic_that_may_be_made_is_ready_in_the_answer(home: ServicesOnDisk) -> None:
    """With the broker's number of partitions; a name twice is one topic."""
    answer = await ask(home, KEY, _request("new", "new", "a/b", create=True))

    found = {each.name: each for each in answer.topics}
    assert len(answer.topics) == 2
    assert found["new"].error_code is ErrorCode.none
    assert len(found["new"].partitions) == home.services.settings.server.num_partitions
    assert found["a/b"].error_code is ErrorCode.invalid_topic_exception


async def test_a_collision_is_no_new_topic(home: ServicesOnDisk) -> None:
    """The client is told at once instead of trying for ever."""
    await home.services.topics.create("a.b", 1, {})
    answer = await ask(home, KEY, _request("a_b", create=True))

    assert answer.topics[0].error_code is ErrorCode.invalid_topic_exception


async def test_internal_topics_are_made_in_their_own_way(home: ServicesOnDisk) -> None:
    """Compacted, and told as internal."""
    answer = await ask(home, KEY, _request("__consumer_offsets", create=True))

    assert answer.topics[0].is_internal
    assert len(answer.topics[0].partitions) == 50
    assert home.services.topics.topics["__consumer_offsets"].config.is_compacted


async def test_the_broker_may_forbid_it(tmp_path: Path) -> None:
    """auto.create.topics.enable=false counts for everybody."""
    home = await ServicesOnDisk(tmp_path, auto_create_topics_enable="false").open()
    answer = await ask(home, KEY, _request("new", create=True))

    assert answer.topics[0].error_code is ErrorCode.unknown_topic_or_partition
    await home.close()


async def test_topics_by_id(home: ServicesOnDisk) -> None:
    """Known ids give names; an unknown one is echoed; names beside ids are not looked at."""
    topic = await home.services.topics.create("a", 1, {})
    answer = await ask(home, KEY, _request(topic.id, UUID(int=5), "a"))

    assert [(each.name, each.topic_id, each.error_code) for each in answer.topics] == [
        ("a", topic.id, ErrorCode.none),
        (None, UUID(int=5), ErrorCode.unknown_topic_id),
    ]


@pytest.mark.parametrize("version", [10, 11])
async def test_ids_before_version_12_refuse_the_request(home: ServicesOnDisk, version: int) -> None:
    """Those versions have the field but no meaning for it."""
    topic = await home.services.topics.create("a", 1, {})
    answer = await ask(home, KEY, _request(topic.id), version)

    assert answer.topics[0].error_code is ErrorCode.invalid_request


async def test_neither_name_nor_id_refuses_the_request(home: ServicesOnDisk) -> None:
    """There is nothing to look for."""
    assert (await ask(home, KEY, _request(None))).error_code is ErrorCode.invalid_request


async def test_authorized_operations_are_told_when_asked(home: ServicesOnDisk) -> None:
    """All of them, as nobody is restricted; else the value that means not asked."""
    await home.services.topics.create("a", 1, {})
    asked = await ask(home, KEY, _request("a", "missing", "a/b", operations=True))
    silent = await ask(home, KEY, _request("a", "missing", "a/b"))

    assert [each.topic_authorized_operations for each in asked.topics] == [3576] * 3
    assert [each.topic_authorized_operations for each in silent.topics] == [-(2**31)] * 3


async def test_what_is_kept_of_an_answer_follows_the_topic(home: ServicesOnDisk) -> None:
    """Partitions that are added, and a topic made again, are in the next answer."""
    topics = home.services.topics
    topic = await topics.create("a", 1, {})
    await ask(home, KEY, ALL)
    await topics.add_partitions(topic, 3)
    grown = await ask(home, KEY, ALL)
    await topics.delete(topic)
    again = await topics.create("a", 1, {})
    later = await ask(home, KEY, ALL)

    assert len(grown.topics[0].partitions) == 3
    assert (later.topics[0].topic_id, len(later.topics[0].partitions)) == (again.id, 1)


async def test_in_version_0_no_topic_means_all(home: ServicesOnDisk) -> None:
    """It has no null; from version 1 on none means none."""
    await home.services.topics.create("a", 1, {})
    answer = await ask(home, KEY, request(3, 0), 0)

    assert [each.name for each in answer.topics] == ["a"]


async def _written(home: ServicesOnDisk, version: int, *, operations: bool = False) -> Any:
    """Return the parts of an answer about all topics, and its bytes."""
    request = Wanted(topics=None, include_topic_authorized_operations=operations)
    answer = await handle(home.context(KEY, version), request)
    return answer.topics, RESPONSE.write(version, answer)


async def test_an_answer_about_all_topics_is_put_together_of_kept_bytes(
    home: ServicesOnDisk,
) -> None:
    """The second answer has the parts of the first; a change of one topic leaves the others'."""
    topics = home.services.topics
    await topics.create("a", 1, {})
    b = await topics.create("b", 1, {})
    first, written = await _written(home, 12)
    again, the_same = await _written(home, 12)
    await topics.add_partitions(b, 2)
    later, longer = await _written(home, 12)

    assert again is first
    assert the_same == written
    assert later[0] is first[0]
    assert later[1] != first[1]
    assert len(longer) > len(written)


async def test_kept_bytes_are_those_of_the_form_asked_for(home: ServicesOnDisk) -> None:
    """Whatever was asked before: every version, with and without operations."""
    await home.services.topics.create("a", 3, {})
    await home.services.topics.create("__consumer_offsets", 1, {})
    forms = [(version, operations) for version in range(14) for operations in (False, True)]
    before = {form: (await _written(home, form[0], operations=form[1]))[1] for form in forms}
    for topic in home.services.topics.topics.values():
        assert len(topic.answers) <= MAX_FORMS
    assert len(home.services.topics.listings) <= MAX_FORMS

    for version, operations in reversed(forms):
        after = (await _written(home, version, operations=operations))[1]
        assert after == before[version, operations]


async def test_others_are_served_between_topics_until_all_are_kept(home: ServicesOnDisk) -> None:
    """A change meanwhile is in the answer, and the next one comes at once."""
    topics = home.services.topics
    for name in ("a", "b", "c"):
        await topics.create(name, 2, {})
    async with others_first():
        asking = asyncio.ensure_future(ask(home, KEY, ALL))
        await asyncio.sleep(0)
        assert [bool(topic.answers) for topic in topics.topics.values()] == [True, False, False]
        del topics.topics["b"]
        topics.topics["a"].answers.clear()
    answer = await asking

    assert [(each.name, len(each.partitions)) for each in answer.topics] == [("a", 2), ("c", 2)]
    later = handle(home.context(KEY), Wanted(topics=None))
    with pytest.raises(StopIteration):
        later.send(None)


async def test_a_topic_deleted_meanwhile_is_none_of_all(home: ServicesOnDisk) -> None:
    """It goes between the look at the client's rights and the description."""
    topics = home.services.topics
    for name in ("a", "b"):
        await topics.create(name, 1, {})

    class Rights:
        """Rights to all topics, one of which goes as it is looked at."""

        def sees(self, _: int, __: int, name: str = "") -> bool:
            if name == "b":
                topics.topics.pop("a", None)
            return True

    context: Any = home.context(KEY)
    context.rights = Rights()
    answer = await handle(context, Wanted(topics=None))
    [described] = answer.topics
    assert b"\0\0\2b" in described


async def test_errors_of_partitions_are_counted_each_time(home: ServicesOnDisk) -> None:
    """An answer with an error is written again, since kept bytes have no error."""
    topic = await home.services.topics.create("a", 1, {})
    topic.logs = (None,)
    for _ in range(2):
        errors: list[int] = []
        answer = await handle(home.context(KEY, 12), Wanted(topics=None))
        RESPONSE.respond(12, 1, answer, errors)
        assert errors == [ErrorCode.leader_not_available]


async def test_a_partition_that_cannot_be_served_has_no_leader(home: ServicesOnDisk) -> None:
    """It is listed all the same, with its replica offline: partitions are numbered without gaps."""
    topic = await home.services.topics.create("a", 2, {})
    topic.logs = (topic.logs[0], None)
    served, unserved = (await ask(home, KEY, ALL)).topics[0].partitions

    assert (served.error_code, served.leader_id) == (ErrorCode.none, 1)
    assert unserved.error_code is ErrorCode.leader_not_available
    assert (unserved.partition_index, unserved.leader_id) == (1, -1)
    assert (unserved.isr_nodes, unserved.offline_replicas) == ((), (1,))


@pytest.mark.parametrize("version", range(14))
async def test_every_version_can_be_written(home: ServicesOnDisk, version: int) -> None:
    """Known and unknown topics in all layouts."""
    await home.services.topics.create("a", 1, {})
    answer = await ask(home, KEY, _request("a", "missing"), version)

    assert [each.name for each in answer.topics] == ["a", "missing"]


@pytest.mark.parametrize(("asked", "told"), [(True, 8096), (False, -(2**31))])
async def test_until_v10_it_tells_what_one_may_do_with_the_cluster(
    home: ServicesOnDisk, asked: bool, told: int
) -> None:
    """So librdkafka describes the cluster, by v9: without an authorizer all is allowed."""
    for version in (8, 9, 10):
        old: Any = load_request_schema(KEY, version)
        request = old(
            topics=(),
            allow_auto_topic_creation=False,
            include_topic_authorized_operations=False,
            include_cluster_authorized_operations=asked,
        )
        answer = await ask(home, KEY, request, version)

        assert answer.cluster_authorized_operations == told
        assert answer.cluster_id == home.services.logs.cluster_id


async def test_one_request_makes_no_more_partitions_than_it_may(tmp_path: Path) -> None:
    """The limit of CreateTopics counts for what a client wants to use, too; nothing is made."""
    home = await ServicesOnDisk(tmp_path, num_partitions="4000").open()
    names = ("a", "b", "c")
    answer = await ask(home, KEY, _request(*names, create=True))

    assert [each.error_code for each in answer.topics] == [ErrorCode.policy_violation] * 3
    assert home.services.topics.topics == {}
    await home.close()


async def test_names_that_are_created_are_counted_in_shares(
    home: ServicesOnDisk, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As many as one request may have were counted in one turn of the loop, in 25 ms."""
    turns = 0
    counted: set[int] = set()

    async def count_turns() -> None:
        nonlocal turns
        while True:
            await asyncio.sleep(0)
            turns += 1

    def preset_for(name: str, server: ServerConfig) -> Preset:
        counted.add(turns)
        return internal.preset_for(name, server)

    monkeypatch.setattr(metadata, "preset_for", preset_for)
    ticking = asyncio.create_task(count_turns())
    names = [f"n{number}" for number in range(25_000)]
    answer = await ask(home, KEY, _request(*names, create=True))
    ticking.cancel()

    assert {each.error_code for each in answer.topics} == {ErrorCode.policy_violation}
    assert len(counted) > 1

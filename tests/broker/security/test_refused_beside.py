"""Parts that are served beside parts that are refused or left out, as by Apache Kafka."""

import asyncio
from typing import Any

import pytest
from kio.schema.errors import ErrorCode

from siltstone.broker.api import BY_KEY
from siltstone.broker.handlers import delete_topics
from siltstone.broker.handlers import metadata as metadata_handler
from siltstone.broker.handlers.produce import AT_ONCE
from siltstone.broker.security.acl import Operation, PatternType, Permission, ResourceType
from siltstone.protocol.core.constants import TRANSACTIONAL
from siltstone.protocol.errors import ProtocolError
from siltstone.protocol.messages import NO_ID, streams_group_describe, streams_group_heartbeat
from siltstone.protocol.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
)
from siltstone.protocol.messages.columns import ERROR_CODE
from siltstone.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from siltstone.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from siltstone.protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from siltstone.protocol.messages.describe_cluster import DescribeClusterRequest
from siltstone.protocol.messages.describe_groups import DescribeGroupsRequest
from siltstone.protocol.messages.describe_topic_partitions import (
    Cursor,
    DescribeTopicPartitionsRequest,
    TopicRequest,
)
from siltstone.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic, ReplicaState
from siltstone.protocol.messages.init_producer_id import InitProducerIdRequest
from siltstone.protocol.messages.list_groups import ListGroupsRequest
from siltstone.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from siltstone.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from siltstone.protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
    OffsetFetchRequestTopics,
)
from siltstone.protocol.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    TopicProduceData,
)
from tests.support.asking_as import Guarded, a_guarded, rule
from tests.support.batches import make_batch
from tests.support.waiting import give_turns_until

TOPIC, GROUP = ResourceType.TOPIC, ResourceType.GROUP
CLUSTER, TRANSACTION = ResourceType.CLUSTER, ResourceType.TRANSACTIONAL_ID
NONE = ErrorCode.none
NO_TOPIC = ErrorCode.topic_authorization_failed
NO_GROUP = ErrorCode.group_authorization_failed
NO_CLUSTER = ErrorCode.cluster_authorization_failed
NO_TRANSACTION = ErrorCode.transactional_id_authorization_failed
UNKNOWN = ErrorCode.unknown_topic_or_partition


guarded = a_guarded("abc", 2, coordinates=True)


def metadata(*names: str, creates: bool = False, operations: bool = False) -> MetadataRequest:
    """Return a Metadata of some topics, or of all."""
    topics = [MetadataRequestTopic(name=each) for each in names] or None
    return MetadataRequest(topics, creates, operations, operations)


def produce(*names: str, acks: int = 1, transactional_id: str | None = None) -> ProduceRequest:
    """Return a Produce of one batch for each topic."""
    flags: dict[str, Any] = (
        {}
        if transactional_id is None
        else {"flags": TRANSACTIONAL, "producer_id": 7, "producer_epoch": 0, "base_sequence": 0}
    )
    rows = [PartitionProduceData(0, memoryview(make_batch(1, **flags)))]
    topics = [TopicProduceData(name, partition_data=rows) for name in names]
    return ProduceRequest(transactional_id, acks, 1000, topics)


def fetch(
    *names: str, session: int = 0, epoch: int = 0, replica: int = -1, wait_ms: int = 0
) -> FetchRequest:
    """Return a Fetch, which waits for nothing unless it says how long."""
    partitions = [FetchPartition(0, fetch_offset=0, partition_max_bytes=1000)]
    return FetchRequest(
        replica_id=replica,
        max_wait_ms=wait_ms,
        min_bytes=1,
        session_id=session,
        session_epoch=epoch,
        topics=[FetchTopic(name, NO_ID, partitions) for name in names],
    )


# Metadata


async def test_of_all_topics_those_are_told_that_may_be_described(guarded: Guarded) -> None:
    """And those that may be read, written, deleted or altered, which implies it."""
    guarded.allow(Operation.DESCRIBE, TOPIC, "a")
    guarded.allow(Operation.WRITE, TOPIC, "c")
    told = [await guarded.ask(3, metadata(), version) for version in (1, 9, 13)]
    page = await guarded.ask(75, DescribeTopicPartitionsRequest())

    assert [[each.name for each in answer.topics] for answer in told] == [["a", "c"]] * 3
    assert [each.name for each in page.topics] == ["a", "c"]
    assert told[0].brokers


async def test_nobody_learns_whether_a_topic_is_there(guarded: Guarded) -> None:
    """One that may not be described has the same answer as one that does not exist."""
    answer = await guarded.ask(3, metadata("a", "nowhere"))
    page = await guarded.ask(
        75, DescribeTopicPartitionsRequest([TopicRequest("a"), TopicRequest("nowhere")])
    )

    for found in (answer, page):
        assert [(each.name, each.error_code) for each in found.topics] == [
            ("a", NO_TOPIC),
            ("nowhere", NO_TOPIC),
        ]
        assert {each.topic_id for each in found.topics} == {None}
        assert all(not each.partitions for each in found.topics)


async def test_an_id_does_not_tell_its_name(guarded: Guarded) -> None:
    """Ids are no secret; the names are."""
    key = guarded.home.services.topics.topics["a"].key
    (topic,) = (await guarded.ask(3, MetadataRequest([MetadataRequestTopic(key, None)]))).topics

    assert (topic.error_code, topic.name) == (NO_TOPIC, None)


async def test_a_name_beside_a_refused_id_is_passed_over(guarded: Guarded) -> None:
    """Once there is an id no name counts: none is described, and none is created."""
    key = guarded.home.services.topics.topics["a"].key
    wanted = [
        MetadataRequestTopic(key, None),
        MetadataRequestTopic(NO_ID, "b"),
        MetadataRequestTopic(NO_ID, "new"),
    ]
    answer = await guarded.ask(3, MetadataRequest(wanted, allow_auto_topic_creation=True))

    assert [(each.error_code, each.name) for each in answer.topics] == [(NO_TOPIC, None)]
    assert "new" not in guarded.home.services.topics.topics


async def test_asking_creates_what_may_be_created(guarded: Guarded) -> None:
    """By the right to the cluster or to the topic; without it the topic is refused."""
    guarded.allow(Operation.DESCRIBE, TOPIC)
    refused = await guarded.ask(3, metadata("d", creates=True))
    unknown = await guarded.ask(3, metadata("d"))
    guarded.allow(Operation.CREATE, TOPIC, "d")
    made = await guarded.ask(3, metadata("a", "d", "e", creates=True))

    assert refused.topics[0].error_code == NO_TOPIC
    assert unknown.topics[0].error_code == UNKNOWN
    assert [(each.name, each.error_code) for each in made.topics] == [
        ("a", NONE),
        ("d", NONE),
        ("e", NO_TOPIC),
    ]


async def test_a_topic_that_goes_while_it_is_asked_for_is_not_created(
    guarded: Guarded, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It existed when it was judged, so nothing was asked about making it."""
    guarded.allow(Operation.DESCRIBE, TOPIC)
    guarded.allow(Operation.CREATE, TOPIC, "new")
    topics = guarded.home.services.topics
    create = metadata_handler._create_and_describe

    async def wait_and_create(*asked: Any) -> Any:
        await topics.delete(topics.topics["a"])
        return await create(*asked)

    monkeypatch.setattr(metadata_handler, "_create_and_describe", wait_and_create)
    answer = await guarded.ask(3, metadata("a", "new", creates=True))

    assert [(each.name, each.error_code) for each in answer.topics] == [
        ("a", NO_TOPIC),
        ("new", NONE),
    ]
    assert "a" not in topics.topics


async def test_the_answer_tells_what_the_client_may_do(guarded: Guarded) -> None:
    """To each client its own, of topics, groups and the cluster."""
    guarded.allow(Operation.READ, TOPIC, "a")
    guarded.allow(Operation.READ, GROUP, "g")
    guarded.allow(Operation.READ, TOPIC, "missing")
    asked = metadata("a", "missing", operations=True)
    bobs = await guarded.ask(3, asked, 10)
    admins = await guarded.ask(3, asked, 10, who="User:admin")
    again = await guarded.ask(3, asked, 10)
    page = await guarded.ask(75, DescribeTopicPartitionsRequest([TopicRequest("a")]))
    group = await guarded.ask(15, DescribeGroupsRequest(["g"], True), 5)
    cluster = await guarded.ask(60, DescribeClusterRequest(True))

    read = 1 << Operation.READ | 1 << Operation.DESCRIBE
    assert bobs.topics[0].topic_authorized_operations == read
    assert bobs.topics[1].topic_authorized_operations == read
    assert again == bobs
    assert admins.topics[0].topic_authorized_operations == 0b1101_1111_1000
    assert admins.cluster_authorized_operations == 0b1_1111_1010_0000
    assert bobs.cluster_authorized_operations == 0
    assert page.topics[0].topic_authorized_operations == read
    assert group.groups[0].authorized_operations == read
    assert cluster.cluster_authorized_operations == 0


async def test_pages_go_on_where_the_client_may_no_longer_look(guarded: Guarded) -> None:
    """A cursor at a topic that was hidden meanwhile goes on behind it."""
    for name in "abc":
        guarded.allow(Operation.DESCRIBE, TOPIC, name)
    first = await guarded.ask(75, DescribeTopicPartitionsRequest((), 3))
    guarded.authorizer.add([rule(Operation.DESCRIBE, TOPIC, "b", Permission.DENY)])
    cursor = Cursor(first.next_cursor.topic_name, first.next_cursor.partition_index)
    rest = await guarded.ask(75, DescribeTopicPartitionsRequest((), 3, cursor))

    assert [each.name for each in first.topics] == ["a", "b"]
    assert cursor == ("b", 1)
    assert [(each.name, len(each.partitions)) for each in rest.topics] == [("c", 2)]


# Produce and Fetch


async def test_a_batch_is_appended_beside_one_that_is_refused(guarded: Guarded) -> None:
    """In the order of the request; nothing of the refused one reaches the log."""
    guarded.allow(Operation.WRITE, TOPIC, "b")
    answer = await guarded.ask(0, produce("a", "b", "c"), 9)
    ends = [guarded.home.services.topics.logs[name, 0].end.log_end_offset for name in "abc"]

    assert [(each.name, each.partition_responses[0].error_code) for each in answer.responses] == [
        ("a", NO_TOPIC),
        ("b", NONE),
        ("c", NO_TOPIC),
    ]
    assert ends == [0, 1, 0]


async def test_without_acks_a_refusal_closes_the_connection(guarded: Guarded) -> None:
    """Partitions that may be appended to have been before."""
    guarded.allow(Operation.WRITE, TOPIC, "b")
    with pytest.raises(ProtocolError, match="TOPIC_AUTHORIZATION_FAILED"):
        await guarded.ask(0, produce("a", "b", acks=0), 9)

    assert guarded.home.services.topics.logs["b", 0].end.log_end_offset == 1


async def test_a_transactional_batch_needs_its_transaction(guarded: Guarded) -> None:
    """The right to the topic alone is not enough."""
    guarded.allow(Operation.WRITE, TOPIC)
    answer = await guarded.ask(0, produce("a", transactional_id="t"), 9)

    assert answer.responses[0].partition_responses[0].error_code == NO_TRANSACTION


async def test_each_of_many_partitions_is_refused(guarded: Guarded) -> None:
    """In their order, where there are too many to be refused at once."""
    rows = [PartitionProduceData(index, make_batch(1)) for index in range(AT_ONCE)]
    request = ProduceRequest(None, 1, 1000, [TopicProduceData("a", partition_data=rows)])
    answer = await guarded.ask(0, request, 9)
    (told,) = answer.responses

    assert [each.index for each in told.partition_responses] == list(range(AT_ONCE))
    assert {each.error_code for each in told.partition_responses} == {NO_TOPIC}
    assert {each.base_offset for each in told.partition_responses} == {-1}


async def test_a_request_of_many_topics_appends_its_own_bytes(guarded: Guarded) -> None:
    """Its frame may stand in the buffer of the next client's, while it is judged."""
    guarded.allow(Operation.WRITE, TOPIC, "a")
    sent, other = make_batch(1), make_batch(2)
    frame = bytearray(sent)
    row = PartitionProduceData(0, memoryview(frame))
    others = [TopicProduceData(f"absent-{number}") for number in range(AT_ONCE)]
    request = ProduceRequest(None, 1, 1000, [*others, TopicProduceData("a", partition_data=[row])])
    context = guarded.context(0, 9)
    answer = BY_KEY[0].load()(context, request)
    frame[:] = other[: len(sent)]
    *_, told_last = (await answer)[0]
    log = guarded.home.services.topics.logs["a", 0]

    assert [each[:2] for each in told_last[2]] == [(0, NONE)]
    assert log.end.log_end_offset == 1


def told(answer: Any) -> list[tuple[str, ErrorCode]]:
    """Return the answer of a fetch for each topic."""
    return [(each.topic, each.partitions[0].error_code) for each in answer.responses]


async def test_a_refused_partition_is_told_in_each_answer_of_a_session(guarded: Guarded) -> None:
    """Beside the others, until the client may read it: then it is read."""
    guarded.allow(Operation.READ, TOPIC, "a")
    opened = await guarded.ask(1, fetch("a", "b"), 12)
    number = opened.session_id
    again = await guarded.ask(1, fetch(session=number, epoch=1), 12)
    guarded.allow(Operation.READ, TOPIC, "b")
    allowed = await guarded.ask(1, fetch(session=number, epoch=2), 12)
    after = await guarded.ask(1, fetch(session=number, epoch=3), 12)

    assert number
    assert told(opened) == [("a", NONE), ("b", NO_TOPIC)]
    assert [(each.high_watermark) for each in opened.responses[1].partitions] == [-1]
    assert told(again) == [("b", NO_TOPIC)]
    assert told(allowed) == [("b", NONE)]
    assert told(after) == []


async def test_a_session_loses_the_right_to_one_of_its_topics(guarded: Guarded) -> None:
    """An incremental request names nothing, and yet is not served by what was allowed before."""
    guarded.allow(Operation.READ, TOPIC)
    opened = await guarded.ask(1, fetch("a", "b"), 12)
    number = opened.session_id
    served = await guarded.ask(1, fetch(session=number, epoch=1), 12)
    guarded.authorizer.add([rule(Operation.READ, TOPIC, "b", Permission.DENY)])
    lost = await guarded.ask(1, fetch(session=number, epoch=2), 12)

    assert number
    assert (served.error_code, told(served)) == (NONE, [])
    assert (lost.error_code, lost.session_id) == (NONE, number)
    assert told(lost) == [("b", NO_TOPIC)]


async def test_a_lost_topic_tells_a_waiting_session_nothing(guarded: Guarded) -> None:
    """Not even by the moment of the answer that something was appended to it."""
    guarded.allow(Operation.READ, TOPIC)
    number = (await guarded.ask(1, fetch("a", "b"), 12)).session_id
    await guarded.ask(1, fetch(session=number, epoch=1), 12)
    guarded.authorizer.add([rule(Operation.READ, TOPIC, "b", Permission.DENY)])
    request = fetch(session=number, epoch=2, wait_ms=600_000)
    waiting = asyncio.ensure_future(BY_KEY[1].load()(guarded.context(1, 12), request))
    services = guarded.home.services
    watchers = services.topics.logs["a", 0].watchers
    await give_turns_until(lambda: services.waiting.count and watchers, "a parked fetch")
    await guarded.ask(0, produce("b"), 9, who="User:admin")
    (parked,) = services.waiting._parked
    is_released = parked.future.done()
    await guarded.ask(0, produce("a"), 9, who="User:admin")
    responses = (await waiting).responses

    audit = services.security.audit
    assert audit is not None
    assert audit.refused_count == 1  # though it was read twice
    assert not is_released
    assert {name: rows[0][ERROR_CODE] for name, _, rows in responses} == {"a": NONE, "b": NO_TOPIC}


async def test_a_session_is_nobody_elses(guarded: Guarded) -> None:
    """A client that names its number has it judged by its own rights."""
    guarded.allow(Operation.READ, TOPIC)
    number = (await guarded.ask(1, fetch("a"), 12)).session_id
    stolen = await guarded.ask(1, fetch(session=number, epoch=1), 12, who="User:eve")

    assert told(stolen) == [("a", NO_TOPIC)]


async def test_who_calls_itself_a_replica_must_be_a_broker(guarded: Guarded) -> None:
    """CVE-2018-1288: a replica id from a client gives no other rights, and needs more."""
    guarded.allow(Operation.READ, TOPIC)
    old = await guarded.ask(1, fetch("a", replica=2, epoch=-1), 12)
    key = guarded.home.services.topics.topics["a"].key
    new = await guarded.ask(
        1,
        fetch("a", epoch=-1)._replace(
            replica_state=ReplicaState(2), topics=[FetchTopic("", key, [FetchPartition(0)])]
        ),
    )

    assert old.responses[0].partitions[0].error_code == NO_TOPIC
    assert new.responses[0].partitions[0].error_code == NO_TOPIC


# Groups


async def commit(guarded: Guarded, *names: str, who: str = "User:bob") -> list[tuple[str, int]]:
    """Commit 5 for the group g, and return the codes."""
    rows = [OffsetCommitRequestPartition(0, 5)]
    request = OffsetCommitRequest(
        "g", topics=[OffsetCommitRequestTopic(name, partitions=rows) for name in names]
    )
    answer = await guarded.ask(8, request, 8, who)
    return [(each.name, each.partitions[0].error_code) for each in answer.topics]


async def test_offsets_are_committed_beside_those_that_are_refused(guarded: Guarded) -> None:
    """And none without the right to the group."""
    without = await commit(guarded, "a", "b")
    guarded.allow(Operation.READ, GROUP, "g")
    guarded.allow(Operation.READ, TOPIC, "b")
    beside = await commit(guarded, "a", "b")

    assert without == [("a", NO_GROUP), ("b", NO_GROUP)]
    assert beside == [("a", NO_TOPIC), ("b", NONE)]


@pytest.mark.parametrize("version", [2, 7, 8, 9, 10])
async def test_of_all_offsets_those_are_told_of_topics_that_are_seen(
    guarded: Guarded, version: int
) -> None:
    """Those that are asked for by name are refused instead."""
    await commit(guarded, "a", "b", who="User:admin")
    guarded.allow(Operation.DESCRIBE, GROUP, "g")
    guarded.allow(Operation.DESCRIBE, TOPIC, "b")
    keys = {name: guarded.home.services.topics.topics[name].key for name in "ab"}
    named = [OffsetFetchRequestTopics(name, keys[name], [0]) for name in "ab"]
    older = [OffsetFetchRequestTopic(name, [0]) for name in "ab"]

    async def ask(topics: Any, of_older: Any) -> Any:
        groups = [OffsetFetchRequestGroup("g", topics=topics)]
        request = OffsetFetchRequest("g", of_older, groups)
        answer = await guarded.ask(9, request, version)
        return answer.topics if version < 8 else answer.groups[0].topics

    every = await ask(None, None)
    both = await ask(named, older)

    assert len(every) == 1
    assert [each.partitions[0].committed_offset for each in every] == [5]
    assert sorted(
        (each.partitions[0].error_code, each.partitions[0].committed_offset) for each in both
    ) == [(NONE, 5), (NO_TOPIC, -1)]


async def test_groups_are_listed_to_those_who_may_describe_them(guarded: Guarded) -> None:
    """Or the whole cluster."""
    guarded.allow(Operation.READ, GROUP, "g")
    guarded.allow(Operation.READ, TOPIC)
    await commit(guarded, "a")
    bobs = await guarded.ask(16, ListGroupsRequest())
    eves = await guarded.ask(16, ListGroupsRequest(), who="User:eve")
    guarded.authorizer.add([rule(Operation.DESCRIBE, CLUSTER, principal="User:eve")])
    again = await guarded.ask(16, ListGroupsRequest(), who="User:eve")

    assert [each.group_id for each in bobs.groups] == ["g"]
    assert eves.groups == ()
    assert again.groups == bobs.groups


async def test_a_member_subscribes_to_what_it_may_describe(guarded: Guarded) -> None:
    """Else it would learn which topics there are by what it is assigned."""
    guarded.allow(Operation.READ, GROUP, "g")
    guarded.allow(Operation.DESCRIBE, TOPIC, "a")

    async def join(*names: str) -> Any:
        return await guarded.ask(
            68,
            ConsumerGroupHeartbeatRequest(
                "g",
                "member",
                rebalance_timeout_ms=1000,
                subscribed_topic_names=list(names),
                topic_partitions=[],
            ),
        )

    refused, joined = await join("a", "b"), await join("a")

    assert (refused.error_code, joined.error_code) == (NO_TOPIC, NONE)


async def test_an_expression_matches_what_may_be_described(guarded: Guarded) -> None:
    """The other topics are as if they did not exist."""
    guarded.allow(Operation.READ, GROUP, "g")
    guarded.allow(Operation.DESCRIBE, TOPIC, "a")
    guarded.allow(Operation.DESCRIBE, TOPIC, "c")
    joined = await guarded.ask(
        68,
        ConsumerGroupHeartbeatRequest(
            "g",
            "member",
            rebalance_timeout_ms=1000,
            subscribed_topic_regex=".*",
            topic_partitions=[],
        ),
    )
    machine = guarded.home.services.consumer_groups().get("g").machine
    await give_turns_until(lambda: bool(machine.regexes), "the expression to be matched")

    assert joined.error_code == NONE
    assert machine.regexes[".*"].topics == {"a", "c"}


# Producers and transactions


async def test_an_idempotent_producer_needs_a_topic_to_write(guarded: Guarded) -> None:
    """CVE-2018-17196: no producer id, and so no sequence, without a right to write."""
    ask = InitProducerIdRequest(None, 1000)
    without = await guarded.ask(22, ask)
    guarded.allow(Operation.WRITE, TOPIC, "a")
    with_one = await guarded.ask(22, ask)

    assert (without.error_code, without.producer_id) == (NO_CLUSTER, -1)
    assert with_one.error_code == NONE


async def test_an_idempotent_batch_needs_the_right_to_its_topic(guarded: Guarded) -> None:
    """CVE-2018-17196: a batch with a producer id is judged as any other."""
    guarded.allow(Operation.WRITE, TOPIC, "a")
    batch = make_batch(1, producer_id=7, producer_epoch=0, base_sequence=0)
    rows = [PartitionProduceData(0, memoryview(batch))]
    request = ProduceRequest(None, 1, 1000, [TopicProduceData("b", partition_data=rows)])
    answer = await guarded.ask(0, request, 9)

    assert answer.responses[0].partition_responses[0].error_code == NO_TOPIC


async def test_partitions_are_added_all_or_none(guarded: Guarded) -> None:
    """The others are said not to have been tried."""
    guarded.allow(Operation.WRITE, TRANSACTION, "t")
    guarded.allow(Operation.WRITE, TOPIC, "a")
    rows = [AddPartitionsToTxnTopic(name, [0, 9]) for name in "ab"]
    request = AddPartitionsToTxnRequest((), "t", 7, 0, rows)
    answer = await guarded.ask(24, request, 3)

    assert [
        [each.partition_error_code for each in topic.results_by_partition]
        for topic in answer.results_by_topic_v3_and_below
    ] == [[ErrorCode.operation_not_attempted, UNKNOWN], [NO_TOPIC, NO_TOPIC]]


async def test_brokers_alone_add_partitions_for_others(guarded: Guarded) -> None:
    """From version 4 on, as the whole request."""
    guarded.allow(Operation.ALL, TRANSACTION)
    guarded.allow(Operation.ALL, TOPIC)
    answer = await guarded.ask(24, AddPartitionsToTxnRequest(), 5)

    assert answer.error_code == NO_CLUSTER


# Topics


async def test_topics_are_created_beside_those_that_are_refused(guarded: Guarded) -> None:
    """A client is not told settings of a topic that it may not see."""
    guarded.authorizer.add(
        [
            rule(Operation.CREATE, TOPIC, "new")._replace(
                pattern=rule(Operation.CREATE, TOPIC, "new").pattern._replace(
                    pattern_type=PatternType.PREFIXED
                )
            ),
            rule(Operation.DESCRIBE_CONFIGS, TOPIC, "new-2"),
        ]
    )
    names = ("new-1", "other", "new-2")
    request = CreateTopicsRequest([CreatableTopic(name, 1, 1) for name in names])
    one, other, two = (await guarded.ask(19, request)).topics

    assert [each.error_code for each in (one, other, two)] == [NONE, NO_TOPIC, NONE]
    assert other.error_message == "Authorization failed."
    assert (one.num_partitions, two.num_partitions) == (-1, 1)
    assert one.topic_config_error_code == NO_TOPIC
    assert "other" not in guarded.home.services.topics.topics


async def test_a_topic_is_deleted_by_who_may(guarded: Guarded) -> None:
    """By its id, too; and the name of an id is told to clients that may describe it."""
    guarded.allow(Operation.DELETE, TOPIC, "a")
    guarded.allow(Operation.DESCRIBE, TOPIC, "b")
    keys = [guarded.home.services.topics.topics[name].key for name in "abc"]
    request = DeleteTopicsRequest([DeleteTopicState(None, key) for key in keys])
    answer = await guarded.ask(20, request)

    assert [(each.name, each.error_code) for each in answer.responses] == [
        ("a", NONE),
        ("b", NO_TOPIC),
        (None, NO_TOPIC),
    ]
    assert {"a", "b", "c"} & set(guarded.home.services.topics.topics) == {"b", "c"}


async def test_a_topic_that_comes_while_it_is_asked_for_is_not_deleted(
    guarded: Guarded, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It did not exist when it was judged, and a client that may only describe deletes nothing."""
    guarded.allow(Operation.DELETE, TOPIC, "a")
    guarded.allow(Operation.DESCRIBE, TOPIC, "late")
    topics = guarded.home.services.topics
    find = delete_topics._find_refused

    async def find_and_wait(*asked: Any) -> Any:
        found = await find(*asked)
        await topics.create("late", 1, {})
        return found

    monkeypatch.setattr(delete_topics, "_find_refused", find_and_wait)
    request = DeleteTopicsRequest([DeleteTopicState(name) for name in ("a", "late")])
    answer = await guarded.ask(20, request)

    assert [(each.name, each.error_code) for each in answer.responses] == [
        ("a", NONE),
        ("late", NO_TOPIC),
    ]
    assert "late" in topics.topics


async def test_a_streams_group_needs_the_rights_to_all_its_topics(guarded: Guarded) -> None:
    """READ on the group and DESCRIBE on each topic; without CREATE the topics are not made."""
    topology = streams_group_heartbeat.Topology(1, [
        streams_group_heartbeat.Subtopology(
            "0",
            source_topics=["a"],
            state_changelog_topics=[streams_group_heartbeat.TopicInfo("new")],
        )
    ])  # fmt: skip
    request = streams_group_heartbeat.StreamsGroupHeartbeatRequest(
        *("g", "m"), rebalance_timeout_ms=1000, topology=topology, active_tasks=[],
        standby_tasks=[], warmup_tasks=[], process_id="p",
    )  # fmt: skip
    described = streams_group_describe.StreamsGroupDescribeRequest(["g"])

    codes = [(await guarded.ask(88, request)).error_code]
    guarded.allow(Operation.READ, GROUP, "g")
    guarded.allow(Operation.DESCRIBE, TOPIC, "a")
    codes.append((await guarded.ask(88, request)).error_code)
    guarded.allow(Operation.DESCRIBE, TOPIC, "new")
    joined = await guarded.ask(88, request)
    again = request._replace(member_epoch=joined.member_epoch, topology=None)
    guarded.allow(Operation.CREATE, TOPIC, "new")
    await guarded.ask(88, again)

    assert codes == [NO_GROUP, NO_TOPIC]
    assert joined.status[-1].status_detail == (
        "Internal topics are missing: new; Unauthorized to CREATE on topics new."
    )
    assert "new" in guarded.home.services.topics.topics
    [group] = (await guarded.ask(89, described)).groups
    assert group.error_code == NONE

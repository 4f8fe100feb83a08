"""Before the coordinators' topics exist: answers as Apache Kafka 4.3.1 was seen to give them.

FindCoordinator makes the topics, and every client begins with it.
"""

from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from siltstone.protocol.names import OFFSETS_TOPIC, TRANSACTIONS_TOPIC
from tests.support import group_requests as ask
from tests.support.kio_messages import request
from tests.support.running import Running, a_broker, running

ORDERS = {("orders", 0): 5}


# A broker with the topic orders, to which no group and no transaction has come.
home = a_broker(topics={"orders": (2, {})})


def codes(answer: Any) -> list[int]:
    """Return every code in an answer that has codes, in order."""
    names = "error_code", "partition_error_code"
    found = [int(getattr(answer, name)) for name in names if hasattr(answer, name)]
    for name in (
        *("topics", "partitions", "groups", "results", "members", "transaction_states"),
        *("results_by_topic_v3_and_below", "results_by_partition"),
    ):
        for each in getattr(answer, name, ()):
            found += codes(each)
    return found


def add_partitions() -> Any:
    """Return an AddPartitionsToTxn of version 3."""
    return request(
        24,
        3,
        v3_and_below_transactional_id="t",
        v3_and_below_producer_id=1,
        v3_and_below_topics=[{"name": "orders", "partitions": [0]}],
    )


def commit_in_transaction(version: int) -> Any:
    """Return a TxnOffsetCommit."""
    row = {"partition_index": 0, "committed_offset": 1, "committed_metadata": ""}
    topics = [{"name": "orders", "partitions": [row]}]
    return request(28, version, transactional_id="t", group_id="g", producer_id=1, topics=topics)


def old_fetch(version: int) -> Any:
    """Return an OffsetFetch of one group and two partitions."""
    topics = [{"name": "orders", "partition_indexes": [0, 1]}]
    return request(9, version, group_id="g", topics=topics)


CASES: dict[str, tuple[Any, list[int]]] = {
    "OffsetFetch": (ask.fetch("g", ("orders", 0)), [16]),
    "OffsetFetch 1": (old_fetch(1), [16, 16]),
    "OffsetFetch 2": (old_fetch(2), [16]),
    "OffsetFetch 7": (old_fetch(7), [16]),
    "OffsetFetch of no group": (ask.fetch(""), [16]),
    "OffsetCommit": (ask.commit("g", ORDERS), [16]),
    "OffsetCommit 2": (ask.commit("g", ORDERS, version=2), [16]),
    "OffsetCommit elsewhere": (ask.commit("g", {("nope", 0): 5}), [3]),
    "JoinGroup": (ask.join("g"), [16]),
    "JoinGroup 0": (ask.old_join("g"), [16]),
    "JoinGroup of no group": (ask.join(""), [24]),
    "SyncGroup": (ask.sync("g", "m", 1), [16]),
    "Heartbeat": (ask.beat("g", "m", 1), [16]),
    "LeaveGroup": (ask.leave("g", ("m", None)), [16]),
    "DescribeGroups": (ask.describe("g"), [16]),
    "DescribeGroups 5": (ask.describe("g", version=5), [16]),
    "ListGroups": (ask.list_groups(), [0]),
    "DeleteGroups": (ask.delete("g", "h"), [16, 16]),
    "OffsetDelete": (ask.delete_offsets("g", ("orders", 0)), [16]),
    "OffsetDelete of no group": (ask.delete_offsets("", ("orders", 0)), [24]),
    "ConsumerGroupHeartbeat": (ask.consumer_beat("g", "m", 0), [16]),
    "ConsumerGroupHeartbeat of no group": (ask.consumer_beat("", "m", 0), [42]),
    "ConsumerGroupDescribe": (ask.describe_consumer("g"), [16]),
    "TxnOffsetCommit 1": (commit_in_transaction(1), [15]),
    "TxnOffsetCommit 5": (commit_in_transaction(5), [15]),
    "AddPartitionsToTxn": (add_partitions(), [16]),
    "AddOffsetsToTxn": (
        request(25, 4, transactional_id="t", producer_id=1, producer_epoch=0, group_id="g"),
        [16],
    ),
    "EndTxn": (
        request(26, 5, transactional_id="t", producer_id=1, producer_epoch=0, committed=True),
        [16],
    ),
    "InitProducerId": (
        request(22, 5, transactional_id="t", transaction_timeout=timedelta(seconds=1)),
        [16],
    ),
    "DescribeTransactions": (request(65, 0, transactional_ids=("t",)), [16]),
    "ListTransactions": (request(66, 1, state_filters=(), producer_id_filters=()), [0]),
}


@pytest.mark.parametrize("name", CASES)
async def test_who_does_not_look_for_the_coordinator_first_is_told_to(
    name: str, home: Running
) -> None:
    """And no topic is made."""
    wanted, expected = CASES[name]
    answer = await (await home.call()).ask(wanted)

    assert codes(answer) == expected
    assert not {OFFSETS_TOPIC, TRANSACTIONS_TOPIC} & set(home.topics.topics)


@pytest.mark.parametrize(("key_type", "topic"), [(0, OFFSETS_TOPIC), (1, TRANSACTIONS_TOPIC)])
async def test_whoever_looks_for_it_finds_it(key_type: int, topic: str, home: Running) -> None:
    """The topic exists when the answer comes."""
    answer = await (await home.call()).ask(ask.find("g", key_type))

    assert answer.coordinators[0].error_code.name == "none"
    assert set(home.topics.topics) == {"orders", topic}


async def test_a_switched_off_protocol_is_refused_without_a_word(tmp_path: Path) -> None:
    """The bytes are Apache Kafka's."""
    protocols = "group.coordinator.rebalance.protocols=classic"
    async with running(tmp_path / "data", protocols) as home:
        caller = await home.call()
        answers = []
        for wanted in (ask.consumer_beat("g", "m", 0), ask.describe_consumer("g")):
            await caller.client.send(caller.frame(wanted))
            answers.append((await caller.client.receive()).hex())

    assert answers == [
        "000000010000000000002300000000000000000000ff00",
        "0000000200000000000200230002670100000000000000000101800000000000",
    ]


async def test_ids_that_no_topic_has_come_last(home: Running) -> None:
    """OffsetFetch 10: known topics in their order, then the others in theirs."""
    caller = await home.call()
    await caller.ask(ask.find("g"))
    topic_id = home.topics.topics["orders"].id
    unknown = [type(topic_id)(int=number) for number in (9, 3)]
    wanted = ((unknown[0], (0, 1)), (topic_id, (0,)), (unknown[1], (1,)), (topic_id, (1,)))
    topics = [{"topic_id": each, "partition_indexes": indexes} for each, indexes in wanted]
    group = {"group_id": "g", "topics": topics}
    (answer,) = (await caller.ask(request(9, 10, groups=[group]))).groups

    assert [
        (each.topic_id, [(row.partition_index, int(row.error_code)) for row in each.partitions])
        for each in answer.topics
    ] == [
        (topic_id, [(0, 0)]),
        (topic_id, [(1, 0)]),
        (unknown[0], [(0, 100), (1, 100)]),
        (unknown[1], [(1, 100)]),
    ]

"""Small requests with answers of many elements: no turn of the loop is long."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest

from siltstone.broker.api import BY_KEY
from siltstone.protocol.messages import (
    create_topics,
    describe_producers,
    find_coordinator,
    init_producer_id,
    list_groups,
    list_transactions,
    offset_commit,
    produce,
)
from siltstone.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from siltstone.protocol.messages.describe_producers import (
    DescribeProducersRequest,
    TopicRequest,
)
from siltstone.protocol.messages.find_coordinator import FindCoordinatorRequest
from siltstone.protocol.messages.init_producer_id import InitProducerIdRequest
from siltstone.protocol.messages.list_groups import ListGroupsRequest
from siltstone.protocol.messages.list_transactions import ListTransactionsRequest
from siltstone.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from siltstone.protocol.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    TopicProduceData,
)
from tests.support.batches import make_producer_batch
from tests.support.broker import SiltstoneProcess
from tests.support.ports import address_of
from tests.support.running import Client
from tests.support.turn_asker import TurnAsker
from tests.support.turns import Turns, slowness

if TYPE_CHECKING:
    from pathlib import Path

GROUPS = 30_000
IDS = 15_000
PRODUCERS = 20_000
TURN_SECONDS = 0.02
TRIES = 3

pytestmark = [pytest.mark.slow, pytest.mark.alone, pytest.mark.timeout(300)]


async def have_groups(asker: TurnAsker) -> None:
    """Commit an offset of each group."""
    await asker.ask(find_coordinator, 0, FindCoordinatorRequest("g"))
    topics = [OffsetCommitRequestTopic("t", partitions=[OffsetCommitRequestPartition(0, 5)])]
    answers = await asker.ask_all(
        offset_commit,
        2,
        (OffsetCommitRequest(f"group-{number}", topics=topics) for number in range(GROUPS)),
    )
    assert {each.topics[0].partitions[0].error_code for each in answers} == {0}


async def have_ids(asker: TurnAsker) -> None:
    """Begin with each transactional id."""
    await asker.ask(find_coordinator, 1, FindCoordinatorRequest("x", 1))
    names = (f"id-{number}" for number in range(IDS))
    answers = await asker.ask_all(
        init_producer_id, 0, (InitProducerIdRequest(name, 60_000) for name in names)
    )
    assert {each.error_code for each in answers} == {0}


async def have_producers(asker: TurnAsker) -> None:
    """Append a batch of each producer."""
    answers = await asker.ask_all(produce, 7, map(_batch_of, range(PRODUCERS)))
    assert {each.responses[0].partition_responses[0].error_code for each in answers} == {0}


def _batch_of(producer_id: int) -> ProduceRequest:
    batch = bytes(make_producer_batch(0, producer_id=producer_id))
    topic = TopicProduceData("t", partition_data=[PartitionProduceData(0, batch)])
    return ProduceRequest(None, -1, 10_000, [topic])


ROWS: list[tuple[Any, Any, Any, Any, int]] = [
    (have_groups, list_groups, ListGroupsRequest(), lambda answer: answer.groups, GROUPS),
    (
        have_ids,
        list_transactions,
        ListTransactionsRequest(duration_filter=-1),
        lambda answer: answer.transaction_states,
        IDS,
    ),
    (
        have_producers,
        describe_producers,
        DescribeProducersRequest([TopicRequest("t", [0])]),
        lambda answer: answer.topics[0].partitions[0].active_producers,
        PRODUCERS,
    ),
]


async def serve(address: tuple[str, int], turns: Turns, row: tuple[Any, ...]) -> list[float]:
    """Ask as often as it is tried; return the longest turn of each."""
    have, module, request, rows_of, count = row
    asker = TurnAsker(Client(*await asyncio.open_connection(*address)), turns)
    topic = CreatableTopic("t", 1, 1)
    await asker.ask(create_topics, 4, CreateTopicsRequest([topic], 100_000))
    longest = []
    try:
        await have(asker)
        for _ in range(TRIES):
            answer = await asker.ask(module, BY_KEY[module.REQUEST.key].versions[-1], request)
            print(f"{asker.longest * 1000:.1f} ms")  # noqa: T201
            assert len(rows_of(answer)) == count
            longest.append(asker.longest)
    finally:
        await asker.close()
    return longest


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row[1].__name__.rpartition(".")[2])
def test_no_large_answer_holds_the_loop(tmp_path: Path, row: tuple[Any, ...]) -> None:
    """Groups, transactional ids, producers of a partition: turns of 20 ms."""
    turns = Turns(tmp_path)
    settings = {"offsets.topic.num.partitions": "1", "transaction.state.log.num.partitions": "1"}
    broker = SiltstoneProcess(tmp_path / "data", settings, turns.environ)
    broker.start()
    try:
        longest = asyncio.run(serve(address_of(broker.bootstrap), turns, row))
    finally:
        broker.close()

    assert min(longest) < TURN_SECONDS * slowness(), longest

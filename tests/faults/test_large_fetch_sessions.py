"""A fetch session of as many partitions as a broker has: no turn of the loop is long."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING, Any

import pytest

from siltstone.protocol.messages import create_topics, fetch, produce
from siltstone.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from siltstone.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from siltstone.protocol.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    TopicProduceData,
)
from tests.support.batches import make_batch
from tests.support.broker import SiltstoneProcess
from tests.support.ports import address_of
from tests.support.running import Client
from tests.support.turn_asker import TurnAsker
from tests.support.turns import Turns, slowness

if TYPE_CHECKING:
    from pathlib import Path

PARTITIONS = 10_000
TURN_SECONDS = 0.02
TRIES = 3
VERSION = 12

pytestmark = [pytest.mark.slow, pytest.mark.alone, pytest.mark.timeout(300)]


async def produce_everywhere(asker: TurnAsker) -> None:
    """Append a record to every partition."""
    batch = bytes(make_batch(1, timestamp=time.time_ns() // 1_000_000))
    rows = [PartitionProduceData(index, batch) for index in range(PARTITIONS)]
    request = ProduceRequest(None, -1, 10_000, [TopicProduceData("t", partition_data=rows)])
    answer = await asker.ask(produce, 7, request)
    assert {row.error_code for row in answer.responses[0].partition_responses} == {0}


async def ask_all(
    asker: TurnAsker, session: int, epoch: int, offset: int | None, **more: Any
) -> Any:
    """Fetch all partitions from an offset on, or what has changed."""
    topics = []
    if offset is not None:
        wanted = [
            FetchPartition(index, -1, offset, partition_max_bytes=1 << 20)
            for index in range(PARTITIONS)
        ]
        topics = [FetchTopic("t", partitions=wanted)]
    request = FetchRequest(
        max_bytes=1 << 26, session_id=session, session_epoch=epoch, topics=topics, **more
    )
    return await asker.ask(fetch, VERSION, request)


def told(answer: Any) -> list[tuple[int, bool]]:
    """Return the partitions of an answer that are told without error, and if there are records."""
    assert answer.error_code == 0
    return [
        (row.partition_index, bool(row.records))
        for topic in answer.responses
        for row in topic.partitions
        if row.error_code == 0
    ]


async def serve(address: tuple[str, int], turns: Turns) -> dict[str, float]:
    """Walk through the life of a session; return the longest turn of each step."""
    asker = TurnAsker(Client(*await asyncio.open_connection(*address)), turns)
    topic = CreatableTopic("t", PARTITIONS, 1)
    made = await asker.ask(create_topics, 4, CreateTopicsRequest([topic], 100_000))
    assert made.topics[0].error_code == 0
    everywhere = [(index, True) for index in range(PARTITIONS)]
    longest = {}

    answer = await ask_all(asker, 0, 0, 0)
    longest["created"] = asker.longest
    session = answer.session_id
    assert session
    await produce_everywhere(asker)
    answer = await ask_all(asker, session, 1, None)
    longest["all have records"] = asker.longest
    assert sorted(told(answer)) == everywhere
    answer = await ask_all(asker, session, 2, 1)
    longest["all offsets changed"] = asker.longest
    assert told(answer) == []
    await produce_everywhere(asker)
    answer = await ask_all(asker, session, 3, 1, min_bytes=1 << 26, max_wait_ms=500)
    longest["waited"] = asker.longest
    assert sorted(told(answer)) == everywhere
    answer = await ask_all(asker, 0, -1, 2, min_bytes=1, max_wait_ms=500)
    longest["without session"] = asker.longest
    assert told(answer) == [(index, False) for index in range(PARTITIONS)]
    await asker.close()
    return longest


def test_no_step_of_a_large_session_holds_the_loop(tmp_path: Path) -> None:
    """It is created, all have records, all offsets change, it waits: turns of 20 ms."""
    turns = Turns(tmp_path)
    bound = TURN_SECONDS * slowness()
    best: dict[str, float] = {}
    for number in range(TRIES):
        broker = SiltstoneProcess(tmp_path / str(number), {}, turns.environ)
        broker.start()
        try:
            longest = asyncio.run(serve(address_of(broker.bootstrap), turns))
        finally:
            broker.close()
        best = {step: min(spent, best.get(step, spent)) for step, spent in longest.items()}
        print({step: f"{spent * 1000:.1f} ms" for step, spent in best.items()})  # noqa: T201
        if max(best.values()) < bound:
            break

    assert max(best.values()) < bound, best

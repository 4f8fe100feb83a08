"""Produce requests whose topics and partitions do not come once each, as of no client."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from siltstone.storage.clock import Clock
from tests.support.batches import make_batch
from tests.support.produce_requests import Topics, request_entity
from tests.support.running import Caller, running


@pytest.fixture
async def caller(tmp_path: Path) -> AsyncIterator[Caller]:
    """A connection to a broker with topics t (two partitions) and c (compacted)."""
    async with running(tmp_path) as started:
        await started.topics.create("t", 2, {})
        await started.topics.create("c", 1, {"cleanup.policy": "compact"})
        yield await started.call()


def batch(rows: int) -> bytes:
    """Return a batch that every topic takes; a large one is opened on a thread for topic c."""
    return bytes(make_batch([(b"k", b"v")] * rows, timestamp=Clock().now_ms(), codec=1))


def produce(version: int, topics: Topics) -> Any:
    """Build a Produce request of topics and partitions in any order."""
    return request_entity(version, 1, 1000, None, topics)


def results_of(response: Any) -> list[tuple[str, list[tuple[int, int, int]]]]:
    """Return topics with index, error code and base offset of their partitions."""
    return [
        (
            topic.name,
            [(one.index, one.error_code, one.base_offset) for one in topic.partition_responses],
        )
        for topic in response.responses
    ]


@pytest.mark.parametrize("version", [7, 9])
async def test_a_partition_that_comes_twice_is_appended_once(caller: Caller, version: int) -> None:
    """The last batch of it, and it is answered once; a topic without partitions not at all."""
    one, two, three = (batch(rows) for rows in (1, 2, 3))
    topics: Topics = [
        ("t", [(0, one), (1, one), (0, two)]),
        ("c", []),
        ("t", [(0, three)]),
        ("missing", [(0, one), (0, two)]),
    ]
    answer = await caller.ask(produce(version, topics))
    after = await caller.ask(produce(9, [("t", [(0, one)])]))

    assert results_of(answer) == [("t", [(0, 0, 0), (1, 0, 0)]), ("missing", [(0, 3, -1)])]
    assert results_of(after) == [("t", [(0, 0, 3)])]
    assert results_of(await caller.ask(produce(version, [("t", [])]))) == []


@pytest.mark.parametrize("version", [7, 9])
async def test_of_records_that_are_no_batch_is_told_whatever_else_there_is(
    caller: Caller, version: int
) -> None:
    """Kafka appends the batch, and says of the partition that it has none."""
    one, two = (batch(rows) for rows in (1, 2))
    answer = await caller.ask(produce(version, [("t", [(0, one), (0, b""), (0, two)])]))
    after = await caller.ask(produce(9, [("t", [(0, one)])]))

    assert results_of(answer) == [("t", [(0, 87, -1)])]
    assert results_of(after) == [("t", [(0, 0, 2)])]


async def test_a_batch_that_comes_twice_is_opened_once(caller: Caller) -> None:
    """On a thread, as the others of its request are then."""
    many, few = batch(200_000), batch(3)
    answer = await caller.ask(produce(9, [("c", [(0, few), (0, many)]), ("c", [(0, few)])]))
    whole = await caller.ask(produce(9, [("c", [(0, few), (0, many)]), ("t", [(0, few)])]))

    assert results_of(answer) == [("c", [(0, 0, 0)])]
    assert results_of(whole) == [("c", [(0, 0, 3)]), ("t", [(0, 0, 0)])]

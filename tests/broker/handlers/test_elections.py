"""ElectLeaders and reassignments: with one broker everything is where it can be."""

from datetime import timedelta
from typing import Any

import pytest
from kio.schema.errors import ErrorCode

from tests.support.ask import ask
from tests.support.kio_messages import request
from tests.support.services import ServicesOnDisk

NO_TIME = timedelta(0)


async def _elect(
    home: ServicesOnDisk, kind: int, *topics: tuple[str, tuple[int, ...]], version: int = 2
) -> Any:
    rows = [{"topic": name, "partitions": parts} for name, parts in topics]
    return await ask(home, 43, request(43, 2, election_type=kind, topic_partitions=rows), version)


@pytest.mark.parametrize("version", range(3))
@pytest.mark.parametrize("kind", [0, 1])
async def test_no_election_is_needed(home: ServicesOnDisk, kind: int, version: int) -> None:
    """The leader leads; a partition that does not exist is unknown."""
    await home.services.topics.create("t", 1, {})
    answer = await _elect(home, kind, ("t", (0, 5)), ("missing", (0,)), version=version)

    assert [
        (topic.topic, part.partition_id, part.error_code)
        for topic in answer.replica_election_results
        for part in topic.partition_result
    ] == [
        ("t", 0, ErrorCode.election_not_needed),
        ("t", 5, ErrorCode.unknown_topic_or_partition),
        ("missing", 0, ErrorCode.unknown_topic_or_partition),
    ]


async def test_an_election_for_all_is_a_success(home: ServicesOnDisk) -> None:
    """Partitions that need none are left out."""
    await home.services.topics.create("t", 1, {})
    answer = await ask(home, 43, request(43, 2))

    assert (answer.error_code, answer.replica_election_results) == (ErrorCode.none, ())


async def test_an_unknown_election_is_refused(home: ServicesOnDisk) -> None:
    """As a whole and for each partition."""
    await home.services.topics.create("t", 1, {})
    answer = await _elect(home, 2, ("t", (0,)))

    assert answer.error_code is ErrorCode.invalid_request
    [partition] = answer.replica_election_results[0].partition_result
    assert partition.error_code is ErrorCode.invalid_request


@pytest.mark.parametrize(
    ("topic", "partition", "replicas", "code"),
    [
        ("t", 0, (1,), ErrorCode.none),
        ("t", 0, None, ErrorCode.no_reassignment_in_progress),
        ("t", 0, (), ErrorCode.invalid_replica_assignment),
        ("t", 0, (1, 1), ErrorCode.invalid_replica_assignment),
        ("t", 0, (-1,), ErrorCode.invalid_replica_assignment),
        ("t", 0, (2,), ErrorCode.invalid_replica_assignment),
        ("t", 0, (1, 2), ErrorCode.invalid_replica_assignment),
        ("t", 3, (1,), ErrorCode.unknown_topic_or_partition),
        ("t", -1, (1,), ErrorCode.unknown_topic_or_partition),
        ("missing", 0, None, ErrorCode.unknown_topic_or_partition),
    ],
)
@pytest.mark.parametrize("version", [0, 1])
async def test_reassignments(
    home: ServicesOnDisk,
    topic: str,
    partition: int,
    replicas: tuple[int, ...] | None,
    code: ErrorCode,
    version: int,
) -> None:
    """To where it is: accepted. Anywhere else there is nothing."""
    await home.services.topics.create("t", 1, {})
    row = {"partition_index": partition, "replicas": replicas}
    wanted = request(45, 1, topics=[{"name": topic, "partitions": [row]}])
    answer = await ask(home, 45, wanted, version)
    [result] = answer.responses[0].partitions

    assert answer.error_code is ErrorCode.none
    assert (answer.responses[0].name, result.partition_index) == (topic, partition)
    assert result.error_code is code


async def test_no_reassignment_is_ever_under_way(home: ServicesOnDisk) -> None:
    """Of all topics, or of those named."""
    await home.services.topics.create("t", 1, {})
    for topics in (None, [{"name": "t", "partition_indexes": [0]}]):
        answer = await ask(home, 46, request(46, 0, topics=topics))

        assert (answer.error_code, answer.topics) == (ErrorCode.none, ())

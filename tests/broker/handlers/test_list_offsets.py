"""ListOffsets: both ends of a partition, and the first record at or after a time."""

from typing import Any

import pytest
from kio.schema.errors import ErrorCode

from siltstone.protocol.core.constants import TRANSACTIONAL
from tests.support.appending import append
from tests.support.ask import ask
from tests.support.batches import TIMESTAMP
from tests.support.kio_messages import request
from tests.support.services import ServicesOnDisk

KEY = 2
UNKNOWN = (-1, -1, -1)


@pytest.fixture
async def filled(home: ServicesOnDisk) -> ServicesOnDisk:
    """Ten records, ten ms apart, in topic t; an empty topic beside it."""
    await home.services.topics.create("t", 1, {})
    await home.services.topics.create("empty", 1, {})
    for number in range(5):
        append(home.services.topics.logs["t", 0], 2, timestamp=TIMESTAMP + 20 * number, step_ms=10)
    return home


async def _ask(
    home: ServicesOnDisk,
    *partitions: tuple[int, int, int],
    topic: str = "t",
    isolation: int = 0,
    version: int = 11,
    replica: int = -1,
) -> list[Any]:
    rows = [
        {"partition_index": index, "current_leader_epoch": epoch, "timestamp": timestamp}
        for index, epoch, timestamp in partitions
    ]
    topics = [{"name": topic, "partitions": rows}]
    wanted = request(KEY, 11, replica_id=replica, isolation_level=isolation, topics=topics)
    [answer] = (await ask(home, KEY, wanted, version)).topics
    return list(answer.partitions)


def _found(partition: Any) -> tuple[int, int, int]:
    return partition.offset, partition.timestamp, partition.leader_epoch


@pytest.mark.parametrize(
    ("timestamp", "found"),
    [
        (-1, (10, -1, 0)),
        (-2, (0, -1, 0)),
        (-3, (9, TIMESTAMP + 90, 0)),
        (-4, (0, -1, 0)),
        (-5, UNKNOWN),
        (-6, UNKNOWN),
        (0, (0, TIMESTAMP, 0)),
        (TIMESTAMP, (0, TIMESTAMP, 0)),
        (TIMESTAMP + 5, (1, TIMESTAMP + 10, 0)),
        (TIMESTAMP + 90, (9, TIMESTAMP + 90, 0)),
        (TIMESTAMP + 91, UNKNOWN),
    ],
)
@pytest.mark.parametrize("isolation", [0, 1])
async def test_positions_and_times(
    filled: ServicesOnDisk, timestamp: int, found: tuple[int, int, int], isolation: int
) -> None:
    """Record-exact and inclusive; what is not found is no error."""
    [answer] = await _ask(filled, (0, -1, timestamp), isolation=isolation)

    assert answer.error_code is ErrorCode.none
    assert _found(answer) == found


@pytest.mark.parametrize(
    ("timestamp", "found"), [(-1, (0, -1, 0)), (-2, (0, -1, 0)), (-3, UNKNOWN), (5, UNKNOWN)]
)
async def test_an_empty_partition(
    filled: ServicesOnDisk, timestamp: int, found: tuple[int, int, int]
) -> None:
    """It begins and ends at 0, in epoch 0, and has no times."""
    [answer] = await _ask(filled, (0, -1, timestamp), topic="empty")

    assert _found(answer) == found


@pytest.mark.parametrize(
    ("topic", "partition", "code"),
    [
        ("missing", (0, -1, -1), ErrorCode.unknown_topic_or_partition),
        ("t", (5, -1, -1), ErrorCode.unknown_topic_or_partition),
        ("t", (-1, -1, -1), ErrorCode.unknown_topic_or_partition),
        ("t", (0, 5, -1), ErrorCode.unknown_leader_epoch),
        ("t", (0, -2, -1), ErrorCode.fenced_leader_epoch),
        ("t", (0, 0, -7), ErrorCode.unsupported_version),
        ("t", (0, 0, -1), ErrorCode.none),
    ],
)
async def test_refusals(
    filled: ServicesOnDisk, topic: str, partition: tuple[int, int, int], code: ErrorCode
) -> None:
    """Errors carry no offset."""
    [answer] = await _ask(filled, partition, topic=topic)

    assert answer.error_code is code
    assert code is ErrorCode.none or _found(answer) == UNKNOWN


@pytest.mark.parametrize(("timestamp", "first"), [(-3, 7), (-4, 8), (-5, 9), (-6, 11)])
async def test_positions_are_newer_than_the_api(
    filled: ServicesOnDisk, timestamp: int, first: int
) -> None:
    """Below its version a position is UNSUPPORTED_VERSION, for that partition only."""
    [before, plain] = await _ask(filled, (0, -1, timestamp), (1, -1, -1), version=first - 1)
    [after] = await _ask(filled, (0, -1, timestamp), version=first)

    assert before.error_code is ErrorCode.unsupported_version
    assert plain.error_code is ErrorCode.unknown_topic_or_partition
    assert after.error_code is ErrorCode.none


async def test_a_partition_twice_is_refused_once(filled: ServicesOnDisk) -> None:
    """Kafka cannot tell which of the two was meant."""
    answers = await _ask(filled, (0, -1, -1), (0, -1, -2))

    assert [each.error_code for each in answers] == [ErrorCode.invalid_request]


async def test_deleted_records_are_not_found(filled: ServicesOnDisk) -> None:
    """A search begins where the partition begins."""
    filled.services.topics.logs["t", 0].delete_records(4)
    [start] = await _ask(filled, (0, -1, -2))
    [by_time] = await _ask(filled, (0, -1, TIMESTAMP))

    assert _found(start) == (4, -1, 0)
    assert _found(by_time) == (4, TIMESTAMP + 40, 0)


@pytest.mark.parametrize(("replica", "end"), [(-1, 10), (-2, 11), (0, 11)])
async def test_only_consumers_are_isolated(filled: ServicesOnDisk, replica: int, end: int) -> None:
    """A client that names a replica is told the end of the log."""
    log = filled.services.topics.logs["t", 0]
    append(log, 1, producer_id=1, producer_epoch=0, base_sequence=0, flags=TRANSACTIONAL)

    [answer] = await _ask(filled, (0, -1, -1), isolation=1, replica=replica)

    assert answer.offset == end


@pytest.mark.parametrize("version", range(1, 12))
async def test_every_version_can_be_written(filled: ServicesOnDisk, version: int) -> None:
    """An end and a time."""
    [end] = await _ask(filled, (0, -1, -1), version=version)
    [time] = await _ask(filled, (0, -1, TIMESTAMP + 10), version=version)

    assert (end.offset, time.offset) == (10, 1)

"""OffsetForLeaderEpoch: where an epoch ends, for consumers that may have to go back."""

from typing import Any

import pytest
from kio.schema.errors import ErrorCode

from tests.support.appending import append
from tests.support.ask import ask
from tests.support.kio_messages import request
from tests.support.services import ServicesOnDisk

KEY = 23


async def _ask(
    home: ServicesOnDisk, topic: str, partition: int, current: int, epoch: int, version: int = 4
) -> Any:
    row = {"partition": partition, "current_leader_epoch": current, "leader_epoch": epoch}
    wanted = request(KEY, 4, replica_id=-1, topics=[{"topic": topic, "partitions": [row]}])
    [result] = (await ask(home, KEY, wanted, version)).topics
    assert result.topic == topic
    return result.partitions[0]


@pytest.mark.parametrize(
    ("topic", "partition", "current", "epoch", "code", "found"),
    [
        ("t", 0, -1, 0, ErrorCode.none, (0, 10)),
        ("t", 0, 0, 0, ErrorCode.none, (0, 10)),
        ("t", 0, -1, 1, ErrorCode.none, (-1, -1)),
        ("t", 0, -1, -1, ErrorCode.none, (-1, -1)),
        ("empty", 0, -1, 0, ErrorCode.none, (0, 0)),
        ("t", 0, 3, 0, ErrorCode.unknown_leader_epoch, (-1, -1)),
        ("t", 0, -2, 0, ErrorCode.fenced_leader_epoch, (-1, -1)),
        ("t", 4, -1, 0, ErrorCode.unknown_topic_or_partition, (-1, -1)),
        ("missing", 0, -1, 0, ErrorCode.unknown_topic_or_partition, (-1, -1)),
    ],
)
async def test_answers(
    home: ServicesOnDisk,
    topic: str,
    partition: int,
    current: int,
    epoch: int,
    code: ErrorCode,
    found: tuple[int, int],
) -> None:
    """The answers of Apache Kafka 4.3.1 for one epoch that never changes."""
    for name in ("t", "empty"):
        await home.services.topics.create(name, 1, {})
    append(home.services.topics.logs["t", 0], 10)
    answer = await _ask(home, topic, partition, current, epoch)

    assert answer.partition == partition
    assert (answer.error_code, (answer.leader_epoch, answer.end_offset)) == (code, found)


@pytest.mark.parametrize("version", range(2, 5))
async def test_every_version_can_be_written(home: ServicesOnDisk, version: int) -> None:
    """Version 4 is compact."""
    await home.services.topics.create("t", 1, {})

    assert (await _ask(home, "t", 0, -1, 0, version)).end_offset == 0

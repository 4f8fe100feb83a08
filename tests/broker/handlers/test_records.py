"""DeleteRecords: records below an offset are gone at once."""

from typing import Any

import pytest
from kio.schema.errors import ErrorCode

from tests.support.appending import append
from tests.support.ask import ask
from tests.support.kio_messages import request
from tests.support.services import ServicesOnDisk

KEY = 21


async def _delete(
    home: ServicesOnDisk, topic: str, partition: int, offset: int, version: int = 2
) -> Any:
    row = {"partition_index": partition, "offset": offset}
    wanted = request(KEY, 2, topics=[{"name": topic, "partitions": [row]}])
    [result] = (await ask(home, KEY, wanted, version)).topics
    assert result.name == topic
    [answer] = result.partitions
    assert answer.partition_index == partition
    return answer


@pytest.fixture
async def filled(home: ServicesOnDisk) -> ServicesOnDisk:
    """Topics with ten records: plain, compacted, both, and one of the broker's own."""
    for name, policy in (
        ("plain", "delete"),
        ("compacted", "compact"),
        ("both", "compact,delete"),
        ("__consumer_offsets", "delete"),
    ):
        await home.services.topics.create(name, 1, {"cleanup.policy": policy})
        append(home.services.topics.logs[name, 0], 10)
    return home


@pytest.mark.parametrize(
    ("topic", "partition", "offset", "code", "low_watermark"),
    [
        ("plain", 0, 3, ErrorCode.none, 3),
        ("plain", 0, 0, ErrorCode.none, 0),
        ("plain", 0, 10, ErrorCode.none, 10),
        ("plain", 0, -1, ErrorCode.none, 10),
        ("both", 0, 5, ErrorCode.none, 5),
        ("plain", 0, 11, ErrorCode.offset_out_of_range, -1),
        ("plain", 0, -2, ErrorCode.offset_out_of_range, -1),
        ("compacted", 0, 1, ErrorCode.policy_violation, -1),
        ("__consumer_offsets", 0, 1, ErrorCode.invalid_topic_exception, -1),
        ("missing", 0, 1, ErrorCode.unknown_topic_or_partition, -1),
        ("compacted", 7, 1, ErrorCode.unknown_topic_or_partition, -1),
    ],
)
async def test_answers(
    filled: ServicesOnDisk,
    topic: str,
    partition: int,
    offset: int,
    code: ErrorCode,
    low_watermark: int,
) -> None:
    """The codes of Apache Kafka 4.3.1, and the offset at which the partition begins now."""
    answer = await _delete(filled, topic, partition, offset)

    assert (answer.error_code, answer.low_watermark) == (code, low_watermark)


async def test_the_start_never_goes_back(filled: ServicesOnDisk) -> None:
    """An offset that is gone already is a success."""
    await _delete(filled, "plain", 0, 6)
    answer = await _delete(filled, "plain", 0, 2)

    assert (answer.error_code, answer.low_watermark) == (ErrorCode.none, 6)


@pytest.mark.parametrize("version", range(3))
async def test_every_version_can_be_written(filled: ServicesOnDisk, version: int) -> None:
    """Version 2 is compact."""
    assert (await _delete(filled, "plain", 0, 4, version)).low_watermark == 4

"""DescribeCluster and DescribeQuorum: a cluster of one broker, which is its own controller."""

from typing import Any

import pytest
from kio.schema.errors import ErrorCode

from tests.support.ask import ask
from tests.support.kio_messages import request
from tests.support.services import HOST, PORT, ServicesOnDisk


async def _describe(
    home: ServicesOnDisk, endpoint: int = 1, *, operations: bool = False, version: int = 2
) -> Any:
    asked = {"include_cluster_authorized_operations": operations, "include_fenced_brokers": True}
    return await ask(home, 60, request(60, 2, endpoint_type=endpoint, **asked), version)


@pytest.mark.parametrize("version", range(3))
async def test_the_cluster_is_this_broker(home: ServicesOnDisk, version: int) -> None:
    """By the address of the listener; it is the controller too."""
    answer = await _describe(home, version=version)

    assert [(each.broker_id, each.host, each.port) for each in answer.brokers] == [(1, HOST, PORT)]
    assert (answer.cluster_id, answer.controller_id) == (home.services.logs.cluster_id, 1)
    assert answer.cluster_authorized_operations == -(2**31)


async def test_authorized_operations_are_told_when_asked(home: ServicesOnDisk) -> None:
    """All that Kafka knows for a cluster."""
    assert (await _describe(home, operations=True)).cluster_authorized_operations == 8096


@pytest.mark.parametrize(
    ("endpoint", "code"),
    [(2, ErrorCode.mismatched_endpoint_type), (3, ErrorCode.unsupported_endpoint_type)],
)
async def test_other_endpoints_are_refused(
    home: ServicesOnDisk, endpoint: int, code: ErrorCode
) -> None:
    """There is no controller to ask."""
    answer = await _describe(home, endpoint)

    assert answer.error_code is code
    assert (answer.brokers, answer.cluster_id, answer.controller_id) == ((), "", -1)


def _quorum(*topics: tuple[str, tuple[int, ...]]) -> Any:
    rows = [
        {"topic_name": name, "partitions": [{"partition_index": each} for each in indexes]}
        for name, indexes in topics
    ]
    return request(55, 2, topics=rows)


@pytest.mark.parametrize("version", range(3))
async def test_the_quorum_is_this_broker(home: ServicesOnDisk, version: int) -> None:
    """The only voter, as far as its metadata goes; every change moves it on."""
    request = _quorum(("__cluster_metadata", (0,)))
    before = (await ask(home, 55, request, version)).topics[0].partitions[0]
    await home.services.topics.create("t", 1, {})
    answer = await ask(home, 55, request, version)
    after = answer.topics[0].partitions[0]

    assert (after.error_code, after.leader_id, after.leader_epoch) == (ErrorCode.none, 1, 1)
    assert [each.replica_id for each in after.current_voters] == [1]
    assert after.observers == ()
    assert after.high_watermark == after.current_voters[0].log_end_offset
    assert after.high_watermark > before.high_watermark
    assert version < 2 or (answer.error_message, after.error_message) == ("", "")


@pytest.mark.parametrize(
    "topics",
    [
        [("orders", (0,))],
        [("__cluster_metadata", (1,))],
        [("__cluster_metadata", (0, 1))],
        [("__cluster_metadata", (0,)), ("orders", (0,))],
    ],
)
async def test_nothing_else_has_a_quorum(
    home: ServicesOnDisk, topics: list[tuple[str, tuple[int, ...]]]
) -> None:
    """Kafka answers so as soon as anything is asked beside its one partition."""
    answer = await ask(home, 55, _quorum(*topics))

    assert [each.topic_name for each in answer.topics] == [name for name, _ in topics]
    assert {part.error_code for each in answer.topics for part in each.partitions} == {
        ErrorCode.unknown_topic_or_partition
    }

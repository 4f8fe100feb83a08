"""Requests of more elements than are read at once, among others of the same connection."""

import struct
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from siltstone.protocol.messages import (
    AT_ONCE,
    create_topics,
    find_coordinator,
    offset_commit,
    offset_delete,
    offset_fetch,
)
from siltstone.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from siltstone.protocol.messages.find_coordinator import FindCoordinatorRequest
from siltstone.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from siltstone.protocol.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
)
from siltstone.protocol.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestTopic
from tests.support.running import Client, Running, running

API_VERSIONS = struct.pack(">hhih", 18, 0, 7, -1)
COUNT = AT_ONCE + 1500


@pytest.fixture
async def broker(tmp_path: Path) -> AsyncIterator[Running]:
    """A broker with a topic of a partition, and with that of offsets."""
    async with running(tmp_path, "offsets.topic.num.partitions=1") as started:
        client = await started.connect()
        topic = CreatableTopic("t", 1, 1)
        made = create_topics.REQUEST, 2, CreateTopicsRequest([topic])
        await client.ask(frame(*made))
        await client.ask(frame(find_coordinator.REQUEST, 0, FindCoordinatorRequest("g")))
        yield started


def frame(message: Any, version: int, request: Any) -> bytes:
    """Return a request with its head, and without its size."""
    body: bytes = message.write(version, request)
    return struct.pack(">hhih", message.key, version, 7, -1) + body


def sized(*bodies: bytes) -> bytes:
    """Return requests as they follow each other."""
    return b"".join(struct.pack(">i", len(body)) + body for body in bodies)


async def ask(client: Client, module: Any, version: int, request: Any) -> Any:
    """Ask between two small requests, all sent at once, and return what is answered."""
    large = frame(module.REQUEST, version, request)
    await client.send(sized(API_VERSIONS, large, API_VERSIONS))
    before, answer, after = [await client.receive() for _ in range(3)]
    assert before == after
    return module.RESPONSE.read(version, answer, 4, len(answer))[0]


async def test_large_requests_are_answered_among_small_ones(broker: Running) -> None:
    """A frame in the shared buffer is read in pieces while others arrive there."""
    client = await broker.connect()
    topic = OffsetCommitRequestTopic(
        "t", partitions=[OffsetCommitRequestPartition(index, index) for index in range(COUNT)]
    )
    twice = OffsetCommitRequestTopic("u", partitions=[OffsetCommitRequestPartition(0, 1)])
    asked = OffsetCommitRequest("g", -1, "", topics=[twice, topic, twice])

    committed = await ask(client, offset_commit, 2, asked)

    assert [(each.name, len(each.partitions)) for each in committed.topics] == [
        ("u", 2),
        ("t", COUNT),
    ]
    codes = [code for _, code in committed.topics[1].partitions]
    assert codes == [0] + [3] * (COUNT - 1)
    indexes = list(range(COUNT))
    wanted = OffsetFetchRequest("g", [OffsetFetchRequestTopic("t", indexes)])
    fetched = await ask(client, offset_fetch, 1, wanted)
    (found,) = fetched.topics
    assert [each.partition_index for each in found.partitions] == indexes
    assert [each.committed_offset for each in found.partitions] == [0] + [-1] * (COUNT - 1)
    doomed = [OffsetDeleteRequestPartition(index) for index in range(COUNT)]
    request = OffsetDeleteRequest("g", [OffsetDeleteRequestTopic("t", doomed)])
    deleted = await ask(client, offset_delete, 0, request)
    assert deleted.error_code == 0
    assert [code for _, code in deleted.topics[0].partitions] == [0] + [3] * (COUNT - 1)
    fetched = await ask(client, offset_fetch, 1, wanted)
    assert fetched.topics[0].partitions[0].committed_offset == -1


async def test_a_large_request_of_too_many_elements_closes_the_connection(broker: Running) -> None:
    """It is counted as one that could not be decoded."""
    client = await broker.connect()
    names = [OffsetFetchRequestTopic("t", [0]) for _ in range(13_000)]

    await client.send(
        sized(frame(offset_fetch.REQUEST, 1, OffsetFetchRequest("g", names)), API_VERSIONS)
    )

    assert await client.is_closed()

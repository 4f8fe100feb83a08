"""Requests that rest: small ones need not, and what was read before a rest is looked at again."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from siltstone.broker.api import BY_KEY
from siltstone.broker.process import loop_share
from siltstone.protocol.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
)
from siltstone.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from siltstone.protocol.messages.find_coordinator import FindCoordinatorRequest
from siltstone.protocol.messages.leave_group import LeaveGroupRequest, MemberIdentity
from siltstone.protocol.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
)
from siltstone.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from siltstone.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from siltstone.protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
)
from tests.support.line import taking_turns
from tests.support.services import ServicesOnDisk

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

COMMIT = 8
OFFSET_FETCH = 9
ADD_PARTITIONS = 24
TXN_COMMIT = 28


@pytest.fixture
async def home(tmp_path: Path) -> AsyncIterator[ServicesOnDisk]:
    """The topic orders of 20 partitions, and the group "g" without members."""
    services = await ServicesOnDisk(tmp_path / "root", offsets_topic_num_partitions="1").open()
    await services.services.topics.create("orders", 20, {})
    groups = services.services.groups()
    await groups.journal.ensure_created()
    groups.add_classic("g")
    yield services
    await services.close()


def commit_of(offset: int, *indexes: int, topic: str = "orders") -> OffsetCommitRequest:
    """Return a request that commits the same offset of some partitions."""
    rows = [OffsetCommitRequestPartition(index, offset) for index in indexes]
    return OffsetCommitRequest("g", topics=[OffsetCommitRequestTopic(topic, partitions=rows)])


def begin(home: ServicesOnDisk, key: int, version: int, request: Any) -> Any:
    """Return what the handler returns for a request that came over the wire."""
    message, _ = BY_KEY[key].load_messages()
    body = message.write(version, request)
    read, _ = message.read(version, body, 0, len(body))
    return BY_KEY[key].load()(home.context(key, version), read)


PARTITIONS = range(20)
SMALL = {
    "Fetch": (
        1,
        12,
        FetchRequest(
            session_epoch=0,
            topics=[FetchTopic("orders", partitions=[FetchPartition(each) for each in PARTITIONS])],
        ),
    ),
    "ListOffsets": (
        2,
        7,
        ListOffsetsRequest(
            topics=[
                ListOffsetsTopic("orders", [ListOffsetsPartition(i, -1, -1) for i in PARTITIONS])
            ]
        ),
    ),
    "Metadata": (3, 9, MetadataRequest(topics=[MetadataRequestTopic(name="orders")])),
    "all Metadata": (3, 9, MetadataRequest(topics=None)),
    "OffsetCommit": (COMMIT, 8, commit_of(3, *PARTITIONS)),
    "OffsetFetch": (
        OFFSET_FETCH,
        8,
        OffsetFetchRequest(
            groups=[
                OffsetFetchRequestGroup(
                    "g",
                    topics=[OffsetFetchRequestTopics("orders", partition_indexes=list(PARTITIONS))],
                )
            ]
        ),
    ),
    "FindCoordinator": (10, 4, FindCoordinatorRequest(coordinator_keys=["g"])),
    "LeaveGroup": (13, 5, LeaveGroupRequest("g", members=[MemberIdentity("m")])),
    "DeleteRecords": (
        21,
        2,
        DeleteRecordsRequest([DeleteRecordsTopic("orders", [DeleteRecordsPartition(0, 0)])], 1000),
    ),
}


@pytest.mark.parametrize("name", SMALL)
async def test_small_requests_do_not_stand_behind_large_ones(
    home: ServicesOnDisk, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    """They are answered in the turn that they came in, whoever else wants more of the loop."""
    monkeypatch.setattr(loop_share, "perf_counter", lambda: 1.0)  # no time is spent
    await answer_of(begin(home, *SMALL[name]))  # what it needs is made
    async with taking_turns():
        answer = begin(home, *SMALL[name])
        if not isinstance(answer, tuple):
            with pytest.raises(StopIteration):
                answer.send(None)


async def answer_of(answer: Any) -> Any:
    """Return the answer of a handler."""
    return answer if isinstance(answer, tuple) else await answer

"""OffsetDelete and DeleteGroups: what they have deleted is on the disk when it has to be."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from siltstone.broker.handlers import groups, offset_delete
from siltstone.protocol.messages.delete_groups import DeleteGroupsRequest
from siltstone.protocol.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
)
from tests.support import group_requests as requests
from tests.support.ask import ask
from tests.support.services import ServicesOnDisk

COMMIT, DELETE_GROUPS, OFFSET_DELETE = 8, 42, 47
OFFSETS = OffsetDeleteRequest(
    "alone", [OffsetDeleteRequestTopic("orders", [OffsetDeleteRequestPartition(1)])]
)


@pytest.mark.parametrize(
    ("handle", "key", "request_"),
    [
        (offset_delete.delete, OFFSET_DELETE, OFFSETS),
        (groups.delete, DELETE_GROUPS, DeleteGroupsRequest(["alone"])),
    ],
)
async def test_a_deletion_waits_for_the_flush_that_the_journal_asks_for(
    tmp_path: Path, handle: Any, key: int, request_: Any
) -> None:
    """With flush.messages=1 the answer comes later, and the deletion is on the disk after it."""
    services = await ServicesOnDisk(tmp_path / "root", offsets_topic_num_partitions="1").open()
    await services.services.topics.create("orders", 2, {})
    await services.services.topics.create("__consumer_offsets", 1, {"flush.messages": "1"})
    commit = requests.commit("alone", {("orders", 1): 42})
    await ask(services, COMMIT, commit, type(commit).__version__)
    journal = services.services.topics.logs["__consumer_offsets", 0]
    assert journal.recovery_point == 1
    waiting = asyncio.ensure_future(handle(services.context(key, 0), request_))
    await asyncio.sleep(0)

    assert not waiting.done()
    await waiting

    assert journal.recovery_point == journal.log_end_offset > 1
    assert not services.services.groups().journal.find_unwritten_of("alone")
    await services.close()

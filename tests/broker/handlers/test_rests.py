"""Others change what a request goes on with while it rests; its answer is of what is then."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from siltstone.broker.process.loop_share import FIRST_PIECE
from tests.support.ask import ask
from tests.support.kio_messages import request
from tests.support.line import others_first
from tests.support.services import ServicesOnDisk, groups_on_disk

COMMIT, FETCH_OFFSETS, DELETE_OFFSETS, DELETE_RECORDS = 8, 9, 47, 21
MANY = 3 * FIRST_PIECE
NONE, UNKNOWN_TOPIC, GROUP_NOT_FOUND, UNKNOWN_MEMBER = 0, 3, 69, 25


@pytest.fixture
async def home(tmp_path: Path) -> AsyncIterator[ServicesOnDisk]:
    """Services with topic t, and the journal of groups."""
    async with groups_on_disk(tmp_path / "root", {"t": MANY}) as opened:
        yield opened


async def begun(home: ServicesOnDisk, key: int, request: Any) -> asyncio.Task[Any]:
    """Return a request that has begun, and rests."""
    asking = asyncio.ensure_future(ask(home, key, request))
    await asyncio.sleep(0)
    assert not asking.done()
    return asking


def commit_all() -> Any:
    """Return a commit of all partitions by hand."""
    rows = [{"partition_index": index, "committed_offset": 5} for index in range(MANY)]
    return request(COMMIT, 8, group_id="g", topics=[{"name": "t", "partitions": rows}])


async def ask_commit(home: ServicesOnDisk) -> None:
    """Commit an offset of each partition."""
    answer = await ask(home, COMMIT, commit_all(), 8)
    assert {each.error_code for each in answer.topics[0].partitions} == {NONE}


async def test_a_topic_that_goes_is_unknown_to_the_rest_of_a_commit(home: ServicesOnDisk) -> None:
    """The offsets before were committed and are answered so, in one row of the answer."""
    async with others_first():
        asking = asyncio.ensure_future(ask(home, COMMIT, commit_all(), 8))
        await asyncio.sleep(0)
        topics = home.services.topics
        gone = topics.topics.pop("t")
    (row,) = (await asking).topics
    topics.topics["t"] = gone

    codes = [each.error_code for each in row.partitions]
    assert [each.partition_index for each in row.partitions] == list(range(MANY))
    done = codes.count(NONE)
    assert 0 < done <= FIRST_PIECE
    assert codes == [NONE] * done + [UNKNOWN_TOPIC] * (MANY - done)
    assert len(home.services.groups().offsets.topics("g")["t"]) == done


async def test_a_commit_whose_client_has_gone_is_made_up_to_its_last_rest(
    home: ServicesOnDisk,
) -> None:
    """Offsets that were written count, as if they had been committed alone."""
    async with others_first():
        asking = asyncio.ensure_future(ask(home, COMMIT, commit_all(), 8))
        await asyncio.sleep(0)
        asking.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asking

    assert 0 < len(home.services.groups().offsets.topics("g")["t"]) <= FIRST_PIECE
    await ask_commit(home)


async def test_a_group_that_goes_refuses_the_rest_of_a_deletion(home: ServicesOnDisk) -> None:
    """A refusal of the group is that of the whole request."""
    await ask_commit(home)
    rows = [{"partition_index": index} for index in range(MANY)]
    topics = [{"name": "t", "partitions": rows}]
    wanted = request(DELETE_OFFSETS, 0, group_id="g", topics=topics)
    groups = home.services.groups()
    async with others_first():
        asking = await begun(home, DELETE_OFFSETS, wanted)
        group = groups.find("g")
        assert group is not None
        groups.delete(group)
    answer = await asking

    assert (answer.error_code, list(answer.topics)) == (GROUP_NOT_FOUND, [])


async def test_a_group_that_goes_has_no_more_offsets_to_tell(home: ServicesOnDisk) -> None:
    """Its partitions are answered all the same, each once."""
    await ask_commit(home)
    topics = [{"name": "t", "partition_indexes": range(MANY)}]
    wanted = request(FETCH_OFFSETS, 8, groups=[{"group_id": "g", "topics": topics}])
    groups = home.services.groups()
    async with others_first():
        asking = asyncio.ensure_future(ask(home, FETCH_OFFSETS, wanted, 8))
        await asyncio.sleep(0)
        group = groups.find("g")
        assert group is not None
        groups.delete(group)
    rows = (await asking).groups[0].topics[0].partitions

    assert [each.partition_index for each in rows] == list(range(MANY))
    assert {each.committed_offset for each in rows} <= {5, -1}


async def test_records_are_deleted_of_the_topic_that_is_there(home: ServicesOnDisk) -> None:
    """Partitions of one that has gone are unknown from then on."""
    rows = [{"partition_index": index, "offset": -1} for index in range(MANY)]
    wanted = request(DELETE_RECORDS, 2, topics=[{"name": "t", "partitions": rows}], timeout=1_000)
    async with others_first():
        asking = await begun(home, DELETE_RECORDS, wanted)
        gone = home.services.topics.topics.pop("t")
    answered = (await asking).topics[0].partitions
    home.services.topics.topics["t"] = gone

    codes = [each.error_code for each in answered]
    done = codes.count(NONE)
    assert 0 < done <= FIRST_PIECE
    assert codes == [NONE] * done + [UNKNOWN_TOPIC] * (MANY - done)

"""OffsetFetch: what was committed, in the shape of each version."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from kio.schema.errors import ErrorCode

from siltstone.protocol.messages.consumer_offsets import OffsetCommitValue
from siltstone.protocol.records.journal import Producer
from tests.support.ask import ask
from tests.support.committed import new_offsets
from tests.support.kio_messages import request as request_of
from tests.support.services import ServicesOnDisk, groups_on_disk

FETCH = 9
E = ErrorCode
COMMITTED = {0: (7, 2, "läuft"), 1: (8, -1, "")}


@pytest.fixture
async def home(tmp_path: Path) -> AsyncIterator[ServicesOnDisk]:
    """Offsets of the group "g" in two of the three partitions of orders, one with an expiry."""
    committed = (
        OffsetCommitValue(7, 2, "läuft", 1),
        OffsetCommitValue(8, -1, "", 1, expire_timestamp=1 << 60),
    )
    async with groups_on_disk(tmp_path / "root", {"orders": 3}) as services:
        for index, each in enumerate(committed):
            offsets = new_offsets(("orders", index, each))
            services.services.groups().offsets.append("g", 0, offsets)
        yield services


def _request(
    version: int,
    indexes: tuple[int, ...] | None,
    *,
    topic: tuple[str, UUID] | None = None,
    group: str = "g",
    **values: Any,
) -> Any:
    """Return a request for partitions of a topic, or for all that the group has."""
    topics = None
    if indexes is not None:
        assert topic is not None
        named = {"name": topic[0]} if version < 10 else {"topic_id": topic[1]}
        topics = [{**named, "partition_indexes": indexes}]
    wanted = {"group_id": group, "topics": topics}
    given = {"groups": [wanted]} if version >= 8 else wanted
    return request_of(FETCH, version, **given, **values)


async def fetch(home: ServicesOnDisk, request: Any) -> tuple[ErrorCode, list[Any]]:
    """Return the code of the group, and the partitions of its only topic if there is one."""
    answer = await ask(home, FETCH, request, type(request).__version__)
    [group] = getattr(answer, "groups", (answer,))
    rows = [
        (
            row.partition_index,
            row.committed_offset,
            getattr(row, "committed_leader_epoch", None),
            row.metadata,
            row.error_code,
        )
        for topic in group.topics
        for row in topic.partitions
    ]
    return getattr(group, "error_code", E.none), rows


def _orders(home: ServicesOnDisk) -> tuple[str, UUID]:
    return "orders", home.services.topics.topics["orders"].id


def _rows(version: int, *indexes: int) -> list[Any]:
    """Return the rows of partitions."""
    found = [(index, *COMMITTED.get(index, (-1, -1, ""))) for index in indexes]
    return [
        (index, offset, None if version < 5 else leader_epoch, metadata, E.none)
        for index, offset, leader_epoch, metadata in found
    ]


@pytest.mark.parametrize("version", range(1, 11))
async def test_offsets_of_partitions(home: ServicesOnDisk, version: int) -> None:
    """A partition without one has -1, and is no error."""
    wanted = _request(version, (1, 2, 0), topic=_orders(home))

    assert await fetch(home, wanted) == (E.none, _rows(version, 1, 2, 0))


@pytest.mark.parametrize("version", range(2, 11))
async def test_all_offsets(home: ServicesOnDisk, version: int) -> None:
    """Null topics are all that there are."""
    assert await fetch(home, _request(version, None)) == (E.none, _rows(version, 0, 1))


async def test_what_has_no_topic_any_more_is_not_told_by_id(home: ServicesOnDisk) -> None:
    """It is told by name, as long as it exists."""
    committed = new_offsets(("gone", 0, OffsetCommitValue(9, -1, "", 1)))
    home.services.groups().offsets.append("g", 0, committed)

    assert await fetch(home, _request(10, None)) == (E.none, _rows(10, 0, 1))
    assert (0, 9, -1, "", E.none) in (await fetch(home, _request(9, None)))[1]


async def test_an_id_that_nobody_has(home: ServicesOnDisk) -> None:
    """Each of its partitions says so."""
    name, topic_id = _orders(home)
    nobody = (name, type(topic_id)(int=1 << 70))

    assert await fetch(home, _request(10, (0, 5), topic=nobody)) == (
        E.none,
        [(index, -1, -1, "", E.unknown_topic_id) for index in (0, 5)],
    )


@pytest.mark.parametrize("version", [7, 9, 10])
async def test_an_open_transaction_makes_offsets_unstable(
    home: ServicesOnDisk, version: int
) -> None:
    """For a client that wants to wait for it; others read what was committed before."""
    home.services.groups().offsets.append_transactional(
        "g", 0, new_offsets(("orders", 0, OffsetCommitValue(11, -1, "", 1))), Producer(5, 0)
    )
    for require_stable, first in (
        (True, (0, -1, -1, "", E.unstable_offset_commit)),
        (False, *_rows(version, 0)),
    ):
        for indexes in ((0, 1), None):
            wanted = _request(version, indexes, topic=_orders(home), require_stable=require_stable)
            assert await fetch(home, wanted) == (E.none, [first, *_rows(version, 1)])


@pytest.mark.parametrize("version", range(1, 11))
async def test_a_group_that_is_being_read(home: ServicesOnDisk, version: int) -> None:
    """The code stands beside the group; version 1 has none there, and says it of partitions."""
    home.services.groups().journal._loading.add(0)
    loading = E.coordinator_load_in_progress

    answer = await fetch(home, _request(version, (0, 1), topic=_orders(home)))

    if version == 1:
        assert answer == (E.none, [(each, -1, None, "", loading) for each in (0, 1)])
    else:
        assert answer == (loading, [])

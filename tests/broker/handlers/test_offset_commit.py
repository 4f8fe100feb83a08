"""OffsetCommit: in the journal when it is answered, or refused and nothing has changed."""

import asyncio
import os
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest
from kio.schema.errors import ErrorCode

from siltstone.broker.groups.group import GroupState
from siltstone.broker.handlers import offset_commit
from siltstone.protocol.coordinator.group_records import NO_EXPIRY
from siltstone.protocol.messages.offset_commit import REQUEST
from siltstone.storage.log.log import Log
from tests.support import group_requests as requests
from tests.support.ask import ask
from tests.support.kio_messages import encode, request
from tests.support.services import ServicesOnDisk, groups_on_disk
from tests.support.stable_group import (
    SESSION_MS,
    add_stable_group,
    as_it_is,
    group_of,
    in_state,
    loading,
)

COMMIT = 8
MEMBER = ("m", 3, None)
NOBODY = ("", -1, None)
ORDERS = {("orders", 1): 42}
MAX_METADATA = 100
E = ErrorCode


@pytest.fixture
async def home(tmp_path: Path) -> AsyncIterator[ServicesOnDisk]:
    """The topic orders of 20 partitions, the stable group "g" of "m" and the empty one "alone"."""
    longest = {"offset_metadata_max_bytes": str(MAX_METADATA)}
    async with groups_on_disk(tmp_path / "root", {"orders": 20}, **longest) as services:
        services.services.groups().add_classic("alone")
        add_stable_group(services)
        yield services


def _journal(home: ServicesOnDisk) -> Log:
    return home.services.topics.logs["__consumer_offsets", 0]


async def commit(home: ServicesOnDisk, request: Any) -> list[tuple[str, int, ErrorCode]]:
    """Commit, and return topic, partition and code of each row of the answer."""
    answer = await ask(home, COMMIT, request, type(request).__version__)
    return [
        (topic.name, row.partition_index, row.error_code)
        for topic in answer.topics
        for row in topic.partitions
    ]


@pytest.mark.parametrize("version", range(2, 10))
@pytest.mark.parametrize(
    ("group", "member", "metadata"),
    [("alone", NOBODY, ""), ("g", MEMBER, None), ("g", ("m", 3, "i"), "läuft")],
)
async def test_a_commit_is_in_the_journal_when_it_is_answered(
    home: ServicesOnDisk, version: int, group: str, member: Any, metadata: str | None
) -> None:
    """One record, the value that is served from then on, and the code 0."""
    before = _journal(home).log_end_offset
    request = requests.commit(group, ORDERS, version=version, member=member, metadata=metadata)

    assert await commit(home, request) == [("orders", 1, E.none)]

    assert _journal(home).log_end_offset == before + 1
    offsets = home.services.groups().offsets
    found = offsets.find(group, "orders", 1)
    assert found is not None
    assert (found.offset, found.metadata) == (42, metadata or "")
    assert (found.commit_timestamp, found.expire_timestamp) == (home.clock.now_ms(), NO_EXPIRY)
    assert (offsets.count, offsets.commit_count) == (1, 1)


async def test_what_a_request_commits_is_one_batch(home: ServicesOnDisk) -> None:
    """However many partitions it has; what cannot be committed does not keep out the others."""
    journal = _journal(home)
    before = journal.log_end_offset
    wanted = {("orders", index): index for index in range(21)}

    answered = await commit(home, requests.commit("alone", wanted))

    assert answered == [("orders", index, E.none) for index in range(20)] + [
        ("orders", 20, E.unknown_topic_or_partition)
    ]
    assert journal.log_end_offset == before + 20
    found = journal.read(before, 1 << 20, journal.log_end_offset)
    assert found is not None
    data = os.pread(found.slice.file.fileno(), found.slice.size, found.slice.position)
    assert int.from_bytes(data[8:12], "big") + 12 == len(data)
    assert home.services.groups().offsets.count == 20


async def test_topics_are_named_by_their_ids(home: ServicesOnDisk) -> None:
    """From version 10 on, and an id that nobody has is said to be one."""
    topic = home.services.topics.topics["orders"]
    nobody = type(topic.id)(int=1 << 70)
    topics = [
        {"topic_id": each, "partitions": [{"partition_index": index, "committed_offset": 7}]}
        for each, index in ((topic.id, 0), (nobody, 0), (topic.id, 20))
    ]
    answer = await ask(home, COMMIT, request(COMMIT, 10, group_id="alone", topics=topics))

    assert [
        (each.topic_id, [(row.partition_index, row.error_code) for row in each.partitions])
        for each in answer.topics
    ] == [
        (topic.id, [(0, E.none), (20, E.unknown_topic_or_partition)]),
        (nobody, [(0, E.unknown_topic_id)]),
    ]


def _go_offline(home: ServicesOnDisk) -> None:
    _journal(home).directory.fail(OSError(5, "planted"), for_good=True)


REFUSED: dict[str, tuple[Any, Callable[[ServicesOnDisk], None], ErrorCode]] = {
    "another generation": (
        requests.commit("g", ORDERS, member=("m", 2, None)),
        as_it_is,
        E.illegal_generation,
    ),
    "no member": (
        requests.commit("g", ORDERS, member=("n", 3, None)),
        as_it_is,
        E.unknown_member_id,
    ),
    "nobody, in a group with members": (
        requests.commit("g", ORDERS),
        as_it_is,
        E.unknown_member_id,
    ),
    "an instance id of nobody": (
        requests.commit("g", ORDERS, member=("m", 3, "j")),
        as_it_is,
        E.unknown_member_id,
    ),
    "another member's instance id": (
        requests.commit("g", ORDERS, member=("n", 3, "i")),
        as_it_is,
        E.fenced_instance_id,
    ),
    "no such topic": (
        requests.commit("alone", {("no", 0): 1}),
        as_it_is,
        E.unknown_topic_or_partition,
    ),
    "no such partition": (
        requests.commit("alone", {("orders", 20): 1}),
        as_it_is,
        E.unknown_topic_or_partition,
    ),
    "a negative partition": (
        requests.commit("alone", {("orders", -1): 1}),
        as_it_is,
        E.unknown_topic_or_partition,
    ),
    "a group whose name no record holds": (
        requests.commit("g" * 8192, ORDERS),
        as_it_is,
        E.invalid_group_id,
    ),
    "before the sync": (
        requests.commit("g", ORDERS, member=MEMBER),
        in_state(GroupState.COMPLETING),
        E.rebalance_in_progress,
    ),
    "a dead group": (
        requests.commit("g", ORDERS, member=MEMBER),
        in_state(GroupState.DEAD),
        E.coordinator_not_available,
    ),
    "while it is loaded": (
        requests.commit("alone", ORDERS),
        loading,
        E.coordinator_load_in_progress,
    ),
    "a disk that refuses": (requests.commit("alone", ORDERS), _go_offline, E.not_coordinator),
}


@pytest.mark.parametrize("name", REFUSED)
async def test_what_is_refused_changes_nothing(home: ServicesOnDisk, name: str) -> None:
    """Nothing written, nothing remembered."""
    request, prepare, code = REFUSED[name]
    prepare(home)
    before = _journal(home).log_end_offset

    assert [code for _, _, code in await commit(home, request)] == [code]

    assert _journal(home).log_end_offset == before
    assert home.services.groups().offsets.count == 0


async def test_the_code_of_the_group_is_that_of_every_partition_there_is(
    home: ServicesOnDisk,
) -> None:
    """An unknown partition is still said to be missing; too long metadata is no matter then."""
    wanted = {("orders", 0): 1, ("no", 0): 1, ("orders", 1): 1}
    long = requests.commit("g", wanted, metadata="m" * (MAX_METADATA + 1))

    assert await commit(home, long) == [
        ("orders", 0, E.unknown_member_id),
        ("orders", 1, E.unknown_member_id),
        ("no", 0, E.unknown_topic_or_partition),
    ]


async def test_metadata_as_long_as_the_setting_is_taken(home: ServicesOnDisk) -> None:
    """One more character is too many."""
    longest = "m" * MAX_METADATA

    for metadata, code in ((longest + "m", E.offset_metadata_too_large), (longest, E.none)):
        request = requests.commit("alone", ORDERS, metadata=metadata)
        assert await commit(home, request) == [("orders", 1, code)]


async def test_a_retention_time_is_kept_with_the_offset(home: ServicesOnDisk) -> None:
    """Up to version 4 the client says how long its offset is of use."""
    await commit(home, requests.commit("alone", ORDERS, version=4, retention_ms=5000))

    found = home.services.groups().offsets.find("alone", "orders", 1)

    assert found is not None
    assert found.expire_timestamp == home.clock.now_ms() + 5000


async def test_a_commit_is_a_sign_of_life(home: ServicesOnDisk) -> None:
    """A member that commits within its session time stays, without a heartbeat."""
    for _ in range(3):
        home.clock.advance(SESSION_MS - 1)
        assert await commit(home, requests.commit("g", ORDERS, member=MEMBER)) == [
            ("orders", 1, E.none)
        ]
        home.services.groups().timers.run_due()
    assert "m" in group_of(home).members.by_id


async def test_a_commit_waits_for_the_flush_that_the_journal_asks_for(tmp_path: Path) -> None:
    """With flush.messages=1 the answer comes later, and the offset is on the disk after it."""
    services = await ServicesOnDisk(tmp_path / "root", offsets_topic_num_partitions="1").open()
    await services.services.topics.create("orders", 2, {})
    await services.services.topics.create("__consumer_offsets", 1, {"flush.messages": "1"})
    services.services.groups().add_classic("alone")
    journal = _journal(services)
    body = encode(requests.commit("alone", ORDERS))
    request, _ = REQUEST.read(8, body, 0, len(body))
    waiting = asyncio.ensure_future(offset_commit.handle(services.context(COMMIT, 8), request))
    await asyncio.sleep(0)

    assert not waiting.done()
    assert (journal.log_end_offset, journal.recovery_point) == (1, 0)
    answer = await waiting

    assert answer.topics[0][2] == [(1, 0)]
    assert (journal.log_end_offset, journal.recovery_point) == (1, 1)
    assert not services.services.groups().journal.find_unwritten_of("alone")
    await services.close()

"""Answers to members of groups come after the fsync, if ``flush.messages`` asks for one."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from kio.schema.errors import ErrorCode

from siltstone.storage.log.log import Log
from tests.support import group_requests as requests
from tests.support.ask import ask
from tests.support.faults import install
from tests.support.kio_messages import request
from tests.support.services import ServicesOnDisk
from tests.support.stable_group import add_stable_group, group_of
from tests.support.waiting import give_turns_until

COMMIT, JOIN, LEAVE, SYNC, BEAT = 8, 11, 13, 14, 68


@pytest.fixture
async def home(tmp_path: Path) -> AsyncIterator[ServicesOnDisk]:
    """The stable group "g" of the static member "m", and a journal that is fsynced at once."""
    services = await ServicesOnDisk(tmp_path / "root", offsets_topic_num_partitions="1").open()
    await services.services.topics.create("orders", 2, {})
    await services.services.topics.create("__consumer_offsets", 1, {"flush.messages": "1"})
    add_stable_group(services)
    yield services
    await services.close()


def journal_of(home: ServicesOnDisk) -> Log:
    """Return the only log of the journal."""
    log = home.services.topics.logs["__consumer_offsets", 0]
    assert log is not None
    return log


async def told(home: ServicesOnDisk, key: int, request: Any) -> Any:
    """Ask; the answer comes when all of the journal is on the disk, and something was written."""
    answer = await ask(home, key, request)
    log = journal_of(home)
    assert log.recovery_point == log.log_end_offset > 0
    return answer


async def begin_fsync(home: ServicesOnDisk) -> None:
    """Wait until a record is written, and its fsync waits for the test."""
    log = journal_of(home)
    await give_turns_until(lambda: log.recovery_point < log.log_end_offset, "an fsync")


async def begin_generation(home: ServicesOnDisk) -> tuple[int, str, str]:
    """Have a second member join; return the generation, the leader and the other member."""
    asked = [requests.join("g", instance_id="k"), requests.join("g", "m", instance_id="i")]
    joining = [asyncio.ensure_future(ask(home, JOIN, each)) for each in asked]
    follower, leader = await asyncio.gather(*joining)
    assert leader.leader == leader.member_id == "m"
    return leader.generation_id, "m", follower.member_id


async def test_a_sync_waits_for_the_fsync(home: ServicesOnDisk) -> None:
    """The leader and a member that waited for it: both are told what is on the disk."""
    generation, leader, follower = await begin_generation(home)
    waiting = asyncio.ensure_future(told(home, SYNC, requests.sync("g", follower, generation)))
    await asyncio.sleep(0)
    assert not waiting.done()
    given = {leader: b"one", follower: b"two"}

    answers = await asyncio.gather(
        told(home, SYNC, requests.sync("g", leader, generation, given)), waiting
    )

    assert [each.assignment for each in answers] == [b"one", b"two"]


async def test_a_sync_beside_the_fsync_waits_for_it(home: ServicesOnDisk) -> None:
    """The follower asks when the leader's record is written and its fsync is under way."""
    generation, leader, follower = await begin_generation(home)
    asked = [
        requests.sync("g", leader, generation, {follower: b"two"}),
        requests.sync("g", follower, generation),
    ]
    with journal_of(home)._flush_lock:
        first = asyncio.ensure_future(told(home, SYNC, asked[0]))
        await begin_fsync(home)
        second = asyncio.ensure_future(told(home, SYNC, asked[1]))
        await asyncio.sleep(0)
        assert not second.done()

    answers = await asyncio.gather(first, second)

    assert [each.assignment for each in answers] == [b"", b"two"]


async def test_a_heartbeat_beside_the_fsync_waits_for_it(home: ServicesOnDisk) -> None:
    """The member joins twice, as after a lost answer: the second answer says no more."""
    with journal_of(home)._flush_lock:
        joins = [
            asyncio.ensure_future(told(home, BEAT, requests.consumer_beat("new", "n", 0)))
            for _ in range(2)
        ]
        await begin_fsync(home)
        assert not any(each.done() for each in joins)

    answers = await asyncio.gather(*joins)

    assert [each.error_code for each in answers] == [ErrorCode.none] * 2


async def test_no_member_gets_an_assignment_whose_fsync_failed(
    home: ServicesOnDisk, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither the leader nor the member that waited for it."""
    generation, leader, follower = await begin_generation(home)
    install(monkeypatch).fail("fsync", path="__consumer_offsets-0")

    answers = await asyncio.gather(
        ask(home, SYNC, requests.sync("g", follower, generation)),
        ask(home, SYNC, requests.sync("g", leader, generation, {follower: b"two"})),
    )

    assert [each.error_code for each in answers] == [ErrorCode.not_coordinator] * 2


async def test_a_static_member_that_returns_waits_for_the_fsync(home: ServicesOnDisk) -> None:
    """Its new id is written, and the old one is fenced."""
    answer = await told(home, JOIN, requests.join("g", instance_id="i"))

    assert answer.member_id != "m"
    assert answer.generation_id == 3


async def test_a_member_that_leaves_waits_for_the_fsync(home: ServicesOnDisk) -> None:
    """The group is empty then."""
    answer = await told(home, LEAVE, requests.leave("g", ("m", None)))

    assert answer.members[0].error_code is ErrorCode.none
    assert group_of(home).is_empty


async def test_a_heartbeat_that_changes_something_waits_for_the_fsync(
    home: ServicesOnDisk,
) -> None:
    """A member of the consumer protocol has joined."""
    answer = await told(home, BEAT, requests.consumer_beat("new", "n", 0))

    assert answer.error_code is ErrorCode.none
    assert answer.member_epoch > 0


@pytest.mark.parametrize(
    ("key", "request_"),
    [
        (JOIN, requests.join("g", instance_id="i")),
        (LEAVE, requests.leave("g", ("m", None))),
        (LEAVE, request(LEAVE, 2, group_id="g", member_id="m")),
        (BEAT, requests.consumer_beat("new", "n", 0)),
    ],
)
async def test_an_fsync_that_fails_is_told(
    home: ServicesOnDisk, key: int, request_: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The client looks for the coordinator again."""
    await asyncio.to_thread(home.services.logs.background.drain)  # it fsyncs, too
    install(monkeypatch).fail("fsync", path="__consumer_offsets-0")

    answer = await ask(home, key, request_, type(request_).__version__)

    assert answer.error_code is ErrorCode.not_coordinator


@pytest.mark.parametrize(
    ("key", "beside"),
    [
        (LEAVE, requests.leave("g", ("m", None))),
        (COMMIT, requests.commit("g", {("orders", 1): 7}, member=("m", 3, "i"))),
    ],
)
async def test_no_answer_beside_a_failed_fsync_tells_of_success(
    home: ServicesOnDisk, key: int, beside: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two requests share the fsync, and one of them may have written nothing."""
    await asyncio.to_thread(home.services.logs.background.drain)
    with journal_of(home)._flush_lock:
        asked = [
            asyncio.ensure_future(ask(home, key, beside, type(beside).__version__)),
            asyncio.ensure_future(ask(home, LEAVE, requests.leave("g", ("m", None)))),
        ]
        await begin_fsync(home)
        install(monkeypatch).fail("fsync", path="__consumer_offsets-0")

    told = [str(await each) for each in asked]

    assert all("not_coordinator" in each for each in told), told

"""Requests that rest: small ones need not, and what was read before a rest is looked at again."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from siltstone.broker.api import BY_KEY
from siltstone.broker.handlers import offset_fetch
from siltstone.broker.process.loop_share import LoopShare
from tests.support import group_requests
from tests.support.clock import set_seconds
from tests.support.kio_messages import encode, request
from tests.support.limited import add_to_txn
from tests.support.line import others_first, taking_turns
from tests.support.services import ServicesOnDisk, groups_on_disk
from tests.support.waiting import give_turns_until

COMMIT = 8
OFFSET_FETCH = 9
ADD_PARTITIONS = 24
TXN_COMMIT = 28


@pytest.fixture
async def home(tmp_path: Path) -> AsyncIterator[ServicesOnDisk]:
    """The topic orders of 20 partitions, and the group "g" without members."""
    async with groups_on_disk(tmp_path / "root", {"orders": 20}) as services:
        services.services.groups().add_classic("g")
        yield services


def commit_of(offset: int, *indexes: int, topic: str = "orders") -> Any:
    """Return a request that commits the same offset of some partitions."""
    rows = [{"partition_index": index, "committed_offset": offset} for index in indexes]
    return request(COMMIT, 8, group_id="g", topics=[{"name": topic, "partitions": rows}])


def begin(home: ServicesOnDisk, wanted: Any) -> Any:
    """Return what the handler returns for a request that came over the wire."""
    key, version = type(wanted).__api_key__, type(wanted).__version__
    body = encode(wanted)
    read, _ = BY_KEY[key].load_messages()[0].read(version, body, 0, len(body))
    return BY_KEY[key].load()(home.context(key, version), read)


PARTITIONS = range(20)
END = {"name": "orders", "partitions": [{"timestamp": -1}]}
SMALL = {
    "Fetch": request(
        1,
        12,
        session_epoch=0,
        topics=[{"topic": "orders", "partitions": [{"partition": each} for each in PARTITIONS]}],
    ),
    "ListOffsets": request(
        2,
        7,
        replica_id=-1,
        topics=[
            {
                "name": "orders",
                "partitions": [{"partition_index": each, "timestamp": -1} for each in PARTITIONS],
            }
        ],
    ),
    "Metadata": request(3, 9, topics=[{"name": "orders"}]),
    "all Metadata": request(3, 9),
    "OffsetCommit": commit_of(3, *PARTITIONS),
    "OffsetFetch": request(
        OFFSET_FETCH,
        8,
        groups=[
            {
                "group_id": "g",
                "topics": [{"name": "orders", "partition_indexes": PARTITIONS}],
            }
        ],
    ),
    "FindCoordinator": group_requests.find("g"),
    "LeaveGroup": group_requests.leave("g", ("m", None)),
    "DeleteRecords": request(21, 2, topics=[{"name": "orders", "partitions": [{}]}], timeout=1_000),
}


@pytest.mark.parametrize("name", SMALL)
async def test_small_requests_do_not_stand_behind_large_ones(
    home: ServicesOnDisk, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    """They are answered in the turn that they came in, even if others want more of the loop."""
    set_seconds(monkeypatch, lambda: 1.0)  # no time is spent
    await answer_of(begin(home, SMALL[name]))  # what it needs is made
    async with taking_turns():
        answer = begin(home, SMALL[name])
        if not isinstance(answer, tuple):
            with pytest.raises(StopIteration):
                answer.send(None)


ROWS = {
    "ListOffsets": request(2, 7, replica_id=-1, topics=[END] * 2),
    "AddPartitionsToTxn": request(ADD_PARTITIONS, 5, transactions=[{"transactional_id": "t"}] * 2),
}


@pytest.mark.parametrize("name", ROWS)
async def test_others_are_served_between_rows_of_little_in_each(
    home: ServicesOnDisk, name: str
) -> None:
    """Of rows with one element or with none there may be very many."""
    async with others_first():
        answering = asyncio.ensure_future(begin(home, ROWS[name]))
        await asyncio.sleep(0)
        assert not answering.done()
    assert await answering


async def answer_of(answer: Any) -> Any:
    """Return the answer of a handler."""
    return answer if isinstance(answer, tuple) else await answer


async def open_durable(root: Path) -> ServicesOnDisk:
    """Open services with the group "g", whose two journals are fsynced for each batch."""
    home = await ServicesOnDisk(root / "root", offsets_topic_num_partitions="1").open()
    await home.services.topics.create("orders", 2, {})
    for name in ("__consumer_offsets", "__transaction_state"):
        await home.services.topics.create(name, 1, {"flush.messages": "1"})
    home.services.groups().add_classic("g")
    return home


async def test_a_request_that_rests_waits_for_its_own_fsync(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another one that is served meanwhile does not wait in its stead: both are on the disk."""
    home = await open_durable(tmp_path)
    run, may_go = home.io.run, asyncio.Event()

    async def wait_and_run(*arguments: Any) -> Any:
        await may_go.wait()
        return await run(*arguments)

    commit = commit_of(3, 0)
    commit_later = await commit_in_transaction(home, "u")
    add = [await add_partitions(home, each) for each in ("t1", "t2")]
    for requests, name in (
        ([commit, commit], "__consumer_offsets"),
        (add, "__transaction_state"),
        ([commit_later, commit_later], "__consumer_offsets"),
    ):
        may_go.clear()
        with monkeypatch.context() as patch:
            patch.setattr(home.io, "run", wait_and_run)
            async with others_first():
                asked = [asyncio.ensure_future(begin(home, each)) for each in requests]
                await asyncio.sleep(0)
            for _ in range(20):
                await asyncio.sleep(0)
            assert not any(each.done() for each in asked)
            may_go.set()
            await asyncio.gather(*asked)
            journal = home.services.topics.logs[name, 0]
            assert journal.recovery_point == journal.log_end_offset
    await home.close()


async def test_nobody_takes_the_second_fsync_of_a_request(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A transaction's offsets stand in two journals; one is waited for behind the other."""
    home = await open_durable(tmp_path)
    later = await commit_in_transaction(home, "u", version=5)
    run, may_go, asked = home.io.run, asyncio.Event(), []

    async def wait_and_run(flush: Any) -> Any:
        asked.append(flush.__self__.topic_partition.topic)
        if asked[-1] == "__consumer_offsets":
            await may_go.wait()
        return await run(flush)

    monkeypatch.setattr(home.io, "run", wait_and_run)
    first = asyncio.ensure_future(begin(home, later))
    await asyncio.sleep(0)
    other = asyncio.ensure_future(begin(home, commit_of(3, 0)))
    await give_turns_until(
        lambda: asked.count("__consumer_offsets") == 2 or first.done(), "both wait for the disk"
    )
    assert not first.done()
    may_go.set()
    await asyncio.gather(first, other)
    await home.close()


async def test_a_fsync_is_not_the_time_of_a_share(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It makes nobody stand behind others, and no later pieces smaller."""
    home = await ServicesOnDisk(tmp_path / "root", offsets_topic_num_partitions="1").open()
    await home.services.topics.create("orders", 1, {})
    await home.services.topics.create("__consumer_offsets", 1, {"flush.messages": "1"})
    home.services.groups().add_classic("g")
    run, now, fsyncs = home.io.run, 1.0, 0

    async def run_slowly(*arguments: Any) -> Any:
        nonlocal now, fsyncs
        now += 1.0
        fsyncs += 1
        return await run(*arguments)

    set_seconds(monkeypatch, lambda: now)
    monkeypatch.setattr(home.io, "run", run_slowly)
    async with taking_turns():
        await asyncio.wait_for(begin(home, commit_of(3, *[0] * 4000)), 20)

    assert 1 < fsyncs < 10
    await home.close()


async def add_partitions(home: ServicesOnDisk, name: str) -> Any:
    """Return a request that adds a partition to the transaction of a new producer."""
    made = await home.services.transactions().initialise(name, None, 60_000)
    return add_to_txn(name, made, "orders", range(1))


async def commit_in_transaction(home: ServicesOnDisk, name: str, version: int = 3) -> Any:
    """Return a request that commits an offset in the transaction of a new producer.

    It is open if the version does not begin it.
    """
    made = await home.services.transactions().initialise(name, None, 60_000)
    producer = name, made.producer_id, made.producer_epoch
    if version < 5:
        home.services.transactions().add_partitions(
            *producer, [("__consumer_offsets", 0)], client_version=0
        )
    journal = home.services.transactions().journal
    await journal.flush(journal.find_unwritten_of(name))
    topics = [{"name": "orders", "partitions": [{"committed_offset": 3}]}]
    named = dict(zip(("transactional_id", "producer_id", "producer_epoch"), producer, strict=True))
    return request(TXN_COMMIT, version, group_id="g", topics=topics, **named)


async def test_no_offset_of_a_topic_before_is_that_of_a_new_one(
    home: ServicesOnDisk, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A topic that is replaced while others are served has no offset, though its name had one."""
    may_go = asyncio.Event()

    class Held(LoopShare):
        """Goes on behind its second rest when the topics are replaced."""

        async def rest(self) -> None:
            if self in rested:
                await may_go.wait()
            rested.append(self)

    rested: list[LoopShare] = []
    topics = home.services.topics
    await topics.create("more", 1, {})
    for name in ("orders", "more"):
        await begin(home, commit_of(3, 0, topic=name))
    monkeypatch.setattr(offset_fetch, "LoopShare", Held)
    wanted = request(OFFSET_FETCH, 10, groups=[{"group_id": "g"}])
    asked = asyncio.ensure_future(begin(home, wanted))
    await asyncio.sleep(0)
    before = topics.topics["orders"].key
    home.services.groups().loaded.clear()  # so that nobody deletes the old offsets yet
    for name in ("orders", "more"):
        await topics.delete(topics.topics[name])
        await topics.create(name, 1, {})
    may_go.set()
    [group] = (await asked).groups

    assert [each[1] for each in group.topics] == [before]

"""Quotas over the wire: on from the first one that is set, off when the last is removed."""

import asyncio
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from kio.schema.errors import ErrorCode

from siltstone.broker.http.metrics.quotas import QUOTA_METRICS
from siltstone.protocol.messages.fetch import FetchPartition
from tests.support import group_requests
from tests.support.batches import make_batch, make_rows
from tests.support.clock import now
from tests.support.common_requests import create_topics
from tests.support.fetch_requests import FetchRequest
from tests.support.fetch_requests import request_entity as fetch_entity
from tests.support.kio_messages import request
from tests.support.limited import create_partitions
from tests.support.metrics import make_sources, rows_of
from tests.support.produce_requests import request_entity as produce_entity
from tests.support.quotas import set_quota
from tests.support.running import Caller, Running, a_broker, running
from tests.support.waiting import equals, give_turns_until, within

NO_TIME = timedelta(0)


home = a_broker(topics={"t": (1, {})})


async def call(home: Running, client_id: str = "app") -> Caller:
    """Open a connection of a client with a name."""
    caller = await home.call()
    caller.client_id = client_id
    return caller


def produce(size: int, acks: int = 1) -> Any:
    """Return a Produce of somewhat more than ``size`` bytes."""
    batch = bytes(make_batch(make_rows(1, size), timestamp=now()))
    return produce_entity(9, acks, 1000, None, [("t", [(0, batch)])])


def fetch() -> Any:
    """Return a Fetch of all there is."""
    wanted = FetchPartition(0, -1, 0, -1, -1, 1 << 20)
    return fetch_entity(12, FetchRequest(topics=[("t", [wanted])]))


async def test_who_produces_too_much_is_told_and_then_waits(home: Running) -> None:
    """The records are stored; the answer comes at once, the next one not before the time."""
    await set_quota(await home.call(), "producer_byte_rate", 100_000)
    caller = await call(home)
    assert (await caller.ask(produce(400_000))).throttle_time == NO_TIME
    told = await caller.ask(produce(120_000))
    answered = asyncio.get_running_loop().time()
    waits = told.throttle_time.total_seconds()
    assert 0.0 < waits <= 0.25
    await caller.ask(produce(10))

    assert asyncio.get_running_loop().time() - answered >= waits - 0.01
    assert told.responses[0].partition_responses[0].error_code is ErrorCode.none
    assert home.topics.logs["t", 0].log_end_offset == 3


async def test_bytes_without_an_acknowledgement_are_waited_for_too(home: Running) -> None:
    """With acks=0 nothing can be told, so the next request is read later."""
    await set_quota(await home.call(), "producer_byte_rate", 100_000)
    caller = await call(home)
    began = asyncio.get_running_loop().time()
    await caller.client.send(caller.frame(produce(520_000, acks=0)))
    await caller.ask(produce(10))

    assert asyncio.get_running_loop().time() - began >= 0.18


async def test_who_fetches_too_much_is_told(home: Running) -> None:
    """With the records in the answer; another client id is not concerned."""
    caller = await call(home)
    await caller.ask(produce(40_000))
    await set_quota(await home.call(), "consumer_byte_rate", 1000, (("client-id", "app"),))
    fetched = await caller.ask(fetch())
    other = await (await call(home, "other")).ask(fetch())

    assert timedelta(seconds=34) < fetched.throttle_time < timedelta(seconds=36)
    assert len(fetched.responses[0].partitions[0].records) > 40_000
    assert other.throttle_time == NO_TIME


async def test_each_wait_is_counted_by_its_quota(home: Running) -> None:
    """The metrics tell how many and how long; those of a broker without quotas are empty."""
    sources = replace(make_sources({}), meter=home.broker.meter)
    throttled, seconds, *_ = QUOTA_METRICS
    assert [*rows_of(throttled, sources), *rows_of(seconds, sources)] == []
    await set_quota(await home.call(), "producer_byte_rate", 1000)
    for _ in range(2):
        await (await call(home)).ask(produce(5000))

    told, waited = (dict(rows_of(each, sources)) for each in (throttled, seconds))
    assert told[("producer_byte_rate",)] == 2
    assert told[("consumer_byte_rate",)] == 0
    assert waited[("producer_byte_rate",)] == pytest.approx(5.4, abs=0.5)


async def test_time_of_requests_is_counted_of_any_api(home: Running) -> None:
    """A millionth of the loop is less than one answer takes."""
    await set_quota(await home.call(), "request_percentage", 0.000_001, (("client-id", "app"),))
    caller = await call(home)
    told = await caller.ask(group_requests.beat("g", "m", 1))

    assert told.throttle_time == timedelta(seconds=11)


async def test_without_quotas_nothing_stands_before_the_handlers(home: Running) -> None:
    """Neither before the first one nor after the last; an open connection is served by each."""
    caller = await call(home)
    assert home.broker.meter.built is None
    assert (await caller.ask(produce(10))).throttle_time == NO_TIME
    await set_quota(await home.call(), "producer_byte_rate", 1e6)
    await caller.ask(produce(6_000_000 // 10))
    await set_quota(await home.call(), "producer_byte_rate", 100.0)
    other = await call(home, "another")
    assert (await other.ask(produce(1000))).throttle_time > NO_TIME
    await set_quota(await home.call(), "producer_byte_rate", None)
    again = await call(home, "another")

    assert (await again.ask(produce(1000))).throttle_time == NO_TIME


@pytest.mark.parametrize("value", [None, 1e9])
async def test_who_waits_goes_on_when_the_quota_is_removed_or_raised(
    home: Running, value: float | None
) -> None:
    """A byte a second and 60 KB: seventeen hours, which end at once."""
    await set_quota(await home.call(), "producer_byte_rate", 1)
    caller = await call(home)
    told = await caller.ask(produce(60_000))
    assert told.throttle_time > timedelta(hours=16)
    waiting = asyncio.create_task(caller.ask(produce(10)))
    await asyncio.sleep(0)
    await set_quota(await home.call(), "producer_byte_rate", value)

    assert (await within(waiting, "an answer")).throttle_time == NO_TIME


async def test_a_change_for_others_frees_nobody(home: Running) -> None:
    """A client that waits for its own quota waits on."""
    await set_quota(await home.call(), "producer_byte_rate", 1)
    caller = await call(home)
    await caller.ask(produce(60_000))
    (muted,) = [each for each in home.listeners[0].connections if each.is_muted]
    await set_quota(await home.call(), "producer_byte_rate", 5, (("user", "bob"),))
    await set_quota(await home.call(), "consumer_byte_rate", 5)

    assert muted.is_muted


async def test_a_client_that_has_given_up_its_wait_is_closed(home: Running) -> None:
    """Nothing is read from it, so its end is looked for; and a day is longer than idle."""
    await set_quota(await home.call(), "producer_byte_rate", 1)
    gone, stays = await call(home), await call(home)
    for each in (gone, stays):
        await each.ask(produce(60_000))
    listener = home.listeners[0]
    await gone.client.close()

    def look() -> int:
        listener.close_idle()
        return sum(each.is_muted for each in listener.connections)

    await give_turns_until(look, "one that waits", equals(1))
    await home.broker._settings.alter(broker={"connections.max.idle.ms": "0"})
    listener.close_idle()
    assert look() == 0


async def test_quotas_count_after_a_start(tmp_path: Path) -> None:
    """They are read before clients are served."""
    async with running(tmp_path) as home:
        await home.topics.create("t", 1, {})
        await set_quota(await home.call(), "producer_byte_rate", 100.0, (("user", "ANONYMOUS"),))
    async with running(tmp_path) as home:
        caller = await call(home)

        assert (await caller.ask(produce(1000))).throttle_time > NO_TIME


async def test_a_client_that_mutates_too_much_is_refused(home: Running) -> None:
    """From version 6 on, when there is a debt: of three topics the last is not made."""
    await set_quota(await home.call(), "controller_mutation_rate", 1.0)
    caller = await call(home)
    told = await caller.ask(create_topics("a", "b", "c", partitions=10))
    codes = {str(each.name): each.error_code for each in told.topics}

    assert codes == {
        "a": ErrorCode.none,
        "b": ErrorCode.none,
        "c": ErrorCode.throttling_quota_exceeded,
    }
    assert timedelta(seconds=8) < told.throttle_time <= timedelta(seconds=9)
    assert "c" not in home.topics.topics


async def test_an_older_client_that_mutates_too_much_waits(home: Running) -> None:
    """It does not know the error."""
    await set_quota(await home.call(), "controller_mutation_rate", 1.0)
    caller = await call(home)
    told = await caller.ask(create_topics("a", "b", "c", partitions=10, version=5))

    assert {each.error_code for each in told.topics} == {ErrorCode.none}
    assert timedelta(seconds=18) < told.throttle_time <= timedelta(seconds=19)


async def test_partitions_that_are_added_or_deleted_are_mutations_too(home: Running) -> None:
    """Each by the number of partitions; what is refused for another reason does not count."""
    await home.topics.create("large", 30, {})
    await set_quota(await home.call(), "controller_mutation_rate", 1.0)

    def delete(name: str) -> Any:
        return request(20, 6, topics=[{"name": name}], timeout=5_000)

    caller = await call(home)
    missing = await caller.ask(delete("nothing"))
    (deleted,) = (first := await caller.ask(delete("large"))).responses
    told = await (await call(home)).ask(create_partitions("t", 2))

    assert missing.throttle_time == first.throttle_time == NO_TIME
    assert deleted.error_code is ErrorCode.none
    assert told.results[0].error_code is ErrorCode.throttling_quota_exceeded
    assert timedelta(seconds=18) < told.throttle_time <= timedelta(seconds=19)


async def test_an_address_opens_no_more_connections_than_its_rate(tmp_path: Path) -> None:
    """One too many is kept without an answer for a moment, then closed; the next one may come."""
    async with running(tmp_path, "quota.window.num=2") as home:
        await set_quota(await home.call(), "connection_creation_rate", 4.0, (("ip", None),))
        versions = request(18, 0)
        for _ in range(2):
            await (await call(home)).ask(versions)
        began = asyncio.get_running_loop().time()
        assert await (await home.connect()).is_closed()
        assert asyncio.get_running_loop().time() - began >= 0.1
        await (await call(home)).ask(versions)

        meter = home.broker.meter.get()
        assert meter.throttled["connection_creation_rate"] == 1
        assert 0.1 < meter.seconds["connection_creation_rate"] <= 0.25
        assert home.broker.addresses.count("127.0.0.1") == 4

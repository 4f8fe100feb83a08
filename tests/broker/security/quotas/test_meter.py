"""The meter before the handlers: whom it counts, what it tells, and what it lets pass."""

import asyncio
from collections.abc import Callable, Coroutine
from heapq import heappop, heappush
from random import Random
from types import SimpleNamespace
from typing import Any

import pytest

from siltstone.broker.api import APIS, BY_KEY, Api
from siltstone.broker.process.loop_share import LoopShare
from siltstone.broker.security.principals import OURSELVES
from siltstone.broker.security.quotas.book import CONSUMER, MUTATION, PRODUCER, REQUEST, Quotas
from siltstone.broker.security.quotas.meter import Meter, Timed, count_produced
from siltstone.broker.security.quotas.rates import Windows
from siltstone.protocol.messages.fetch import FetchRequest, FetchResponse
from siltstone.protocol.messages.heartbeat import HeartbeatResponse
from siltstone.protocol.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)
from tests.support.clock import FakeClock

WINDOWS = Windows(11, 1)
EVERYBODY = (("client-id", None),)


class Peer:
    """A connection that notes how long it is to be silent."""

    client_id = "app"

    def __init__(self, principal: str = "User:alice", *, is_known: bool = True) -> None:
        self.principal = principal
        self.is_known = is_known
        self.told: list[float] = []

    def throttle(self, seconds: float) -> None:
        """Note it."""
        self.told.append(seconds)


class Served(Api):
    """A row of the table of APIs that is served by a test."""

    __slots__ = ("own",)

    def load(self) -> Callable[..., Any]:
        """Return the test's handler."""
        return self.own  # type: ignore[no-any-return, attr-defined]


def serve(
    key: int, limits: dict[str, float], handler: Callable[..., Any], clock: FakeClock | None = None
) -> Any:
    """Return what serves an API for clients with quotas; the loop's time is the clock's."""
    row = BY_KEY[key]
    api = Served(row.key, row.name, row.versions, row.handler)
    object.__setattr__(api, "own", handler)
    quotas = Quotas()
    quotas.replace({EVERYBODY: limits})
    clock = clock or FakeClock()
    return Meter(quotas, clock, WINDOWS, WINDOWS, clock.monotonic).find_handler(api)


def asked(peer: Peer | None, client_id: str | None = "app") -> Any:
    """Return the context of a request."""
    return SimpleNamespace(connection=peer, client_id=client_id, version=9)


def produce(size: int, acks: int = 1) -> ProduceRequest:
    """Return a Produce of some bytes."""
    batch = PartitionProduceData(0, memoryview(bytes(size)))
    return ProduceRequest(None, acks, 0, [TopicProduceData("t", partition_data=[batch])])


async def test_below_the_quota_the_handlers_own_answer_is_given() -> None:
    """In the same turn, without a coroutine."""
    answer = ProduceResponse()
    peer = Peer()
    serve_one = serve(0, {PRODUCER: 1000.0}, lambda *_: answer)

    assert serve_one(asked(peer), produce(4000)) is answer
    assert peer.told == []


async def test_above_it_the_answer_says_how_long_to_wait() -> None:
    """And the connection waits as long; a bare tuple of compiled code gets its fields."""
    peer = Peer()
    serve_one = serve(0, {PRODUCER: 1000.0}, lambda *_: ([],))
    told = await serve_one(asked(peer), produce(7000))

    assert isinstance(told, ProduceResponse)
    assert 2000 < told.throttle_time_ms < 2050
    assert peer.told == [told.throttle_time_ms / 1000]


def test_a_turn_counts_with_all_that_it_takes() -> None:
    """To receive, read, write and send; what its handlers took is counted once, with them."""
    quotas = Quotas()
    quotas.replace({EVERYBODY: {REQUEST: 10.0}})
    clock = FakeClock()
    meter = Meter(quotas, clock, WINDOWS, WINDOWS, clock.monotonic)

    def handle(*_: object) -> HeartbeatResponse:
        clock.advance(250)
        return HeartbeatResponse()

    api = Served(BY_KEY[12].key, "Heartbeat", BY_KEY[12].versions, "")
    object.__setattr__(api, "own", handle)
    serve_one = meter.find_handler(api)
    assert serve_one is not None
    assert meter.find_timer() is meter
    peer = Peer()
    bucket = meter.find_bucket(REQUEST, "alice", "app")
    full = meter.find_credit(REQUEST, "alice", "app")
    assert bucket is not None
    assert full is not None
    bucket.take(full, clock.monotonic())

    began = meter.begin()
    clock.advance(250)
    serve_one(asked(peer), None).close()  # its answer tells to wait, and comes later
    other = Peer("User:bob")  # whose answer leaves in the same round
    other.client_id = "other"
    inner = meter.begin()
    clock.advance(1000)
    meter.end(other, inner)
    clock.advance(250)
    meter.end(peer, began)
    assert bucket.find_delay(clock.monotonic()) == pytest.approx(75 / 10 - 1.75)

    began = meter.begin()
    clock.advance(250)
    meter.end(Peer(is_known=False), began)  # before a login it is nobody's
    assert bucket.find_delay(clock.monotonic()) == pytest.approx(75 / 10 - 2)


def test_turns_are_not_timed_without_such_a_quota() -> None:
    """Nothing is asked of the clock for other quotas."""
    quotas = Quotas()
    quotas.replace({EVERYBODY: {PRODUCER: 10.0}})

    assert Meter(quotas, FakeClock(), WINDOWS, WINDOWS).find_timer() is None


async def test_a_quota_holds_over_an_hour() -> None:
    """Four connections that never rest, with requests of many sizes, wait as they are told.

    Together they have their rate within a tenth, in the hour and in each ten minutes of it.
    """
    rate, random = 100_000, Random(1)
    clock = FakeClock()
    serves = serve(0, {PRODUCER: rate}, lambda *_: ProduceResponse([]), clock)
    requests = [produce(random.choice((500, 20_000, 90_000, 400_000))) for _ in range(64)]
    began = clock.monotonic()
    due = [(began + number / 100, number, Peer()) for number in range(4)]
    had: list[tuple[float, int]] = []
    while due[0][0] < began + 3600:
        moment, number, peer = heappop(due)
        clock.advance((moment - clock.monotonic()) * 1000)
        request = random.choice(requests)
        answer = serves(asked(peer), request)
        if not isinstance(answer, ProduceResponse):
            await answer
        had.append((moment - began, count_produced(request)))
        heappush(due, (moment + (peer.told.pop() if peer.told else 0.005), number, peer))

    assert sum(size for _, size in had) == pytest.approx(rate * 3600, rel=0.1)
    for start in range(0, 3600, 600):
        span = sum(size for moment, size in had if start <= moment < start + 600)
        assert span == pytest.approx(rate * 600, rel=0.1)


async def test_a_wait_is_no_longer_than_an_answer_can_tell() -> None:
    """A byte a second and a request of 4 MiB are 49 days: it is the largest number of 32 bits."""
    peer = Peer()
    meter = serve(0, {PRODUCER: 1}, lambda *_: ProduceResponse([]))
    answer = await meter(asked(peer), produce(1 << 22))

    assert answer.throttle_time_ms == (1 << 31) - 1
    assert peer.told == [((1 << 31) - 1) / 1000]


async def test_bytes_without_an_answer_are_counted_too() -> None:
    """acks=0 has no field to tell it, so the connection alone waits; its time is not counted."""
    peer = Peer()
    serve_one = serve(0, {PRODUCER: 1000.0, REQUEST: 1e-9}, lambda *_: None)

    assert await serve_one(asked(peer), produce(7000, acks=0)) is None
    assert peer.told == [pytest.approx(2.02, abs=0.02)]


@pytest.mark.parametrize("peer", [None, Peer(str(OURSELVES))])
async def test_the_broker_itself_has_no_quota(peer: Peer | None) -> None:
    """Or its probe would find it slow."""
    answer = ProduceResponse()
    serve_one = serve(0, {PRODUCER: 1.0}, lambda *_: answer)

    assert serve_one(asked(peer), produce(7000)) is answer


async def test_a_fetch_is_counted_by_its_answer() -> None:
    """And asks for no more than the client may have at once."""
    peer = Peer()
    seen = []

    def handle(_: Any, request: FetchRequest) -> FetchResponse:
        seen.append((request.max_bytes, request.min_bytes))
        row = (0, 0, 0, 0, 0, (), (), (), (), -1, memoryview(bytes(7000)))
        return FetchResponse(responses=[("t", b"", [row])])  # type: ignore[list-item]

    serve_one = serve(1, {CONSUMER: 1000.0}, handle)
    told = await serve_one(asked(peer), FetchRequest(max_bytes=1 << 20, min_bytes=1 << 16))

    assert seen == [(5000, 5000)]
    assert 2000 < told.throttle_time_ms < 2100
    assert len(told.responses[0][2][0][-1]) == 7000


async def test_time_on_the_loop_is_counted_and_waiting_is_not() -> None:
    """Two steps of 30 ms are 6 per cent of a second, however long the request waits between."""
    clock = FakeClock()

    async def handle(*_: Any) -> HeartbeatResponse:
        clock.advance(30)
        await asyncio.sleep(0)
        clock.advance(30)
        return HeartbeatResponse()

    peer = Peer()
    serve_one = serve(12, {REQUEST: 1.0}, handle, clock)
    told = await serve_one(asked(peer), None)

    assert told.throttle_time_ms == pytest.approx(1000, abs=1)


async def test_what_a_timed_request_waits_for_reaches_it() -> None:
    """A result, a fault and the end of the connection."""
    loop = asyncio.get_running_loop()
    clock = FakeClock()
    waits_for: asyncio.Future[str] = loop.create_future()
    ended = []

    async def wait(future: asyncio.Future[str]) -> str:
        try:
            return await future
        except ValueError:
            return "a fault"
        except asyncio.CancelledError:
            ended.append("cancelled")
            raise

    loop.call_soon(waits_for.set_result, "a result")
    assert await Timed(wait(waits_for), clock.monotonic) == "a result"

    waits_for = loop.create_future()
    loop.call_soon(waits_for.set_exception, ValueError())
    assert await Timed(wait(waits_for), clock.monotonic) == "a fault"

    async def run(timed: Timed) -> Any:
        return await timed

    task = loop.create_task(run(Timed(wait(loop.create_future()), clock.monotonic)))
    loop.call_soon(lambda: loop.call_soon(task.cancel))
    with pytest.raises(asyncio.CancelledError):
        await task
    assert ended == ["cancelled"]


def test_only_what_a_quota_concerns_is_counted() -> None:
    """The other handlers stay as they are; a quota of request time concerns nearly all."""
    quotas = Quotas()
    meter = Meter(quotas, FakeClock(), WINDOWS, WINDOWS)

    def counted(*keys: str) -> set[int]:
        quotas.replace({EVERYBODY: dict.fromkeys(keys, 1.0)})
        return {api.key for api in APIS if meter.find_handler(api) is not None}

    assert counted() == set()
    assert counted(PRODUCER) == {0}
    assert counted(CONSUMER) == {1}
    assert counted(MUTATION) == {19, 20, 37}
    assert counted(REQUEST) == {api.key for api in APIS}


@pytest.mark.parametrize("key", [17, 18, 36])
async def test_what_comes_before_a_login_is_not_counted(key: int) -> None:
    """The same of a client that is known is: it could keep the loop busy with it."""
    clock = FakeClock()

    def handle(*_: Any) -> Any:
        clock.advance(100)
        return BY_KEY[key].load_messages()[1].struct()

    stranger, known = Peer(is_known=False), Peer()
    serve_one = serve(key, {REQUEST: 1.0}, handle, clock)
    assert isinstance(serve_one(asked(stranger), None), tuple)
    await serve_one(asked(known), None)

    assert stranger.told == []
    assert known.told == [pytest.approx(5.0, abs=0.002)]


def test_a_wait_is_that_of_the_quotas_as_they_are_now() -> None:
    """Of all kinds the longest, and none without quotas."""
    quotas = Quotas()
    meter = Meter(quotas, FakeClock(), WINDOWS, WINDOWS)
    quotas.replace({EVERYBODY: {PRODUCER: 1.0, CONSUMER: 1.0}})
    meter.charge(PRODUCER, "alice", "app", 105.0)
    meter.charge(CONSUMER, "alice", "app", 8.0)

    assert meter.find_wait(Peer()) == 100.0
    quotas.replace({EVERYBODY: {PRODUCER: 50.0, CONSUMER: 1.0}})
    assert meter.find_wait(Peer()) == 3.0
    quotas.replace({})
    assert meter.find_wait(Peer()) == 0.0


async def test_a_limit_near_nothing_is_still_a_number_of_milliseconds() -> None:
    """A debt that takes for ever is told as the longest wait there is."""
    peer = Peer()
    serve_one = serve(0, {PRODUCER: 5e-324}, lambda *_: ProduceResponse([]))
    answer = await serve_one(asked(peer), produce(1))

    assert answer.throttle_time_ms == (1 << 31) - 1


async def test_a_large_request_is_counted_once() -> None:
    """However often its handler lets others be served, and without the time of those."""
    clock = FakeClock()
    messages = BY_KEY[2].load_messages()
    request_row, response_row = (each.struct for each in messages)

    async def handle(_: Any, request: Any) -> Any:
        share = LoopShare()
        for _ in range(5):
            clock.advance(20)
            asyncio.get_running_loop().call_soon(clock.advance, 7)
            await share.turn()
        return response_row(topics=request.topics)

    peer = Peer()
    serve_one: Callable[..., Coroutine[Any, Any, Any]] = serve(2, {REQUEST: 1.0}, handle, clock)
    told = await serve_one(asked(peer), request_row(topics=[("t", [])] * 1000))

    assert len(told.topics) == 1000
    assert peer.told == [pytest.approx(5.0, abs=0.002)]


def test_a_mutation_that_is_answered_at_once_needs_no_coroutine() -> None:
    """As by the gate, when a client may create none of the topics."""
    messages = BY_KEY[19].load_messages()
    answer = messages[1].struct()
    serve_one = serve(19, {MUTATION: 1.0}, lambda *_: answer)

    assert serve_one(asked(Peer()), messages[0].struct()) is answer

"""The gate that every request passes."""

import asyncio
import struct
from itertools import count
from types import SimpleNamespace
from typing import Any, cast

import pytest

from siltstone.broker.api import APIS
from siltstone.broker.context import Caller
from siltstone.broker.net.dispatch import Dispatcher, RareRequests
from siltstone.broker.process.histogram import BOUNDS_SECONDS, Histogram
from siltstone.broker.process.request_stats import RequestStats
from siltstone.protocol.errors import ProtocolError
from siltstone.protocol.messages import AT_ONCE
from siltstone.protocol.messages.list_groups import RESPONSE, ListedGroup, ListGroupsResponse
from tests.support.clock import set_seconds


@pytest.mark.parametrize(
    ("seconds", "bucket"),
    [(0.0, 0), (BOUNDS_SECONDS[0], 0), (0.000_051, 1), (5.0, 15), (5.1, 16), (1e9, 16)],
)
def test_duration_falls_into_the_bucket_that_bounds_it(seconds: float, bucket: int) -> None:
    """A bound belongs to its own bucket, as Prometheus reads `le`; the last has no bound."""
    histogram = Histogram()

    histogram.observe(seconds)

    assert histogram.buckets.index(1) == bucket
    assert (histogram.count, histogram.seconds) == (1, seconds)


def test_bounds_rise() -> None:
    """The buckets are in order."""
    assert list(BOUNDS_SECONDS) == sorted(set(BOUNDS_SECONDS))


METADATA = 3
LIST_CONFIG_RESOURCES = 74
FRAME = struct.pack(">hhih", 16, 0, 7, -1)


def served_by(handler: Any) -> Any:
    """Return what comes of a ListGroups request that a handler serves."""
    dispatcher = Dispatcher(RequestStats((api.key, api.name) for api in APIS))
    dispatcher.replace_handler(16, handler)
    connection = SimpleNamespace(caller=Caller(cast("Any", None), "L", "peer"), peer="peer")
    return dispatcher.gate.dispatch(cast("Any", connection), memoryview(FRAME), 0, len(FRAME))


def listing(count: int) -> ListGroupsResponse:
    """Return a response of so many groups."""
    return ListGroupsResponse(groups=[ListedGroup(f"group-{number}") for number in range(count)])


def test_a_coroutine_that_never_waits_is_answered_in_the_turn() -> None:
    """No loop runs here: there is no task."""

    async def handle(_context: Any, _request: Any) -> ListGroupsResponse:
        return listing(3)

    assert served_by(handle) == RESPONSE.respond(0, 7, listing(3))


async def test_the_first_request_of_a_seldom_api_is_handled_in_a_turn_of_its_own() -> None:
    """Its first turn imports the handler; the next request is answered at once."""
    dispatcher = Dispatcher(RequestStats((api.key, api.name) for api in APIS))
    services = SimpleNamespace(
        identity=SimpleNamespace(node_id=0),
        settings=SimpleNamespace(client_metrics={}, group_overrides={}),
        topics=SimpleNamespace(topics={}),
    )
    connection = SimpleNamespace(caller=Caller(cast("Any", services), "L", "peer"), peer="peer")
    frame = struct.pack(">hhihbb", LIST_CONFIG_RESOURCES, 0, 7, -1, 0, 0)

    def dispatch() -> Any:
        return dispatcher.gate.dispatch(cast("Any", connection), memoryview(frame), 0, len(frame))

    first = dispatch()

    assert not isinstance(first, bytes)
    assert await first == dispatch()


async def test_a_coroutine_that_waits_goes_on_where_it_was() -> None:
    """Its first steps are made in the turn; what it waits for is raised or given there."""
    steps: list[str] = []
    first: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    second: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    async def handle(_context: Any, _request: Any) -> ListGroupsResponse:
        steps.append("begun")
        with pytest.raises(OSError, match="trouble"):
            await first
        steps.append("raised")
        await second
        return listing(len(steps))

    later = served_by(handle)
    assert steps == ["begun"]
    first.set_exception(OSError("trouble"))
    asyncio.get_running_loop().call_soon(second.set_result, None)

    assert await later == RESPONSE.respond(0, 7, listing(2))


async def test_a_large_answer_is_written_in_pieces() -> None:
    """Of a handler that answers at once, too."""
    large = listing(AT_ONCE)
    larger = listing(AT_ONCE + 1)

    assert served_by(lambda *_: large) == RESPONSE.respond(0, 7, large)
    assert await served_by(lambda *_: larger) == RESPONSE.respond(0, 7, larger)


@pytest.mark.parametrize("rests", [False, True])
async def test_a_large_request_that_cannot_be_read_is_counted_once(
    rests: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whether it is read in the turn of its connection, or waits between its pieces."""
    if rests:
        ticks = count()
        set_seconds(monkeypatch, lambda: float(next(ticks)))
    names = struct.pack(">i", AT_ONCE + 1) + AT_ONCE * b"\0\x01t" + b"\xff\xff"
    request = struct.pack(">hhih", METADATA, 1, 7, -1) + names
    stats = RequestStats((api.key, api.name) for api in APIS)
    connection = SimpleNamespace(
        caller=Caller(cast("Any", None), "L", "peer"), peer="peer", client_id=None
    )
    gate = Dispatcher(stats).gate

    with pytest.raises(ProtocolError, match="null, where a value is required"):
        await cast(
            "Any", gate.dispatch(cast("Any", connection), memoryview(request), 0, len(request))
        )

    assert stats.refused == 1


def test_a_request_that_fails_in_a_loop_does_not_fill_the_log(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """A client that finds a fault of the broker sends its request again; all are refused."""
    now = 100.0
    rare = RareRequests(RequestStats((api.key, api.name) for api in APIS))
    monkeypatch.setattr(rare._faults, "_monotonic", lambda: now)
    connection: Any = SimpleNamespace(peer="peer", client_id=None)
    route: Any = SimpleNamespace(api=APIS[0])
    for _ in range(5):
        assert "the broker failed" in str(rare.fault(connection, route, 0, MemoryError()))
    now += 1.0
    rare.fault(connection, route, 0, MemoryError())

    assert [each.rpartition(" ")[2] for each in caplog.messages] == ["others=0", "others=4"]

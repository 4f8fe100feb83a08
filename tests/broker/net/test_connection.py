"""A connection: frames in whatever pieces, answers in order, memory and misbehaviour bounded."""

import asyncio
import struct
from collections.abc import AsyncIterator, Callable, Coroutine
from typing import Any

import pytest

from siltstone.broker.api import APIS
from siltstone.broker.net.buffers import SHARED_BYTES
from siltstone.broker.net.channel import PlainChannel
from siltstone.broker.net.connection import Connection
from siltstone.broker.net.dispatch import Dispatcher
from siltstone.broker.process.loop_share import LoopShare
from siltstone.broker.process.request_stats import RequestStats
from siltstone.protocol.errors import ProtocolError
from siltstone.protocol.messages.list_groups import ListGroupsResponse
from tests.support.connections import Line, frame
from tests.support.line import TAKING_TURNS
from tests.support.waiting import equals, give_turns_until, within

LIST_GROUPS = 16
Opener = Callable[..., Line]


@pytest.fixture
async def open_line() -> AsyncIterator[Opener]:
    """Open lines that are closed after the test."""
    lines: list[Line] = []

    def open_(dispatch: Callable[..., Any], **options: int) -> Line:
        line = Line(dispatch, **options)
        lines.append(line)
        return line

    yield open_
    for line in lines:
        line.close()
        await asyncio.gather(*line.tasks, return_exceptions=True)


def echo(_connection: Connection, buffer: memoryview, start: int, end: int) -> bytes:
    """Answer with the body of the request."""
    return bytes(buffer[start:end])


async def test_a_frame_arrives_byte_by_byte(open_line: Opener) -> None:
    """Nothing is served before the last byte, then exactly once."""
    line = open_line(echo)
    for byte in frame(b"hello"):
        await line.send(bytes([byte]))
        await asyncio.sleep(0)

    assert await line.receive(5) == b"hello"


async def test_many_frames_in_one_packet_are_answered_in_order(open_line: Opener) -> None:
    """More frames than one turn serves, and the start of one more."""
    line = open_line(echo)
    bodies = [f"{number:04}".encode() for number in range(500)]
    await line.send(b"".join(map(frame, bodies)) + frame(b"last")[:5])
    received = await line.receive(2000)
    await line.send(frame(b"last")[5:])

    assert received == b"".join(bodies)
    assert await line.receive(4) == b"last"


@pytest.mark.parametrize("size", [131_071, 131_072, 131_073, 262_144, 3_000_000])
async def test_large_frames_arrive_whole(open_line: Opener, size: int) -> None:
    """Around the border between the shared buffer and a buffer of the frame's own, twice each."""
    line = open_line(
        lambda _connection, buffer, start, end: bytes([buffer[start], buffer[end - 1]])
    )
    body = b"a" + bytes(size - 2) + b"z"
    sender = asyncio.create_task(line.send(frame(body) * 2 + frame(b"hi")))

    assert await line.receive(6) == b"azazhi"
    await sender
    assert line.buffers.received_bytes == 0


async def test_a_request_that_waits_holds_back_what_is_behind_it(open_line: Opener) -> None:
    """Answers leave in the order of the requests, although the second one was ready first."""
    gate = asyncio.Event()

    async def later() -> bytes:
        await gate.wait()
        return b"slow"

    def dispatch(_connection: Connection, buffer: memoryview, start: int, end: int) -> Any:
        return later() if bytes(buffer[start:end]) == b"wait" else b"fast"

    line = open_line(dispatch)
    await line.send(frame(b"wait") + frame(b"go"))
    await asyncio.sleep(0)
    await line.send(frame(b"go"))
    await asyncio.sleep(0)
    gate.set()

    assert await line.receive(12) == b"slowfastfast"


async def test_what_a_client_sends_at_once_stands_in_line_one_by_one(open_line: Opener) -> None:
    """Its second large request stands behind those of others that came before it began."""
    order: list[Connection] = []

    async def handle(context: Any, _request: Any) -> ListGroupsResponse:
        share = LoopShare()
        for _ in range(3):
            await share.turn()
        order.append(context.connection)
        return ListGroupsResponse()

    dispatcher = Dispatcher(RequestStats((api.key, api.name) for api in APIS))
    dispatcher.replace_handler(LIST_GROUPS, handle)
    request = frame(struct.pack(">hhih", LIST_GROUPS, 0, 7, -1))
    many = [open_line(dispatcher.gate.dispatch) for _ in range(TAKING_TURNS)]
    for line in many:
        await line.send(request * 10)
    await asyncio.sleep(0)
    one = open_line(dispatcher.gate.dispatch)
    await one.send(request)
    await one.receive(14)

    assert order.index(one.connection) == TAKING_TURNS


async def test_a_peer_that_leaves_while_it_waits_is_noticed(open_line: Opener) -> None:
    """A parked request of a closed connection is cancelled, its answer never made."""
    never = asyncio.Event()

    async def later() -> bytes:
        await never.wait()
        return b""

    line = open_line(lambda *_: later())
    await line.send(frame(b"wait"))
    await line.started.wait()
    line.client.close()
    await asyncio.gather(*line.tasks, return_exceptions=True)

    assert line.connection.is_closed
    assert line.forgotten == [line.connection]


@pytest.mark.parametrize("size", [100, 200_000])
@pytest.mark.parametrize("is_soon", [True, False])
async def test_a_connection_cut_as_its_request_is_parked_gives_all_back(
    open_line: Opener, size: int, is_soon: bool
) -> None:
    """The request has not begun to wait yet; it does, is cancelled, and ends as it should."""
    events: list[str] = []

    async def park() -> bytes:
        events.append("begun")
        try:
            await asyncio.Event().wait()
        finally:
            events.append("ended")
        return b""

    async def later(reply: Coroutine[Any, Any, bytes]) -> bytes:
        return await reply

    def dispatch(connection: Connection, *_: Any) -> Any:
        if is_soon:
            asyncio.get_running_loop().call_soon(connection.close)
        else:
            connection.close()
        return later(park())

    line = open_line(dispatch)
    sender = asyncio.create_task(line.send(frame(bytes(size))))
    await line.started.wait()
    await asyncio.gather(*line.tasks, return_exceptions=True)
    await asyncio.gather(sender, return_exceptions=True)

    assert line.connection.is_closed
    assert events == ["begun", "ended"]
    assert line.buffers.received_bytes == 0
    assert not line.buffers._taken


async def test_what_waits_is_counted(open_line: Opener) -> None:
    """Half of a small frame, requests behind one that waits, and no byte once all is served."""
    gate = asyncio.Event()

    async def later() -> bytes:
        await gate.wait()
        return b"slow"

    line = open_line(lambda c, b, s, e: later() if bytes(b[s:e]) == b"wait" else echo(c, b, s, e))
    body = bytes(100_000)
    await line.send(frame(b"1") + frame(body)[:70_004])
    assert await line.receive(1) == b"1"
    assert line.buffers.received_bytes == 70_004
    await line.send(frame(body)[70_004:] + frame(b"wait") + frame(b"4"))
    await line.started.wait()
    assert await line.receive(100_000) == body
    assert line.buffers.received_bytes == len(frame(b"4"))
    gate.set()

    assert await line.receive(5) == b"slow4"
    assert line.buffers.received_bytes == 0
    assert line.connection.received == 100_022


async def test_no_answer_takes_no_place_in_the_stream(open_line: Opener) -> None:
    """acks=0: the next answer is that of the next request."""
    line = open_line(lambda c, b, s, e: None if bytes(b[s:e]) == b"quiet" else echo(c, b, s, e))
    await line.send(frame(b"quiet") + frame(b"loud"))

    assert await line.receive(4) == b"loud"


@pytest.mark.parametrize("size", [b"\x00\x00\x00\x00", b"\xff\xff\xff\xff", b"\x7f\xff\xff\xff"])
async def test_an_impossible_size_closes_the_connection(open_line: Opener, size: bytes) -> None:
    """Zero, negative and above the limit; nothing is allocated, the listener is told once."""
    line = open_line(echo)
    await line.send(size)
    data = await line.receive(1)

    assert data == b""
    assert len(line.refusals) == 1
    assert line.buffers.received_bytes == 0


async def test_an_impossible_size_behind_requests_that_wait(open_line: Opener) -> None:
    """It is kept behind the answer of a file, and is refused when that has left."""
    gate = asyncio.Event()

    async def later() -> bytes:
        await gate.wait()
        return b"slow"

    def dispatch(_connection: Connection, buffer: memoryview, start: int, end: int) -> Any:
        return later() if bytes(buffer[start:end]) == b"wait" else [b"fi", b"le"]

    line = open_line(dispatch)
    await line.send(frame(b"wait") + frame(b"go") + b"\x7f\xff\xff\xff")
    await line.started.wait()
    await line.send(b"more")
    await give_turns_until(lambda: line.connection._reading, "muted", equals(False))
    gate.set()

    assert await within(line.receive(8), "both answers") == b"slowfile"
    assert await asyncio.gather(*line.tasks) == [None]
    assert len(line.refusals) == 1


@pytest.mark.parametrize("where", ["turn", "late answer", "kept request", "handler", "cancelled"])
async def test_a_fault_of_the_broker_closes_the_connection(
    open_line: Opener, monkeypatch: pytest.MonkeyPatch, where: str
) -> None:
    """A client would wait for its answer until it gives up; the listener has the fault once."""

    def fail(*_: Any) -> None:
        raise MemoryError

    async def later(answer: Any) -> Any:
        await asyncio.sleep(0)
        if where == "handler":
            raise MemoryError
        if where == "cancelled":
            raise asyncio.CancelledError
        return answer

    def dispatch(_connection: Connection, buffer: memoryview, start: int, end: int) -> Any:
        is_first = bytes(buffer[start:end]) == b"first"
        if is_first and where != "turn":
            return later(b"" if where == "kept request" else [b"answer"])
        return [b"answer"]

    monkeypatch.setattr(PlainChannel, "send", fail)
    line = open_line(dispatch)
    await line.send(frame(b"first") + frame(b"second"))

    assert await line.receive(1) == b""
    assert line.forgotten == [line.connection]
    ends = await asyncio.gather(*line.tasks, return_exceptions=True)
    assert not any(isinstance(each, Exception) for each in ends)
    kinds = [type(each) for each in line.faults]
    assert kinds == ([] if where == "cancelled" else [MemoryError])
    assert line.buffers.received_bytes == 0


async def test_a_refused_request_closes_after_earlier_answers(open_line: Opener) -> None:
    """Requests before the bad frame are still answered."""

    def dispatch(connection: Connection, buffer: memoryview, start: int, end: int) -> bytes:
        if bytes(buffer[start:end]) == b"bad":
            raise ProtocolError("reason=bad")
        return echo(connection, buffer, start, end)

    line = open_line(dispatch)
    await line.send(frame(b"good") + frame(b"bad") + frame(b"never"))

    assert await line.receive(100) == b"good"


async def test_a_refusal_waits_for_earlier_answers(open_line: Opener) -> None:
    """They are more than the socket takes at once: the client gets all of them before the end."""
    answer = bytes(SHARED_BYTES - 1)

    def dispatch(_connection: Connection, buffer: memoryview, start: int, end: int) -> Any:
        if bytes(buffer[start:end]) == b"bad":
            raise ProtocolError("no request")
        return answer

    line = open_line(dispatch)
    await line.send(frame(b"good") + frame(b"bad"))

    assert await line.receive(len(answer) + 1) == answer
    assert line.connection.is_closed


async def test_a_client_that_does_not_read_is_not_read_from(open_line: Opener) -> None:
    """Requests behind an answer that does not leave stay unserved, and are served later."""
    served = 0

    def dispatch(*_: Any) -> bytes:
        nonlocal served
        served += 1
        return bytes(4_000_000)

    line = open_line(dispatch)
    await line.send(frame(b"1"))
    for number in range(10):
        await line.send(frame(bytes([number])))
        await asyncio.sleep(0)
    served_before = served
    received = 0
    while received < 44_000_000:
        received += len(await line.receive(1_000_000))

    assert served_before <= 2
    assert served == 11


async def test_draining_answers_what_is_owed_and_closes(open_line: Opener) -> None:
    """A graceful stop waits for the answer, then the stream ends."""
    gate = asyncio.Event()

    async def later() -> bytes:
        await gate.wait()
        return b"done"

    line = open_line(lambda *_: later())
    await line.send(frame(b"x") + frame(b"y"))
    await line.started.wait()
    line.connection.drain()
    gate.set()

    assert await line.receive(100) == b"done"
    assert line.connection.is_closed


def throttled(seconds: float) -> Callable[..., Any]:
    """Return a dispatcher that has the client wait after its first request."""
    served: list[bytes] = []

    def dispatch(connection: Connection, buffer: memoryview, start: int, end: int) -> Any:
        body = bytes(buffer[start:end])
        served.append(body)

        async def tell() -> bytes:
            connection.throttle(seconds)
            return body

        return tell() if len(served) == 1 else body

    return dispatch


async def test_a_throttled_client_has_its_answer_at_once_and_the_next_one_later(
    open_line: Opener,
) -> None:
    """KIP-219: what it sent meanwhile, in the same packet or after, is served when time is up."""
    line = open_line(throttled(0.1))
    loop = asyncio.get_running_loop()
    began = loop.time()
    await line.send(frame(b"first") + frame(b"second"))
    assert await line.receive(5) == b"first"
    await line.send(frame(b"third"))

    assert await line.receive(11) == b"secondthird"
    assert loop.time() - began >= 0.1


async def test_a_muted_connection_is_neither_idle_nor_the_clients_turn(open_line: Opener) -> None:
    """It is the broker that makes it wait, for a time that it knows."""
    line = open_line(throttled(3600))
    await line.send(frame(b"first"))
    assert await line.receive(5) == b"first"

    assert not line.connection.is_idle
    assert not line.connection.is_stalled
    assert not line.connection.is_its_turn


@pytest.mark.parametrize("ends", ["drain", "close"])
async def test_a_muted_connection_ends_at_once(open_line: Opener, ends: str) -> None:
    """A stop does not wait for it: its answers have left."""
    line = open_line(throttled(3600))
    await line.send(frame(b"first"))
    assert await line.receive(5) == b"first"
    getattr(line.connection, ends)()

    assert line.forgotten == [line.connection]
    assert await line.receive(1) == b""


async def test_an_answer_that_is_not_taken_keeps_its_connection_muted(open_line: Opener) -> None:
    """The wait begins when the answer is handed over; its last byte does not end it."""
    size = 4 << 20

    def dispatch(connection: Connection, buffer: memoryview, start: int, end: int) -> Any:
        is_first = bytes(buffer[start:end]) == b"first"

        async def tell() -> bytes:
            connection.throttle(3600)
            return bytes(size)

        return tell() if is_first else b"second"

    line = open_line(dispatch)
    await line.send(frame(b"first") + frame(b"second"))

    assert len(await line.receive(size)) == size
    assert not line.connection.is_its_turn
    with pytest.raises(BlockingIOError):
        line.client.recv(1)

"""The HTTP port: pages, plain refusals, limits of size and time, keep-alive."""

import asyncio
import errno
import logging
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, cast

import pytest

from siltstone.broker.http import server as http_server
from siltstone.broker.http.connection import is_ours
from siltstone.broker.http.control import channel
from siltstone.broker.http.control.channel import ControlChannel
from siltstone.broker.http.control.token import read_address
from siltstone.broker.http.server import HttpServer, Routes
from siltstone.broker.http.values import (
    Admission,
    HttpLimits,
    HttpRequest,
    HttpResponse,
    Route,
    text,
)
from siltstone.broker.process import sockets
from siltstone.broker.process.bounded_lines import MAX_PER_SECOND
from tests.support.http_client import ask, exchange, having, parse
from tests.support.ports import address_of
from tests.support.running import running
from tests.support.waiting import at_least, equals, give_turns_until

LIMITS = HttpLimits(
    head_bytes=2000,
    body_bytes=1000,
    stranger_body_bytes=1000,
    head_seconds=0.1,
    request_seconds=0.1,
    idle_seconds=0.1,
    connections=3,
)


async def hello(request: HttpRequest) -> HttpResponse:
    """Tell what was asked."""
    return text(200, f"{request.method} {request.path} {request.query} {len(request.body)}")


async def pieces(_request: HttpRequest) -> HttpResponse:
    """Answer in three pieces."""

    async def body() -> AsyncIterator[bytes]:
        for piece in (b"one ", b"two ", b"three"):
            yield piece

    return HttpResponse(body=body())


async def broken(_request: HttpRequest) -> HttpResponse:
    """Fail as a page with a bug does."""
    raise RuntimeError("a bug in a page")


ROUTES = (
    Route("GET", "/hello", hello),
    Route("POST", "/change", hello),
    Route("GET", "/pieces", pieces),
    Route("GET", "/broken", broken),
)


@pytest.fixture
async def port() -> AsyncIterator[int]:
    """The port of a server with small limits."""
    server = HttpServer(having(ROUTES), LIMITS)
    ((_, port),) = await server.start("127.0.0.1", 0)
    yield port
    await server.close()

    assert server.connections == 0


async def test_get_is_answered(port: int) -> None:
    """A page sees method, path, query and body."""
    answer = await ask(port, "/hello?a=b")

    assert (answer.status, answer.body) == (200, b"GET /hello a=b 0\n")


async def test_post_brings_its_body(port: int) -> None:
    """A request's body arrives whole."""
    answer = await ask(port, "/change", "POST", body=b"x" * 1000)

    assert (answer.status, answer.body) == (200, b"POST /change  1000\n")


async def test_head_is_get_without_a_body(port: int) -> None:
    """HEAD answers the length of GET and no byte of it."""
    answer = await ask(port, "/hello", "HEAD")

    assert answer.status == 200
    assert answer.headers["content-length"] == str(len("HEAD /hello  0\n"))
    assert answer.body == b""


async def test_pieces_are_chunked(port: int) -> None:
    """An answer without a known length is chunked for HTTP/1.1."""
    answer = await ask(port, "/pieces")

    assert answer.headers["transfer-encoding"] == "chunked"
    assert answer.body == b"one two three"


async def test_pieces_end_with_the_connection_for_http_1_0(port: int) -> None:
    """HTTP/1.0 knows no chunks: the end of the connection is the end of the answer."""
    answer = parse(await exchange(port, b"GET /pieces HTTP/1.0\r\n\r\n"))

    assert "transfer-encoding" not in answer.headers
    assert answer.body == b"one two three"


async def test_head_of_pieces_makes_none(port: int) -> None:
    """HEAD of a page in pieces sends the head alone."""
    answer = await exchange(
        port, b"HEAD /pieces HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"
    )

    assert answer.endswith(b"\r\n\r\n")


async def test_connection_is_kept_for_the_next_request(port: int) -> None:
    """Two requests sent at once are answered in turn on one connection."""
    first = b"GET /hello?1 HTTP/1.1\r\nHost: localhost\r\n\r\n"
    second = b"GET /hello?2 HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"

    answer = await exchange(port, first + second)

    assert answer.index(b"GET /hello 1 0") < answer.index(b"GET /hello 2 0")


async def test_unknown_page_names_the_known_ones(port: int) -> None:
    """A 404 says which pages there are."""
    answer = await ask(port, "/nope")

    assert answer.status == 404
    assert b"/hello" in answer.body


async def test_wrong_method_names_the_right_one(port: int) -> None:
    """A 405 says what the page answers."""
    answer = await ask(port, "/change")

    assert (answer.status, answer.headers["allow"]) == (405, "POST")
    assert answer.body == b"/change answers POST, not GET\n"


async def test_fault_of_a_page_is_a_500_and_a_traceback(
    port: int, caplog: pytest.LogCaptureFixture
) -> None:
    """A bug in a page is logged once and does not end the server."""
    answer = await ask(port, "/broken")

    assert answer.status == 500
    assert "a bug in a page" in caplog.text
    assert (await ask(port, "/hello")).status == 200


async def test_garbage_is_refused_in_a_sentence(port: int) -> None:
    """Bytes that are not HTTP get a 400 and a closed connection."""
    answer = parse(await exchange(port, b"\x16\x03\x01\x02\x00 hello\r\n\r\n"))

    assert answer.status == 400
    assert b"not a request that is served here" in answer.body


async def test_long_head_is_refused(port: int) -> None:
    """A head above the limit gets a 431, not memory."""
    head = b"GET /hello HTTP/1.1\r\nHost: localhost\r\nX: " + b"x" * 200_000

    assert parse(await exchange(port, head)).status == 431


@pytest.mark.parametrize("framing", ["Content-Length: 5000", "Transfer-Encoding: chunked"])
async def test_long_body_is_refused(port: int, framing: str) -> None:
    """A body above the limit gets a 413, announced or not."""
    data = b"x" * 5000
    body = data if "Length" in framing else b"%x\r\n%s\r\n0\r\n\r\n" % (len(data), data)
    head = f"POST /change HTTP/1.1\r\nHost: localhost\r\n{framing}\r\n\r\n"

    answer = parse(await exchange(port, head.encode() + body))

    assert (answer.status, answer.body) == (413, b"a request body has at most 1000 bytes here\n")


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        (b"Host: evil.example", b"421"),
        (b"Host: localhost\r\nContent-Length: 2\r\nTransfer-Encoding: chunked", b"400"),
        (b"Host: localhost\r\nContent-Length: 2000", b"413"),
    ],
)
async def test_a_refused_head_has_no_body(
    port: int, caplog: pytest.LogCaptureFixture, headers: bytes, status: bytes
) -> None:
    """It is answered as a HEAD, and what refuses it leaves no traceback in the log."""
    caplog.set_level("INFO")
    asked = b"HEAD /hello HTTP/1.1\r\n%b\r\n\r\n%b" % (headers, b"x" * 2000)
    head, _, body = (await exchange(port, asked)).partition(b"\r\n\r\n")

    assert head.startswith(b"HTTP/1.1 " + status)
    assert body == b""
    assert not [each for each in caplog.records if each.exc_info]


async def test_slow_request_is_given_up(port: int) -> None:
    """A client that does not finish its request is told so and closed."""
    answer = parse(await exchange(port, b"GET /hello HTTP/1.1\r\nHost:"))

    assert answer.status == 408


async def test_silent_connection_is_closed(port: int) -> None:
    """A connection without a request is closed after the idle time."""
    assert await exchange(port, b"") == b""


async def test_half_a_request_and_gone(port: int, caplog: pytest.LogCaptureFixture) -> None:
    """A client that leaves in the middle of a request is closed without a word."""
    answer = await exchange(port, b"GET /hello HTTP/1.1\r\nHo", half_close=True)

    assert answer == b""
    assert not caplog.records


async def test_expected_100_is_sent(port: int) -> None:
    """A client that waits for leave to send its body gets it."""
    head = (
        b"POST /change HTTP/1.1\r\nHost: localhost\r\nContent-Length: 2\r\n"
        b"Expect: 100-continue\r\nConnection: close\r\n\r\n"
    )

    assert b"100" in (await exchange(port, head, half_close=True)).split(b"\r\n")[0]


async def test_connections_are_bounded() -> None:
    """One connection more than the limit is told to come back."""
    server = HttpServer(having(ROUTES), HttpLimits(connections=0, spare=0))
    ((_, port),) = await server.start("127.0.0.1", 0)

    assert (await exchange(port, b"")).startswith(b"HTTP/1.1 503")
    await server.close()


class Slow:
    """A client that sends what it is told, and whose connection stays."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer

    async def is_closed(self) -> bool:
        """Wait for the end of the stream."""
        with suppress(ConnectionResetError):
            assert not await self.reader.read()
        return True


@asynccontextmanager
async def slow(
    server: HttpServer, port: int, sent: bytes, count: int, *, others: int = 0
) -> AsyncIterator[list[Slow]]:
    """Clients that have sent something, each served before the next one comes."""
    clients = []
    for number in range(count):
        client = Slow(*await asyncio.open_connection("127.0.0.1", port))
        clients.append(client)
        client.writer.write(sent)
        await give_turns_until(
            lambda: server.connections, f"connection {number + 1}", at_least(others + number + 1)
        )
    yield clients
    for client in clients:
        client.writer.close()


@asynccontextmanager
async def patient(**limits: Any) -> AsyncIterator[tuple[HttpServer, int]]:
    """A server that waits for a minute for a slow client, and takes three clients."""
    seconds = dict.fromkeys(("head_seconds", "request_seconds", "idle_seconds"), 60.0)
    server = HttpServer(having(ROUTES), HttpLimits(**{"connections": 3, **seconds, **limits}))
    ((_, port),) = await server.start("127.0.0.1", 0)
    yield server, port
    await server.close()


@pytest.mark.parametrize("sent", [b"", b"GET /hello HT", b"POST /change HTTP/1.1\r\n"])
async def test_silent_clients_make_room(sent: bytes) -> None:
    """Where all places are taken, the client goes that has kept us waiting longest."""
    async with patient() as (server, port), slow(server, port, sent, 3) as clients:
        assert (await ask(port, "/hello")).status == 200

        assert await clients[0].is_closed()
        assert not clients[1].reader.at_eof()
        assert not clients[2].reader.at_eof()


async def test_a_machine_with_many_clients_takes_places_from_itself() -> None:
    """A client of another address, which came first, keeps its own."""
    async with patient() as (server, port):
        streams = await asyncio.open_connection("127.0.0.1", port, local_addr=("127.0.0.2", 0))
        await give_turns_until(lambda: server.connections, "the first", equals(1))
        async with slow(server, port, b"", 2, others=1) as clients:
            assert (await ask(port, "/hello")).status == 200

            assert await clients[0].is_closed()
            assert not streams[0].at_eof()
        streams[1].write(b"GET /hello HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
        assert parse(await streams[0].read()).status == 200
        streams[1].close()


async def test_clients_that_come_at_once_make_room_too() -> None:
    """More than there are places, before any of them is served: none stays open beyond those."""
    async with patient() as (_, port):
        clients = [socket.create_connection(("127.0.0.1", port)) for _ in range(50)]
        assert (await ask(port, "/hello")).status == 200
        still_open = 0
        for client in clients:
            client.setblocking(False)
            try:
                client.recv(1)
            except BlockingIOError:
                still_open += 1
            except ConnectionResetError:
                pass
            client.close()

        assert still_open <= 3


async def test_who_is_owed_an_answer_keeps_its_place() -> None:
    """A client that waits for us never makes room; one more is told to come back."""
    go_on = asyncio.Event()
    asked = 0

    async def wait(_request: HttpRequest) -> HttpResponse:
        nonlocal asked
        asked += 1
        await go_on.wait()
        return text(200, "at last")

    server = HttpServer(having([Route("GET", "/slow", wait)]), HttpLimits(connections=2, spare=0))
    ((_, port),) = await server.start("127.0.0.1", 0)
    request = b"GET /slow HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"
    async with slow(server, port, request, 2) as owed:
        await give_turns_until(lambda: asked, "two questions", equals(2))

        assert (await exchange(port, b"")).startswith(b"HTTP/1.1 503")
        go_on.set()
        for each in owed:
            assert (await each.reader.read()).endswith(b"at last\n")
    await server.close()


async def test_who_waits_for_an_answer_that_is_held_back_makes_room() -> None:
    """As after a wrong password: a stranger takes no place from others by it."""

    async def refuse(request: HttpRequest) -> HttpResponse | None:
        return replace(text(401, "no"), after_seconds=60) if request.path == "/x" else None

    server = HttpServer(having([]), HttpLimits(connections=1, spare=0), Admission(refuse=refuse))
    ((_, port),) = await server.start("127.0.0.1", 0)
    request = b"GET /x HTTP/1.1\r\nHost: localhost\r\n\r\n"
    async with slow(server, port, request, 1) as (stranger,):
        asked = partial(ask, port, "/nope")

        async def is_served() -> bool:
            return (await asked()).status == 404

        await give_turns_until(is_served, "an answer for another client")
        assert await stranger.is_closed()
    await server.close()


async def test_who_does_not_take_an_answer_makes_room() -> None:
    """Nor does a client keep its place, and what was made for it, by not reading."""

    async def large(_request: HttpRequest) -> HttpResponse:
        return HttpResponse(body=b"x" * (64 << 20))

    server = HttpServer(
        having([Route("GET", "/x", large)]), HttpLimits(connections=1, send_seconds=60)
    )
    ((_, port),) = await server.start("127.0.0.1", 0)
    request = b"GET /x HTTP/1.1\r\nHost: localhost\r\n\r\n"
    async with slow(server, port, request, 1) as (client,):
        assert await client.reader.readexactly(8) == b"HTTP/1.1"

        assert (await ask(port, "/nope")).status == 404
    await server.close()


class Begun:
    """A double that does handshakes: it notes the sockets that it gets."""

    def __init__(self) -> None:
        self.open: list[socket.socket] = []

    def begin(self, sock: socket.socket, *_: object) -> None:
        """Note it."""
        self.open.append(sock)

    def close(self) -> None:
        """Close all."""
        for each in self.open:
            each.close()


async def test_without_descriptors_the_encrypted_port_pauses(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """The kernel reports the client again at once, so that the loop would do nothing else."""
    monkeypatch.setattr(http_server, "PAUSE_SECONDS", 0.01)

    failures = [OSError(errno.EMFILE, "Too many open files") for _ in range(3)]
    accept = sockets.accept

    def accept_later(listening: socket.socket) -> tuple[int, Any]:
        if failures:
            raise failures.pop()
        return accept(listening)

    monkeypatch.setattr(sockets, "accept", accept_later)
    handshakes: Any = Begun()
    server = HttpServer(having([]), encryption=(handshakes, None))  # type: ignore[arg-type]
    ((_, port),) = await server.start("127.0.0.1", 0)
    _, writer = await asyncio.open_connection("127.0.0.1", port)
    await give_turns_until(lambda: handshakes.open, "a handshake")
    writer.close()
    await server.close()

    assert sum("cannot accept listener=http" in each for each in caplog.messages) == 3


async def test_the_first_request_is_not_waited_for_as_long_as_the_next() -> None:
    """A scraper keeps its connection for minutes, a client that says nothing for seconds."""
    async with patient(head_seconds=0.05) as (_, port):
        assert await exchange(port, b"") == b""
        answer = parse(await exchange(port, b"GET /hello HTTP/1.1\r\nHost: loc"))

    assert answer.status == 408


@pytest.mark.parametrize("path", ["/hello", "/pieces"])
@pytest.mark.parametrize("host", ["evil.example", "evil.example:80", "localhost.evil.example", "x"])
async def test_a_host_that_is_not_ours_is_refused(port: int, path: str, host: str) -> None:
    """A web page that had its name resolve to us reads nothing of ours."""
    answer = parse(await exchange(port, f"GET {path} HTTP/1.1\r\nHost: {host}\r\n\r\n".encode()))

    assert answer.status == 421
    assert b"add the name to http.allowed.hosts" in answer.body


@pytest.mark.parametrize(
    ("host", "names", "ours"),
    [
        ("127.0.0.1:9464", (), True),
        ("192.0.2.7", (), True),
        ("[::1]:9464", (), True),
        ("localhost:9464", (), True),
        ("LOCALHOST.", (), True),
        ("", (), True),
        (":9464", (), True),
        ("siltstone:9464", ("siltstone",), True),
        ("Siltstone.:9464", ("siltstone",), True),
        ("siltstone:9464", (), False),
        ("siltstone.evil.example", ("siltstone",), False),
        ("127.0.0.1.evil.example", (), False),
        ("127.0.0.1\x00.evil.example", (), False),
        ("evil.example", ("*",), True),
    ],
)
def test_names_of_ours(host: str, names: tuple[str, ...], ours: bool) -> None:
    """Addresses and localhost always, other names when they are known."""
    assert is_ours(host, names) is ours


async def test_the_token_stands_for_the_host_and_for_a_long_body() -> None:
    """A client that has it is no web page; without it, a body has a few kilobytes."""
    admission = Admission(is_trusted=lambda headers: headers.get(b"authorization") == b"t")
    limits = HttpLimits(body_bytes=1000, stranger_body_bytes=10)
    server = HttpServer(having(ROUTES), limits, admission)
    ((_, port),) = await server.start("127.0.0.1", 0)
    head = b"POST /change HTTP/1.1\r\nHost: evil.example\r\nAuthorization: t\r\n"
    body = b"Connection: close\r\nContent-Length: 1000\r\n\r\n" + b"x" * 1000

    assert parse(await exchange(port, head + body)).status == 200
    assert (await ask(port, "/change", "POST", body=b"x" * 11)).status == 413
    await server.close()


@pytest.mark.parametrize(
    "head",
    [
        b"POST /change HTTP/1.1\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n",
        b"POST /change HTTP/1.1\r\nTransfer-Encoding: chunked\r\nContent-Length: 0\r\n",
        b"POST /change HTTP/1.0\r\nTransfer-Encoding: chunked\r\n",
    ],
)
async def test_a_body_with_two_ends_is_refused(port: int, head: bytes) -> None:
    """A proxy could take the other one for the end, and what follows for a request."""
    smuggled = b"0\r\n\r\nGET /hello HTTP/1.1\r\nHost: localhost\r\n\r\n"

    answer = await exchange(port, head + b"Host: localhost\r\n\r\n" + smuggled)

    assert parse(answer).status == 400
    assert parse(answer).headers["connection"] == "close"
    assert b"HTTP/1.1 200" not in answer


async def test_silent_clients_do_not_make_a_broker_unhealthy(tmp_path: Path) -> None:
    """As many strangers as there are places, and more, hold up neither /healthz nor /readyz."""
    async with running(tmp_path, "advertised.listeners=PLAINTEXT://kafka.example:9092"):
        address = read_address(tmp_path)
        assert address is not None
        _, port = address_of(address)
        silent = [await asyncio.open_connection("127.0.0.1", port) for _ in range(200)]

        for page in ("/healthz", "/readyz", "/metrics"):
            assert (await ask(port, page)).status == 200
        named = b"GET /healthz HTTP/1.1\r\nHost: %s\r\nConnection: close\r\n\r\n"
        assert parse(await exchange(port, named % b"kafka.example:9464")).status == 200
        assert parse(await exchange(port, named % b"evil.example:9464")).status == 421
        for _, writer in silent:
            writer.close()


async def test_clients_that_pipeline_scrapes_do_not_hold_up_health(tmp_path: Path) -> None:
    """A hundred ask for twenty each; every question for health is answered in a few turns."""
    scrapes = b"GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n" * 20
    turn = 0

    async def count() -> None:
        nonlocal turn
        while True:
            turn += 1
            await asyncio.sleep(0)

    async def attack(port: int) -> None:
        while True:
            with suppress(OSError):
                reader, writer = await asyncio.open_connection("127.0.0.1", port)
                try:
                    writer.write(scrapes)
                    while await reader.read(65_536):
                        pass
                finally:
                    writer.transport.abort()
            await asyncio.sleep(0.001)

    async with running(tmp_path):
        address = read_address(tmp_path)
        assert address is not None
        _, port = address_of(address)
        assert (await ask(port, "/metrics")).status == 200
        # The disk is tried now, which takes a thread its time, and is not asked again for a while.
        assert (await ask(port, "/healthz")).status == 200
        beside = [asyncio.create_task(attack(port)) for _ in range(100)]
        beside.append(asyncio.create_task(count()))
        taken = []
        for _ in range(20):
            for _ in range(20):
                await asyncio.sleep(0)
            began = turn
            taken.append(((await ask(port, "/healthz")).status, turn - began))
        for each in beside:
            each.cancel()
        await asyncio.wait(beside)

    assert {status for status, _ in taken} == {200}
    assert max(turns for _, turns in taken) < 300, taken


async def test_a_spare_place_is_for_one_urgent_page() -> None:
    """While all places are taken, any other page is refused, and the connection closed."""
    release = asyncio.Event()
    served = []

    async def wait(request: HttpRequest) -> HttpResponse:
        served.append(request)
        await release.wait()
        return text(200, "late")

    routes = [Route("GET", "/slow", wait), Route("GET", "/health", hello, is_urgent=True)]
    server = HttpServer(having(routes), HttpLimits(connections=2, spare=1))
    ((_, port),) = await server.start("127.0.0.1", 0)
    kept = [asyncio.create_task(ask(port, "/slow")) for _ in range(2)]
    await give_turns_until(lambda: len(served), "two that are served", equals(2))
    head = b"GET %s HTTP/1.1\r\nHost: localhost\r\n\r\n"

    _, silent = await asyncio.open_connection("127.0.0.1", port)
    await give_turns_until(lambda: server.connections, "three connections", equals(3))
    urgent = parse(await exchange(port, head % b"/health" * 2))
    other = parse(await exchange(port, head % b"/slow"))
    release.set()

    assert (urgent.status, urgent.headers["connection"]) == (200, "close")
    assert (other.status, other.headers["connection"]) == (503, "close")
    assert [each.status for each in await asyncio.gather(*kept)] == [200, 200]
    silent.close()
    await server.close()


async def test_the_pages_come_with_the_first_connection() -> None:
    """Before that they take no memory; their reader waits for them, and nobody else."""
    loaded = asyncio.Event()
    asked: list[int] = []

    async def find() -> Routes:
        asked.append(len(asked))
        await loaded.wait()
        return Routes(ROUTES)

    server = HttpServer(find)
    ((_, port),) = await server.start("127.0.0.1", 0)
    assert not asked

    first, second = (asyncio.create_task(ask(port, "/hello")) for _ in range(2))
    await give_turns_until(lambda: len(asked), "two that wait", equals(2))
    loaded.set()

    assert [(await each).status for each in (first, second)] == [200, 200]
    await server.close()


async def test_pages_that_cannot_be_made_are_told_in_the_log(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """The reader finds the connection closed, and the operator why; the place is free again."""

    async def find() -> Routes:
        raise ImportError("no descriptors are left")

    server = HttpServer(find)
    ((_, port),) = await server.start("127.0.0.1", 0)
    with suppress(OSError):
        assert await exchange(port, b"GET / HTTP/1.1\r\n\r\n") == b""
    await give_turns_until(lambda: server.connections, "its place is free", equals(0))

    assert "an HTTP connection failed others=0" in caplog.messages
    await server.close()


async def test_refusals_do_not_fill_the_log(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Of requests that are no HTTP, of changes without the token, and of pages that fail."""
    caplog.set_level(logging.INFO)
    for module in (http_server, channel):
        monkeypatch.setattr(module, "perf_counter", lambda: 100.0)
    control = ControlChannel(lambda _: False, cast("Any", None), lambda: cast("Any", None), list)
    server = HttpServer(having([*ROUTES, *control.routes()]))
    ((_, port),) = await server.start("127.0.0.1", 0)
    for _ in range(MAX_PER_SECOND + 5):
        await exchange(port, b"no HTTP\r\n\r\n")
        assert (await ask(port, "/v1/flush", method="POST")).status == 401
        assert (await ask(port, "/broken")).status == 500
    await server.close()

    for kind, count in (("HTTP request", MAX_PER_SECOND), ("the token", 1), ("page failed", 1)):
        assert sum(kind in each for each in caplog.messages) == count

"""The HTTP port: pages, plain refusals, limits of size and time, keep-alive."""

from collections.abc import AsyncIterator, Awaitable, Callable

import pytest

from broker.http import (
    HttpLimits,
    HttpRequest,
    HttpResponse,
    HttpServer,
    Route,
    split_address,
    text,
)
from tests.support.http_client import ask, exchange, parse

LIMITS = HttpLimits(
    head_bytes=2000, body_bytes=1000, request_seconds=0.1, idle_seconds=0.1, connections=3
)
Start = Callable[..., Awaitable[int]]


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
    server = HttpServer(ROUTES, LIMITS)
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
    answer = await exchange(port, b"HEAD /pieces HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")

    assert answer.endswith(b"\r\n\r\n")


async def test_connection_is_kept_for_the_next_request(port: int) -> None:
    """Two requests sent at once are answered in turn on one connection."""
    first = b"GET /hello?1 HTTP/1.1\r\nHost: x\r\n\r\n"
    second = b"GET /hello?2 HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"

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
    head = b"GET /hello HTTP/1.1\r\nHost: x\r\nX: " + b"x" * 200_000

    assert parse(await exchange(port, head)).status == 431


@pytest.mark.parametrize("framing", ["Content-Length: 5000", "Transfer-Encoding: chunked"])
async def test_long_body_is_refused(port: int, framing: str) -> None:
    """A body above the limit gets a 413, announced or not."""
    data = b"x" * 5000
    body = data if "Length" in framing else b"%x\r\n%s\r\n0\r\n\r\n" % (len(data), data)
    head = f"POST /change HTTP/1.1\r\nHost: x\r\n{framing}\r\n\r\n"

    answer = parse(await exchange(port, head.encode() + body))

    assert (answer.status, answer.body) == (413, b"a request body has at most 1000 bytes here\n")


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
        b"POST /change HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n"
        b"Expect: 100-continue\r\nConnection: close\r\n\r\n"
    )

    assert b"100" in (await exchange(port, head, half_close=True)).split(b"\r\n")[0]


async def test_connections_are_bounded() -> None:
    """One connection more than the limit is told to come back."""
    server = HttpServer(ROUTES, HttpLimits(connections=0))
    ((_, port),) = await server.start("127.0.0.1", 0)

    assert (await exchange(port, b"")).startswith(b"HTTP/1.1 503")
    await server.close()


@pytest.mark.parametrize(
    ("address", "expected"),
    [("127.0.0.1:0", ("127.0.0.1", 0)), ("[::1]:9464", ("::1", 9464)), (":80", ("", 80))],
)
def test_address_is_split(address: str, expected: tuple[str, int]) -> None:
    """An IPv6 host stands in brackets; no host is every address."""
    assert split_address(address) == expected


@pytest.mark.parametrize("address", ["localhost", "host:port", "host:70000", "host:-1", "h:²"])
def test_address_without_a_port_is_refused(address: str) -> None:
    """The sentence shows how an address is written."""
    with pytest.raises(ValueError, match=r"write 127\.0\.0\.1:9464"):
        split_address(address)

"""A raw HTTP client, which sends exactly the bytes of the test."""

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from typing import NamedTuple

from siltstone.broker.http.server import Routes
from siltstone.broker.http.values import Route


class Answer(NamedTuple):
    """Status, headers with names in lower case, and the body as it came over the wire."""

    status: int
    headers: dict[str, str]
    body: bytes


def having(routes: Iterable[Route]) -> Callable[[], Awaitable[Routes]]:
    """Return a function that gives a server its pages."""
    pages = Routes(routes)

    async def find() -> Routes:
        return pages

    return find


async def exchange(port: int, sent: bytes, *, half_close: bool = False) -> bytes:
    """Send bytes and return everything until the server closes."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(sent)
    if half_close:
        writer.write_eof()
    answer = await reader.read(-1)
    writer.close()
    return answer


async def ask(
    port: int, target: str, method: str = "GET", *, body: bytes = b"", headers: str = ""
) -> Answer:
    """Send one request and return the only answer."""
    head = (
        f"{method} {target} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n"
        f"Content-Length: {len(body)}\r\n{headers}\r\n"
    )
    return parse(await exchange(port, head.encode() + body))


def parse(answer: bytes) -> Answer:
    """Split one answer; a chunked body is put together."""
    head, _, body = answer.partition(b"\r\n\r\n")
    status_line, *lines = head.decode().split("\r\n")
    headers = {}
    for line in lines:
        name, _, value = line.partition(":")
        headers[name.lower()] = value.strip()
    if headers.get("transfer-encoding") == "chunked":
        body = b"".join(_chunks(body))
    return Answer(int(status_line.split()[1]), headers, body)


def _chunks(body: bytes) -> list[bytes]:
    chunks = []
    while body:
        size_line, _, body = body.partition(b"\r\n")
        size = int(size_line, 16)
        if size == 0:
            break
        chunks.append(body[:size])
        body = body[size + 2 :]
    return chunks

"""The one HTTP port: metrics, health and the control channel, served on the event loop.

Strategy: asyncio streams carry bytes, h11 (``broker.http_connection``) knows the protocol, a table
of routes knows the pages. Nothing runs in threads; a long answer is an asynchronous iterator of
pieces of about a millisecond each, so that a scrape never holds up a produce request. h11 and the
pages are imported by the first connection or by ``preload``, not before the broker is ready.
"""

from __future__ import annotations

import asyncio
import json
import logging
from dataclasses import dataclass, field
from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator, Mapping

logger = logging.getLogger(__name__)

PLAIN = "text/plain; charset=utf-8"
JSON = "application/json"
_MODULES = (
    "h11",
    "broker.http_connection",
    "broker.control",
    "broker.control_cleaner",
    "broker.control_pins",
    "broker.explaining",
    "broker.metrics",
    "broker.pages",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpLimits:
    """What one client may cost: sizes in bytes, times in seconds.

    ``idle_seconds`` is longer than the usual scrape interval, so that a scraper keeps its
    connection; ``request_seconds`` counts from the first byte of a request to its last.
    """

    head_bytes: int = 16 * 1024
    body_bytes: int = 1024 * 1024
    request_seconds: float = 10.0
    send_seconds: float = 10.0
    idle_seconds: float = 120.0
    connections: int = 64


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpRequest:
    """A whole request; header names are in lower case, ``query`` is what follows ``?``."""

    method: str
    path: str
    query: str = ""
    headers: Mapping[bytes, bytes] = field(default_factory=dict)
    body: bytes = b""
    peer: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpResponse:
    """An answer; an iterator as ``body`` is sent piece by piece as it is made."""

    status: int = 200
    body: bytes | AsyncIterator[bytes] = b""
    content_type: str = PLAIN
    headers: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class Route:
    """One page: GET (which also answers HEAD) or POST on an exact path."""

    method: str
    path: str
    handle: Callable[[HttpRequest], Awaitable[HttpResponse]]


def text(status: int, sentence: str, *headers: tuple[str, str]) -> HttpResponse:
    """Return one plain sentence as an answer."""
    return HttpResponse(status=status, body=f"{sentence}\n".encode(), headers=headers)


def json_answer(value: object, status: int = 200) -> HttpResponse:
    """Return a value as an answer, indented for a person with curl."""
    body = json.dumps(value, indent=2).encode() + b"\n"
    return HttpResponse(status=status, body=body, content_type=JSON)


def split_address(address: str) -> tuple[str, int]:
    """Return host and port of ``host:port``; an IPv6 host stands in brackets.

    Raises:
        ValueError: the text has no port, or it is none.
    """
    host, colon, port = address.rpartition(":")
    if not colon or not port.isascii() or not port.isdigit() or int(port) > 65535:
        raise ValueError(f"{address!r} is not host:port; write 127.0.0.1:9464 or [::1]:9464")
    return host.removeprefix("[").removesuffix("]"), int(port)


class Routes:
    """The pages by path, and the plain sentences for whatever is none of them.

    ``routes`` is not read before the first request or ``preload``.
    """

    def __init__(self, routes: Iterable[Route]) -> None:
        self._unread = iter(routes)
        self._by_path: dict[str, dict[str, Route]] = {}

    def preload(self) -> None:
        """Read the routes, if that is not done yet."""
        for route in self._unread:
            self._by_path.setdefault(route.path, {})[route.method] = route

    async def answer(self, request: HttpRequest) -> HttpResponse:
        """Find the page and let it answer; a fault of ours becomes a 500 and a traceback."""
        self.preload()
        methods = self._by_path.get(request.path)
        if methods is None:
            pages = ", ".join(sorted(self._by_path))
            return text(404, f"there is no page {request.path!r} here; there are {pages}")
        route = methods.get("GET" if request.method == "HEAD" else request.method)
        if route is None:
            allowed = sorted([*methods, "HEAD"] if "GET" in methods else methods)
            return text(
                405,
                f"{request.path} answers {' and '.join(allowed)}, not {request.method}",
                ("Allow", ", ".join(allowed)),
            )
        try:
            return await route.handle(request)
        except Exception:
            logger.exception("an HTTP page failed path=%s peer=%s", request.path, request.peer)
            return text(500, f"{request.path} failed here; the broker's log says why")


class HttpServer:
    """Listens, counts connections and ends them all on ``close``.

    Loop only. Every connection is a task in ``_tasks``; ``close`` cancels what is left of them.
    """

    def __init__(self, routes: Iterable[Route], limits: HttpLimits | None = None) -> None:
        self._routes = Routes(routes)
        self._limits = limits or HttpLimits()
        self._tasks: set[asyncio.Task[None]] = set()
        self._server: asyncio.Server | None = None

    async def start(self, host: str, port: int) -> list[tuple[str, int]]:
        """Listen and return the addresses that are bound.

        Raises:
            OSError: the address is taken or is none of this machine.
        """
        self._server = await asyncio.start_server(self._connected, host or None, port)
        return [sock.getsockname()[:2] for sock in self._server.sockets]

    @property
    def connections(self) -> int:
        """How many clients are connected."""
        return len(self._tasks)

    def preload(self) -> Iterator[None]:
        """Import one module a step, so that no first request pays for it, and make the pages."""
        for module in _MODULES:
            import_module(module)
            yield
        self._routes.preload()

    def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if len(self._tasks) >= self._limits.connections:
            writer.write(b"HTTP/1.1 503 Busy\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
            writer.close()
            return
        task = asyncio.get_running_loop().create_task(self._serve(reader, writer))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        from broker.http_connection import HttpConnection  # noqa: PLC0415 - 11 ms, see above

        try:
            await HttpConnection(reader, writer, self._routes.answer, self._limits).run()
        except (OSError, TimeoutError) as error:
            logger.debug("an HTTP client went away reason=%r", error)
        except Exception:
            logger.exception("an HTTP connection failed")
        finally:
            writer.close()

    async def close(self) -> None:
        """Stop listening and end every connection."""
        if self._server is not None:
            self._server.close()
        await asyncio.sleep(0)  # what never begins would not close its socket either
        for task in self._tasks:
            task.cancel()
        if self._tasks:
            await asyncio.wait(self._tasks)

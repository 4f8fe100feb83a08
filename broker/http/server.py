"""The one HTTP port: metrics, health and the control channel, served on the event loop.

Asyncio streams carry the bytes, h11 (``broker.http.connection``) handles the protocol, and a table
of routes has the pages. No page runs in a thread; a long answer is an asynchronous iterator of
pieces that take about a millisecond each, so that a scrape never delays a produce request. h11 and
the pages need 2.4 MiB, so the first connection imports them, a module at a time.

Protection against strangers: when all places are taken, the server closes a connection of the
address that has the most, the one that it has waited for longest. If the server waits for none of
them, there are spare places, each for one request for an urgent page, such as health. A request
must name a host of this broker, so that no web page of another site can read these pages by DNS
rebinding. A long body is only read if the request has the control token.
"""

from __future__ import annotations

import asyncio
import logging
import socket
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from siltstone.broker.http import values
from siltstone.broker.net.sending.threads import SendingThreads
from siltstone.broker.process import sockets
from siltstone.broker.process.bounded_lines import BoundedLines
from siltstone.storage.clock import perf_counter

if TYPE_CHECKING:
    from siltstone.broker.http.tls_stream import TlsStream
    from siltstone.broker.net.tls.handshakes import Handshakes, Opened

_logger = logging.getLogger(__name__)


class Routes:
    """The pages by path, and plain sentences for any other path."""

    def __init__(self, routes: Iterable[values.Route]) -> None:
        self._by_path: dict[str, dict[str, values.Route]] = {}
        for route in routes:
            self._by_path.setdefault(route.path, {})[route.method] = route
        self._failures = BoundedLines(perf_counter, 1)

    def is_urgent(self, request: values.HttpRequest) -> bool:
        """Return whether the page must be answered even while all places are taken."""
        route = self._by_path.get(request.path, {}).get("GET")
        return route is not None and route.is_urgent

    async def answer(self, request: values.HttpRequest) -> values.HttpResponse:
        """Find the page and let it answer; a fault of the page becomes a 500 and a traceback."""
        methods = self._by_path.get(request.path)
        if methods is None:
            pages = ", ".join(sorted(self._by_path))
            return values.text(404, f"there is no page {request.path!r} here; there are {pages}")
        route = methods.get("GET" if request.method == "HEAD" else request.method)
        if route is None:
            allowed = sorted([*methods, "HEAD"] if "GET" in methods else methods)
            return values.text(
                405,
                f"{request.path} answers {' and '.join(allowed)}, not {request.method}",
                ("Allow", ", ".join(allowed)),
            )
        try:
            return await route.handle(request)
        except Exception:
            if self._failures.takes():
                others = self._failures.others()
                where = request.path, request.peer, others
                _logger.exception("an HTTP page failed path=%s peer=%s others=%d", *where)
            return values.text(500, f"{request.path} failed here; the broker's log says why")


_CLOSE = ("Connection", "close")
_BACKLOG = 128
PAUSE_SECONDS = 1.0
"""How long the encrypted port stops accepting when the process has no descriptors left."""


class HttpServer:
    """Listens, counts connections and ends them all on ``close``.

    Loop only. Every connection is a task in ``_clients``; ``close`` cancels what is left of them.
    ``find_routes`` is called for each connection, and never before the first.
    """

    def __init__(
        self,
        find_routes: Callable[[], Awaitable[Routes]],
        limits: values.HttpLimits | None = None,
        admission: values.Admission | None = None,
        encryption: tuple[Handshakes, SendingThreads] | None = None,
    ) -> None:
        self._find_routes = find_routes
        self._limits = limits or values.HttpLimits()
        self._admission = admission or values.Admission()
        self._clients: dict[asyncio.Task[None], values.Patience] = {}
        self._server: asyncio.Server | None = None
        self._encryption = encryption
        self._failures = BoundedLines(perf_counter, 1)
        self._refusals = BoundedLines(perf_counter)
        self._sockets: list[socket.socket] = []  # those of TLS

    async def start(self, host: str, port: int) -> list[tuple[str, int]]:
        """Listen and return the bound addresses.

        Raises:
            OSError: The address is taken, or this machine does not have it.
        """
        if self._encryption is not None:
            return await self._listen(self._encryption[0], host, port)
        self._server = await sockets.serve(self._connected, host, port, self._limits.read_bytes)
        return [sock.getsockname()[:2] for sock in self._server.sockets]

    async def _listen(self, handshakes: Handshakes, host: str, port: int) -> list[tuple[str, int]]:
        """Listen with sockets of our own: asyncio would do handshakes on the loop."""
        for family, address in sockets.find_addresses(host, port):
            listening = sockets.listen(family, (str(address[0]), port), _BACKLOG)
            self._sockets.append(listening)
            port = port or listening.getsockname()[1]
            self._watch(listening, handshakes)
        return [each.getsockname()[:2] for each in self._sockets]

    def _watch(self, listening: socket.socket, handshakes: Handshakes) -> None:
        """Accept connections, unless the socket was closed meanwhile."""
        file = listening.fileno()
        if file >= 0:
            loop = asyncio.get_running_loop()
            loop.add_reader(file, self._on_acceptable, listening, handshakes)

    def _on_acceptable(self, listening: socket.socket, handshakes: Handshakes) -> None:
        try:
            fileno, address = sockets.accept(listening)
        except (BlockingIOError, InterruptedError, ConnectionAbortedError):
            return
        except OSError as error:  # without descriptors the next try would fail at once, too
            _logger.warning("cannot accept listener=http reason=%s", error.strerror)
            loop = asyncio.get_running_loop()
            loop.remove_reader(listening.fileno())
            loop.call_later(PAUSE_SECONDS, self._watch, listening, handshakes)
            return
        if len(handshakes.open) >= self._limits.connections:
            handshakes.close_oldest()
        peer = address[0], address[1]
        handshakes.begin(sockets.own(fileno), f"{peer[0]}:{peer[1]}", partial(self._on_open, peer))

    def _on_open(self, peer: tuple[str, int], opened: Opened) -> None:
        from siltstone.broker.http.tls_stream import TlsStream  # noqa: PLC0415  # few encrypt

        assert self._encryption is not None  # noqa: S101  # there was a handshake
        stream = TlsStream(opened, peer, self._encryption[1])
        self._connected(stream, stream)

    def admit(self, hosts: frozenset[str]) -> None:
        """Serve requests for these hosts from now on."""
        self._admission = replace(self._admission, hosts=hosts)

    @property
    def connections(self) -> int:
        """How many clients are connected."""
        return len(self._clients)

    def _connected(
        self, reader: asyncio.StreamReader | TlsStream, writer: asyncio.StreamWriter | TlsStream
    ) -> None:
        is_spare = self._find_place()
        peer = writer.get_extra_info("peername")
        if is_spare is None:
            writer.write(b"HTTP/1.1 503 Busy\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
            writer.close()
            return
        loop = asyncio.get_running_loop()
        patience = values.Patience(loop.time(), is_spare, peer[0] if peer else "")
        task = loop.create_task(self._serve(reader, writer, patience))
        self._clients[task] = patience

        def ended(task: asyncio.Task[None]) -> None:
            # This also runs for a task that was cancelled before it began. Unsent bytes are
            # dropped: a peer that does not read them must not keep its place.
            del self._clients[task]
            writer.transport.abort()

        task.add_done_callback(ended)

    def _find_place(self) -> bool | None:
        """Return True for a spare place, False for a normal place, None if all are taken.

        To make room, a client of the address with the most connections is closed: the one that the
        server has waited for longest, and one in a spare place last. So a machine with many
        connections only displaces itself.
        """
        if len(self._clients) < self._limits.connections:
            return False
        waiting = [
            (each.is_spare, each.since, task)
            for task, each in self._clients.items()
            if each.since is not None
        ]
        usual = [each for each in waiting if not each[0]]
        if not usual and len(self._clients) < self._limits.connections + self._limits.spare:
            return True
        if not waiting:
            return None
        counts = Counter(each.host for each in self._clients.values())
        is_spare, _, oldest = min(
            usual or waiting, key=lambda each: (-counts[self._clients[each[2]].host], each[1])
        )
        self._clients[oldest].since = None  # a client that is being closed counts as room only once
        oldest.cancel()
        return is_spare

    async def _refuse(
        self, patience: values.Patience, request: values.HttpRequest
    ) -> values.HttpResponse | None:
        """Return the refusal of a request, or None; until it is known, others may take the place.

        The check of a password takes time, and a wrong password is answered late.
        """
        patience.since = asyncio.get_running_loop().time()
        refusal = await self._admission.refuse(request)
        if refusal is not None and refusal.after_seconds:
            await asyncio.sleep(refusal.after_seconds)
        patience.since = None
        return refusal

    async def _answer(
        self, routes: Routes, patience: values.Patience, request: values.HttpRequest
    ) -> values.HttpResponse:
        """Answer a request; in a spare place only one for an urgent page, and then close."""
        if patience.is_spare and not routes.is_urgent(request):
            return values.text(503, "all places are taken; ask again in a second", _CLOSE)
        refusal = await self._refuse(patience, request)
        response = await routes.answer(request) if refusal is None else refusal
        if patience.is_spare:
            return replace(response, headers=(*response.headers, _CLOSE))
        return response

    async def _serve(
        self,
        reader: asyncio.StreamReader | TlsStream,
        writer: asyncio.StreamWriter | TlsStream,
        patience: values.Patience,
    ) -> None:
        try:
            routes = await self._find_routes()

            from siltstone.broker.http.connection import HttpConnection  # noqa: PLC0415  # see above

            serve = partial(self._answer, routes, patience)
            connection = HttpConnection(
                reader, writer, serve, self._limits, self._admission, patience, self._refusals
            )
            await connection.run()
            await connection.end()
        except (OSError, TimeoutError) as error:
            _logger.debug("an HTTP client went away reason=%r", error)
        except Exception:
            if self._failures.takes():
                others = self._failures.others()
                _logger.exception("an HTTP connection failed others=%d", others)

    async def close(self) -> None:
        """Stop listening and end every connection."""
        if self._server is not None:
            self._server.close()
        for listening in self._sockets:
            asyncio.get_running_loop().remove_reader(listening.fileno())
            listening.close()
        if self._encryption is not None:
            self._encryption[0].close()
        for task in self._clients:
            task.cancel()
        if self._clients:
            await asyncio.wait(list(self._clients))

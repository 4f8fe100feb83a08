"""One HTTP/1.1 connection: h11 handles the protocol, and time-outs end slow clients.

A request is read completely, within limits of size and time, before a page gets it. If a request is
invalid, or for another host, the answer is a plain sentence and the connection is closed, after a
moment in which the peer can read the answer.
"""

from __future__ import annotations

import asyncio
import logging
import socket
from collections.abc import AsyncIterator, Container
from typing import TYPE_CHECKING

import h11

from siltstone.broker.http.values import (
    Admission,
    HttpLimits,
    HttpRequest,
    HttpResponse,
    Page,
    Patience,
    text,
)
from siltstone.broker.process.bounded_lines import BoundedLines

if TYPE_CHECKING:
    from siltstone.broker.http.tls_stream import TlsStream

_logger = logging.getLogger(__name__)

_MAX_HOST = 100  # characters of a host name in an answer and in the log
_LINGER_SECONDS = 1.0


class _Refused(Exception):  # noqa: N818 - an answer, not a fault of the broker
    """The request is refused; ``response`` tells the client why, ``reason`` the log."""

    def __init__(self, response: HttpResponse, reason: str = "") -> None:
        super().__init__(response.status)
        self.response = response
        self.reason = reason or str(response.status)


class HttpConnection:
    """Reads requests and sends their answers, one after the other, until either side closes."""

    def __init__(
        self,
        reader: asyncio.StreamReader | TlsStream,
        writer: asyncio.StreamWriter | TlsStream,
        answer: Page,
        limits: HttpLimits,
        admission: Admission,
        patience: Patience,
        refusals: BoundedLines,
    ) -> None:
        self._reader = reader
        self._writer = writer
        self._answer = answer
        self._limits = limits
        self._admission = admission
        self._patience = patience
        self._refusals = refusals
        self._loop = asyncio.get_running_loop()
        self._method = ""  # the method of the current request, once its head has come
        self._http = h11.Connection(h11.SERVER, max_incomplete_event_size=limits.head_bytes)
        peer = writer.get_extra_info("peername")
        self._peer = f"{peer[0]}:{peer[1]}" if peer else "unknown"
        self._certified: str | None = writer.get_extra_info("certified")

    async def run(self) -> None:
        """Serve until the peer leaves, breaks a rule or is too slow.

        Raises:
            OSError: the peer is gone.
            TimeoutError: it does not take its answer.
        """
        try:
            seconds = self._limits.head_seconds
            while (request := await self._receive(seconds)) is not None:
                self._patience.since = None
                await self._send(request.method, await self._answer(request))
                if self._http.our_state is not h11.DONE:
                    return
                self._http.start_next_cycle()
                self._patience.since = self._loop.time()
                seconds = self._limits.idle_seconds
        except _Refused as refused:
            if self._refusals.takes():
                fields = self._peer, self._refusals.others(), refused.reason
                _logger.info("refused an HTTP request peer=%s others=%d reason=%s", *fields)
            await self._refuse(refused.response)

    async def end(self) -> None:
        """Close after the peer has received everything.

        Raises:
            OSError: the peer is gone.
            TimeoutError: it does not take its answer.
        """
        self._patience.since = self._loop.time()
        self._writer.close()
        async with asyncio.timeout(self._limits.send_seconds):
            await self._writer.wait_closed()

    async def _receive(self, silent_seconds: float) -> HttpRequest | None:
        """Return the next complete request, or None at the end of the connection."""
        if not self._http.trailing_data[0] and not await self._fill(silent_seconds):
            return None
        try:
            async with asyncio.timeout(self._limits.head_seconds) as deadline:
                return await self._read_request(deadline)
        except h11.RemoteProtocolError as error:
            raise _Refused(
                text(error.error_status_hint, f"this is not a request that is served here: {error}")
            ) from error
        except TimeoutError as error:
            raise _Refused(text(408, "the request did not arrive in time")) from error

    async def _read_request(self, deadline: asyncio.Timeout) -> HttpRequest | None:
        head: h11.Request | None = None
        self._method = ""
        body = bytearray()
        limit = 0
        while True:
            event = self._http.next_event()
            if event is h11.NEED_DATA:
                if self._http.they_are_waiting_for_100_continue:
                    await self._write(h11.InformationalResponse(status_code=100, headers=[]))
                if not await self._fill(None) and head is None:
                    return None
            elif isinstance(event, h11.Request):
                head = event
                self._method = head.method.decode("ascii")
                limit = self._admit(head)
                deadline.reschedule(self._loop.time() + self._limits.request_seconds)
            elif isinstance(event, h11.Data):
                body += event.data
                if len(body) > limit:
                    raise _Refused(text(413, f"a request body has at most {limit} bytes here"))
            elif isinstance(event, h11.EndOfMessage) and head is not None:
                path, _, query = head.target.decode("latin-1").partition("?")
                return HttpRequest(
                    method=self._method,
                    path=path,
                    query=query,
                    headers=dict(head.headers),
                    body=bytes(body),
                    peer=self._peer,
                    certified=self._certified,
                )
            else:
                return None

    def _admit(self, head: h11.Request) -> int:
        """Return how long the body may be."""
        headers = dict(head.headers)
        if b"transfer-encoding" in headers and (
            b"content-length" in headers or head.http_version < b"1.1"
        ):
            raise _Refused(
                text(400, "send Content-Length, or with HTTP/1.1 Transfer-Encoding, and not both")
            )
        if self._admission.is_trusted(headers):
            return self._limits.body_bytes
        host = headers.get(b"host", b"").decode("latin-1")
        if not is_ours(host, self._admission.hosts):
            sentence = (
                f"{host[:_MAX_HOST]!r} is no name of this broker: ask by its address, or add the "
                "name to http.allowed.hosts"
            )
            raise _Refused(text(421, sentence), sentence)
        return self._limits.stranger_body_bytes

    async def _fill(self, seconds: float | None) -> bool:
        """Pass received bytes to h11; return whether the peer sent anything in time."""
        try:
            async with asyncio.timeout(seconds):
                data = await self._reader.read(self._limits.read_bytes)
        except TimeoutError:
            return False
        self._http.receive_data(data)
        return bool(data)

    async def _send(self, method: str, response: HttpResponse) -> None:
        headers = [("Content-Type", response.content_type), *response.headers]
        if isinstance(response.body, bytes):
            headers.append(("Content-Length", str(len(response.body))))
        if self._http.their_state is not h11.DONE:
            headers.append(("Connection", "close"))
        await self._write(h11.Response(status_code=response.status, headers=headers))
        if method != "HEAD":
            async for piece in _pieces(response.body):
                await self._write(h11.Data(data=piece))
        await self._write(h11.EndOfMessage())

    async def _write(self, event: h11.Event) -> None:
        data = self._http.send(event)
        if data:
            self._writer.write(data)
        waited = self._patience.since
        self._patience.since = self._loop.time() if waited is None else waited
        async with asyncio.timeout(self._limits.send_seconds):
            await self._writer.drain()
        self._patience.since = waited

    async def _refuse(self, response: HttpResponse) -> None:
        if self._http.our_state not in {h11.IDLE, h11.SEND_RESPONSE}:
            return
        await self._send(self._method, response)
        # Closing with unread input would reset the connection, and the peer could lose the answer.
        self._writer.write_eof()
        try:
            async with asyncio.timeout(_LINGER_SECONDS):
                while await self._reader.read(self._limits.read_bytes):
                    pass
        except TimeoutError:
            return


def is_ours(host: str, names: Container[str]) -> bool:
    """Return whether a Host header names this broker: an address, localhost or one of ``names``.

    If another site makes its name resolve to this broker, to read these pages, the browser sends
    the name of that site. A client without a Host header is no browser.
    """
    name = host.strip().lower()
    if name.startswith("["):
        return "]" in name  # brackets: an IPv6 address, not a name
    name = name.partition(":")[0].removesuffix(".")
    if not name or name == "localhost" or name.endswith(".localhost"):
        return True
    return "*" in names or name in names or _is_address(name)


def _is_address(name: str) -> bool:
    try:
        socket.inet_pton(socket.AF_INET, name)
    except (OSError, ValueError):
        return False
    return True


async def _pieces(body: bytes | AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    if isinstance(body, bytes):
        if body:
            yield body
        return
    async for piece in body:
        yield piece

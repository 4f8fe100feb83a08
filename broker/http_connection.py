"""One HTTP/1.1 conversation: h11 for the protocol, a clock against slow clients.

A request is read whole, within limits of size and time, before a page sees it. A broken one is
answered with a plain sentence and the connection is closed, after a moment in which the peer can
still read the answer.
"""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING

import h11

from broker.http import HttpRequest, HttpResponse, text

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable

    from broker.http import HttpLimits

logger = logging.getLogger(__name__)

_READ_BYTES = 64 * 1024
_LINGER_SECONDS = 1.0


class _Refused(Exception):  # noqa: N818 - an answer on its way, not a fault of ours
    """The request is not served; ``response`` says why."""

    def __init__(self, response: HttpResponse) -> None:
        super().__init__(response.status)
        self.response = response


class HttpConnection:
    """Requests in, answers out, in turn, until either side closes."""

    def __init__(
        self,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        answer: Callable[[HttpRequest], Awaitable[HttpResponse]],
        limits: HttpLimits,
    ) -> None:
        self._reader = reader
        self._writer = writer
        self._answer = answer
        self._limits = limits
        self._http = h11.Connection(h11.SERVER, max_incomplete_event_size=limits.head_bytes)
        peer = writer.get_extra_info("peername")
        self._peer = f"{peer[0]}:{peer[1]}" if peer else "unknown"

    async def run(self) -> None:
        """Serve until the peer leaves, breaks a rule or is too slow.

        Raises:
            OSError: the peer is gone.
            TimeoutError: it does not take its answer.
        """
        try:
            while (request := await self._receive()) is not None:
                await self._send(request.method, await self._answer(request))
                if self._http.our_state is not h11.DONE:
                    return
                self._http.start_next_cycle()
        except _Refused as refused:
            await self._refuse(refused.response)

    async def _receive(self) -> HttpRequest | None:
        """Return the next whole request, or None at the end of the connection."""
        if not self._http.trailing_data[0] and not await self._fill(self._limits.idle_seconds):
            return None
        try:
            async with asyncio.timeout(self._limits.request_seconds):
                return await self._read_request()
        except h11.RemoteProtocolError as error:
            raise _Refused(
                text(error.error_status_hint, f"this is not a request that is served here: {error}")
            ) from error
        except TimeoutError as error:
            seconds = self._limits.request_seconds
            raise _Refused(
                text(408, f"the request did not arrive within {seconds:g} seconds")
            ) from error

    async def _read_request(self) -> HttpRequest | None:
        head: h11.Request | None = None
        body = bytearray()
        while True:
            event = self._http.next_event()
            if event is h11.NEED_DATA:
                if self._http.they_are_waiting_for_100_continue:
                    await self._write(h11.InformationalResponse(status_code=100, headers=[]))
                if not await self._fill(None) and head is None:
                    return None
            elif isinstance(event, h11.Request):
                head = event
            elif isinstance(event, h11.Data):
                body += event.data
                if len(body) > self._limits.body_bytes:
                    limit = self._limits.body_bytes
                    raise _Refused(text(413, f"a request body has at most {limit} bytes here"))
            elif isinstance(event, h11.EndOfMessage) and head is not None:
                return _request(head, bytes(body), self._peer)
            else:
                return None

    async def _fill(self, seconds: float | None) -> bool:
        """Give h11 what the peer sent; return whether it sent anything in time."""
        try:
            async with asyncio.timeout(seconds):
                data = await self._reader.read(_READ_BYTES)
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
        async with asyncio.timeout(self._limits.send_seconds):
            await self._writer.drain()

    async def _refuse(self, response: HttpResponse) -> None:
        logger.info("refused an HTTP request peer=%s status=%d", self._peer, response.status)
        if self._http.our_state not in {h11.IDLE, h11.SEND_RESPONSE}:
            return
        await self._send("", response)
        # Closing with unread input would reset the connection under the answer.
        self._writer.write_eof()
        try:
            async with asyncio.timeout(_LINGER_SECONDS):
                while await self._reader.read(_READ_BYTES):
                    pass
        except TimeoutError:
            return


def _request(head: h11.Request, body: bytes, peer: str) -> HttpRequest:
    path, _, query = head.target.decode("latin-1").partition("?")
    return HttpRequest(
        method=head.method.decode("ascii"),
        path=path,
        query=query,
        headers=dict(head.headers),
        body=body,
        peer=peer,
    )


async def _pieces(body: bytes | AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    if isinstance(body, bytes):
        if body:
            yield body
        return
    async for piece in body:
        yield piece

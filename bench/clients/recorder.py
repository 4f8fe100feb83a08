"""A recorder in front of a broker: it passes bytes on as they come and keeps the frames.

The broker advertises the recorder's address, so that clients come back to it; nothing is rewritten.
"""

from __future__ import annotations

import asyncio
import threading
import time
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, Self

if TYPE_CHECKING:
    from collections.abc import Callable

_SIZE: Final = 4
_CHUNK: Final = 1 << 18


@dataclass(slots=True)
class Exchange:
    """A request and its answer as they were on the wire; moments in us since the recorder began."""

    connection: int
    at: int
    request: bytes
    answered_at: int = 0
    answer: bytes = b""


@dataclass(slots=True)
class _Frames:
    """Finds the frames in a stream of bytes."""

    take: Callable[[bytes], None]
    buffer: bytearray = field(default_factory=bytearray)

    def feed(self, data: bytes) -> None:
        """Take bytes; hand on each frame that is whole."""
        self.buffer += data
        while len(self.buffer) >= _SIZE:
            whole = _SIZE + int.from_bytes(self.buffer[:_SIZE], "big")
            if len(self.buffer) < whole:
                return
            self.take(bytes(self.buffer[:whole]))
            del self.buffer[:whole]


class Recorder:
    """Listens on a port of its own, in a thread of its own."""

    def __init__(self) -> None:
        self.exchanges: list[Exchange] = []
        self.port = 0
        self.upstream = ("127.0.0.1", 0)
        self._connections = 0
        self._began = time.monotonic_ns()
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="recorder", daemon=True)
        self._tasks: set[asyncio.Task[None]] = set()

    def __enter__(self) -> Self:
        """Begin to listen; ``upstream`` is wanted when the first client comes."""
        self._thread.start()
        asyncio.run_coroutine_threadsafe(self._listen(), self._loop).result()
        return self

    def __exit__(self, *_: object) -> None:
        """End every connection."""
        asyncio.run_coroutine_threadsafe(self._end(), self._loop).result()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    @property
    def bootstrap(self) -> str:
        """The address that clients are given."""
        return f"127.0.0.1:{self.port}"

    def forget(self) -> None:
        """Drop what was recorded: the next application begins."""
        self.exchanges = []
        self._began = time.monotonic_ns()

    async def _listen(self) -> None:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0, limit=_CHUNK)
        self.port = self._server.sockets[0].getsockname()[1]

    async def _end(self) -> None:
        self._server.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        if task is None:
            raise RuntimeError("a connection is served by a task")
        self._tasks.add(task)
        try:
            # A client or a broker that is gone ends the connection on both sides.
            with suppress(OSError, asyncio.CancelledError):
                await self._pass_on(reader, writer)
        finally:
            self._tasks.discard(task)
            writer.close()

    async def _pass_on(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._connections += 1
        number = self._connections
        waiting: list[Exchange] = []

        def requested(frame: bytes) -> None:
            exchange = Exchange(number, self._now(), frame)
            waiting.append(exchange)
            self.exchanges.append(exchange)

        def answered(frame: bytes) -> None:
            # A Produce of acks 0 has no answer: the answer is to the first of this number.
            for place, exchange in enumerate(waiting):
                if exchange.request[8:12] == frame[4:8]:
                    exchange.answer, exchange.answered_at = frame, self._now()
                    del waiting[: place + 1]
                    return

        up_reader, up_writer = await asyncio.open_connection(*self.upstream, limit=_CHUNK)
        try:
            both = (
                asyncio.ensure_future(_pump(reader, up_writer, _Frames(requested))),
                asyncio.ensure_future(_pump(up_reader, writer, _Frames(answered))),
            )
            try:
                await asyncio.wait(both, return_when=asyncio.FIRST_COMPLETED)
            finally:
                for each in both:
                    each.cancel()
                await asyncio.gather(*both, return_exceptions=True)
        finally:
            up_writer.close()

    def _now(self) -> int:
        return (time.monotonic_ns() - self._began) // 1000


async def _pump(
    reader: asyncio.StreamReader, writer: asyncio.StreamWriter, frames: _Frames
) -> None:
    while data := await reader.read(_CHUNK):
        # Known before it is passed on, so that an answer never comes before its request.
        frames.feed(data)
        writer.write(data)
        await writer.drain()

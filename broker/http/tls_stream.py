"""A TLS connection with the methods of a stream reader and writer that HTTP uses.

Io threads have done the handshake, and sender threads encrypt large answers, as for Kafka clients:
asyncio's own TLS would do both on the loop.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, Self

from siltstone.broker.net.sending.threads import SendingThreads
from siltstone.broker.net.tls.channel import TlsChannel

if TYPE_CHECKING:
    from siltstone.broker.net.tls.handshakes import Opened

_READ_BYTES = 16 * 1024


class TlsStream:
    """Stream reader and writer in one (loop only); one call reads or drains at a time."""

    def __init__(self, opened: Opened, peer: tuple[str, int], sending: SendingThreads) -> None:
        self._loop = asyncio.get_running_loop()
        self._known: dict[str, Any] = {"peername": peer, "certified": opened.name}
        self._buffer = memoryview(bytearray(_READ_BYTES))
        self._drained = asyncio.Event()
        self._drained.set()
        self._input: asyncio.Future[None] | None = None
        self._is_closed = False
        self._fault: str | Exception = ""
        self._channel = TlsChannel(
            self._loop, opened.sock, sending, self._drained.set, self._on_lost
        )

    @property
    def transport(self) -> Self:
        """Return the object that has `abort`: this one."""
        return self

    def get_extra_info(self, name: str) -> Any:
        """Return the peer's address, or the name in its certificate; no other value is known."""
        return self._known.get(name)

    async def read(self, size: int) -> bytes:
        """Return received bytes; no bytes at the end of the stream."""
        await self._drained.wait()
        while not self._is_closed:
            got = self._channel.receive(self._buffer, 0, min(size, _READ_BYTES))
            if got >= 0:
                return bytes(self._buffer[:got])
            self._input = self._loop.create_future()
            self._channel.start_reading(self._on_input)
            try:
                await self._input
            finally:
                self._input = None
                if not self._is_closed:
                    self._channel.stop_reading()
        return b""

    def write(self, data: bytes) -> None:
        """Send or queue bytes."""
        if self._is_closed:
            return
        self._channel.send((data,))
        if self._channel.unsent:
            self._drained.clear()

    async def drain(self) -> None:
        """Wait until everything has been sent.

        Raises:
            ConnectionResetError: The peer is gone.
            Exception: A fault of the broker.
        """
        await self._drained.wait()
        if isinstance(self._fault, Exception):
            raise self._fault
        if self._is_closed:
            raise ConnectionResetError("the peer is gone")

    def write_eof(self) -> None:
        """Do nothing: no client waits for TLS to end one direction."""

    def close(self) -> None:
        """Close; unsent bytes are dropped."""
        if self._is_closed:
            return
        self._is_closed = True
        if self._input is not None:
            self._channel.stop_reading()
            self._on_input()
        self._channel.close()
        self._drained.set()

    def abort(self) -> None:
        """Close."""
        self.close()

    async def wait_closed(self) -> None:
        """Return at once."""

    def _on_input(self) -> None:
        if self._input is not None and not self._input.done():
            self._input.set_result(None)

    def _on_lost(self, fault: str | Exception) -> None:
        self._fault = fault
        self.close()

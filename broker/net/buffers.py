"""Memory for requests: one receive buffer for the whole loop, and a limit for requests that wait.

Most frames are complete after one ``recv`` and never leave the shared buffer. A frame above
``LARGE`` bytes gets a buffer of its own: anonymous pages, which use memory only as bytes arrive. So
a client that announces 100 MiB and sends nothing uses no memory and delays no other client.

All bytes that have arrived and are not served yet count against ``queued.max.request.bytes``,
including bytes of incomplete frames. Above the limit large frames wait. While others wait for
memory, a client must send as fast as if the bytes that it holds came in ``WHOLE_SECONDS``. `judge`
measures this rate once a second. If a client has been too slow for ``GRACE_SECONDS``, it is closed
as soon as another client lacks room, and never before. A frame for which the system has no memory
waits, too, and is tried again once a second.
"""

import asyncio
import logging
import mmap
from collections.abc import Callable, Iterator
from typing import Final, Protocol

from siltstone.broker.net.unread import GRACE_SECONDS, WHOLE_SECONDS, Unread

SHARED_BYTES = 256 * 1024
LARGE = 128 * 1024
_OUR_TURN: Final = 0.1
"""The weight of a second in which the client waits for the broker; 30 use up the grace."""
_SPARED_BYTES = 4096  # a client that holds less is not closed: that would free too little
_POOLED_BYTES = 2 * 1024 * 1024
_POOL_LIMIT = 8
_NO_LIMIT_BYTES = 512 * 1024 * 1024
_SMALL_FRAMES_BYTES = 8 * 1024 * 1024
_RESUMED_PER_TURN = 64

_logger = logging.getLogger(__name__)


def new_pages(size: int) -> mmap.mmap:
    """Return memory of its own; whole pages, which are used only when they are written.

    Raises:
        OSError: The system has no memory.
    """
    return mmap.mmap(-1, size)


class Client(Protocol):
    """A connection, as `Buffers` sees it."""

    received: int
    """The number of bytes received from the client since it connected."""

    @property
    def is_its_turn(self) -> bool:
        """Return whether the client must act next (send or read), not the broker."""

    def resume(self) -> None:
        """Try again: there may be room."""

    def close(self, reason: str | None = None) -> None:
        """Close at once, and give back the memory that the client holds."""


class LargeBuffer:
    """Room for one large frame. The view is writable: batches are stamped in place."""

    __slots__ = ("_memory", "received", "size", "view")

    def __init__(self, memory: mmap.mmap, size: int) -> None:
        self._memory = memory
        self.size = size
        self.received = 0  # bytes that have arrived
        self.view = memoryview(memory)[:size]

    def detach(self) -> mmap.mmap:
        """Return the memory; the view must not be used afterwards."""
        memory = self._memory
        self.view = memoryview(b"")
        return memory


class _Holding:
    """The bytes that one client holds, and how much longer the client may send nothing."""

    __slots__ = ("seconds_left", "seen", "size")

    def __init__(self, seen: int) -> None:
        self.size = 0
        self.seen = seen  # the bytes received in all, at the last `judge`
        self.seconds_left = 0.9 * GRACE_SECONDS  # a fast client gains time


class Buffers:
    """The loop's receive memory (loop only).

    ``limit`` is ``queued.max.request.bytes``; a value below one means the default of 512 MiB. Above
    the limit only the large frame that began first continues and may exceed the limit, so that one
    large frame always completes. Small frames never wait. Incomplete small frames, and requests
    after a waiting request, may exceed the limit by a quarter of it and by at least 8 MiB; beyond
    that the slowest clients are closed. No client is resumed or closed during a call that it makes
    itself. ``on_close`` is called for each client that is closed. ``unread`` counts the memory of
    answers.
    """

    def __init__(
        self,
        limit: int = -1,
        on_close: Callable[[], None] = lambda: None,
        unread: Unread | None = None,
    ) -> None:
        self.unread = unread or Unread(lambda: _NO_LIMIT_BYTES, on_close)
        self.received_bytes = 0
        self._limit = limit if limit > 0 else _NO_LIMIT_BYTES
        self._on_close = on_close
        self._highest = self._limit + max(self._limit // 4, _SMALL_FRAMES_BYTES)
        self._loop = asyncio.get_running_loop()
        self._is_resuming = False
        self._holdings: dict[Client, _Holding] = {}
        self._taken: dict[LargeBuffer, Client] = {}  # in the order in which they were taken
        self._free: list[mmap.mmap] = []
        self._waiting: dict[Client, None] = {}
        self._refused: dict[Client, None] = {}  # the system had no memory for their frames

    def take(self, size: int, client: Client) -> LargeBuffer | None:
        """Return a buffer for a frame of ``size`` bytes; or None and resume the client later."""
        if self._taken and not self._has_room(client):
            self._waiting[client] = None
            return None
        if size <= _POOLED_BYTES and self._free:
            memory = self._free.pop()
        else:
            try:
                memory = new_pages(max(size, _POOLED_BYTES))
            except OSError:
                self._refused[client] = None
                return None
        buffer = LargeBuffer(memory, size)
        self._taken[buffer] = client
        return buffer

    def may_receive(self, buffer: LargeBuffer, client: Client) -> bool:
        """Return whether a frame may receive more; if not, the client is resumed later."""
        if self._has_room(client) or buffer is next(iter(self._taken)):
            return True
        self._waiting[client] = None
        return False

    def hold(self, client: Client, size: int) -> None:
        """Count ``size`` bytes as what a client holds now, instead of what it held before."""
        holding = self._holdings.get(client)
        if holding is None:
            if not size:
                return
            holding = self._holdings[client] = _Holding(client.received)
        grown = size - holding.size
        holding.size = size
        self.received_bytes += grown
        if not size:
            del self._holdings[client]
        if grown < 0:
            self._wake()
        elif self.received_bytes - self._first_bytes() > self._highest:
            self._close(self._slowest(client), self._highest - self._highest // 16)

    def give(self, buffer: LargeBuffer) -> None:
        """Take back the buffer of a served frame, and resume waiting clients in turn."""
        del self._taken[buffer]
        memory = buffer.detach()
        if buffer.size <= _POOLED_BYTES and len(self._free) < _POOL_LIMIT:
            self._free.append(memory)
        self._wake()

    def forget(self, client: Client) -> None:
        """Forget a client that has closed. Memory that its request still uses stays counted."""
        self._waiting.pop(client, None)
        self._refused.pop(client, None)

    def judge(self, seconds: float) -> None:
        """Note how fast clients were in the last ``seconds``; call it at a steady pace.

        Time in which the loop stood still does not count: it is not the clients' fault. Frames for
        which the system had no memory are tried again.
        """
        self.unread.judge(seconds)
        for client, holding in self._holdings.items():
            arrived = client.received - holding.seen
            holding.seen = client.received
            left = holding.seconds_left - (seconds if client.is_its_turn else seconds * _OUR_TURN)
            left += arrived * WHOLE_SECONDS / holding.size
            holding.seconds_left = max(-GRACE_SECONDS, min(left, GRACE_SECONDS))
        if self._refused:
            _logger.warning(
                "large requests wait, the system has no memory clients=%d", len(self._refused)
            )
            self._waiting |= self._refused
            self._refused.clear()
            self._wake()
        if self._waiting:
            self._has_room(None)

    def _has_room(self, client: Client | None) -> bool:
        """Return whether the limit leaves room for ``client``.

        If there is no room, slow clients are closed until half of the limit is free, so that the
        next client need not wait.
        """
        if self.received_bytes >= self._limit:
            slow = (
                other
                for other in self._slowest(client)
                if self._holdings[other].seconds_left <= 0
                and self._holdings[other].size >= _SPARED_BYTES
            )
            self._close(slow, self._limit // 2)
        return self.received_bytes < self._limit

    def _slowest(self, client: Client | None) -> Iterator[Client]:
        """Yield the clients that hold memory, except ``client``, the slowest first."""
        holdings = self._holdings
        yield from sorted(
            (other for other in holdings if other is not client),
            key=lambda other: holdings[other].seconds_left,
        )

    def _close(self, clients: Iterator[Client], max_bytes: int) -> None:
        """Close clients until at most ``max_bytes`` are held."""
        for client in clients:
            if self.received_bytes <= max_bytes:
                return
            size = self._holdings[client].size
            self._on_close()
            client.close(
                f"{size} bytes of requests that are not whole or not served were held too long "
                "while others waited for room; see queued.max.request.bytes"
            )

    def _first_bytes(self) -> int:
        return next(iter(self._taken)).received if self._taken else 0

    def _wake(self) -> None:
        if self._waiting and not self._is_resuming:
            self._is_resuming = True
            self._loop.call_soon(self._resume)

    def _resume(self) -> None:
        """Resume waiting clients, in slices; without room only the one that may exceed it."""
        self._is_resuming = False
        waiting = self._waiting
        if self.received_bytes >= self._limit:
            first = next(iter(self._taken.values()), None) or next(iter(waiting), None)
            if first is not None and first in waiting:
                del waiting[first]
                first.resume()
            return
        for client in list(waiting)[:_RESUMED_PER_TURN]:
            del waiting[client]
            client.resume()
        self._wake()

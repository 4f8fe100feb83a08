"""A limit for answers in memory that clients do not read.

If a client does not read its answers, the broker does not read its requests, so the client holds
the answers of one turn. But an answer may be a hundred times as large as its request, and there may
be thousands of such clients. Unsent bytes of answers count against ``queued.max.response.bytes``.
Above this limit the clients that read most slowly are closed. Ranges of files use no memory, and
count little.
"""

from collections import deque
from collections.abc import Callable
from typing import Final, Protocol

from siltstone.protocol.parts import FileSlice

GRACE_SECONDS: Final = 3.0
"""How long a client may send nothing, or read nothing, before it counts as slow."""
WHOLE_SECONDS: Final = 30.0
"""In this time a client must send, or read, as many bytes as are held for it."""
_PART_BYTES: Final = 200
"""How much memory a part takes besides its bytes."""


class Client(Protocol):
    """A connection, as `Unread` sees it."""

    @property
    def unsent(self) -> deque[bytes | memoryview | FileSlice]:
        """The parts of its answers that have not left."""

    def close(self, reason: str | None = None) -> None:
        """Close at once, and drop the unsent parts."""


class _Holding:
    """The unsent bytes for one client, and how much longer the client may be slow."""

    __slots__ = ("left", "parts", "seconds_left", "size")

    def __init__(self, unsent: deque[bytes | memoryview | FileSlice]) -> None:
        self.size = sum(map(_memory_of, unsent))
        self.parts = len(unsent)
        self.left = 1.0
        self.seconds_left = GRACE_SECONDS

    def judge(self, unsent: deque[bytes | memoryview | FileSlice], seconds: float) -> None:
        """Note how many bytes the client has read in the last ``seconds``."""
        head = unsent[0]
        part = len(head) / memoryview(head.obj).nbytes if isinstance(head, memoryview) else 1.0
        left = min(self.left, (len(unsent) - 1 + part) / self.parts)
        gained = (self.left - left) * WHOLE_SECONDS
        self.left = left
        self.seconds_left = min(self.seconds_left - seconds + gained, GRACE_SECONDS)


class Unread:
    """The unsent answers of all connections (loop only).

    ``find_limit`` returns how many bytes they may have together; a single answer may be larger.
    ``on_close`` is called for each client that is closed. A client is never closed during a call
    that it makes itself.
    """

    def __init__(self, find_limit: Callable[[], int], on_close: Callable[[], None]) -> None:
        self.size = 0
        self._find_limit = find_limit
        self._on_close = on_close
        self._holdings: dict[Client, _Holding] = {}

    def hold(self, client: Client) -> None:
        """Update the count of a client's unsent bytes."""
        self.forget(client)
        holding = self._holdings[client] = _Holding(client.unsent)
        self.size += holding.size
        limit = self._find_limit()
        if self.size > limit:
            self._close_slowest(client, limit)

    def forget(self, client: Client) -> None:
        """Stop counting a client: it has read everything, or is closed."""
        holding = self._holdings.pop(client, None)
        if holding is not None:
            self.size -= holding.size

    def judge(self, seconds: float) -> None:
        """Note how fast clients were in the last ``seconds``; call it at a steady pace."""
        for client, holding in self._holdings.items():
            if client.unsent:
                holding.judge(client.unsent, seconds)

    def _close_slowest(self, client: Client, limit: int) -> None:
        """Close other clients until a sixteenth of the limit is free, so that the next has room."""
        holdings = self._holdings
        for other in sorted(holdings, key=lambda each: holdings[each].seconds_left):
            if self.size <= limit - limit // 16:
                return
            if other is client:
                continue
            size = holdings[other].size
            self._on_close()
            self.forget(other)
            other.close(
                f"{size} bytes of answers were not read while there was no room for those of "
                "others; see queued.max.response.bytes"
            )


def _memory_of(part: bytes | memoryview | FileSlice) -> int:
    if isinstance(part, FileSlice):
        return _PART_BYTES
    return _PART_BYTES + memoryview(part.obj if isinstance(part, memoryview) else part).nbytes

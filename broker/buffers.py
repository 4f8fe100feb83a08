"""Memory for what comes in: one receive buffer for the whole loop, and large frames under a cap.

Most frames are complete after one ``recv`` and never leave the shared buffer. A frame above
``LARGE`` bytes gets a buffer of its own: anonymous pages, which cost memory only as bytes arrive,
so a client that announces 100 MiB and sends nothing costs nothing. Announced sizes count against
``queued.max.request.bytes``; connections that do not fit wait their turn.
"""

from __future__ import annotations

import mmap
from collections import deque
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

SHARED_BYTES = 256 * 1024
LARGE = 128 * 1024
_POOLED_BYTES = 2 * 1024 * 1024
_POOL_LIMIT = 8
_NO_LIMIT_BYTES = 512 * 1024 * 1024


class LargeBuffer:
    """Room for one large frame. The view is writable: batches are stamped in place."""

    __slots__ = ("_memory", "size", "view")

    def __init__(self, memory: mmap.mmap, size: int) -> None:
        self._memory = memory
        self.size = size
        self.view = memoryview(memory)[:size]

    def detach(self) -> mmap.mmap:
        """Give the pages back; the view must not be used afterwards."""
        memory = self._memory
        self.view = memoryview(b"")
        return memory


class Buffers:
    """The loop's receive memory (loop only).

    ``limit`` is ``queued.max.request.bytes``; a value below one means our own default of 512 MiB.
    A single frame larger than the limit is still served when nothing else is in flight.
    """

    def __init__(self, limit: int = -1) -> None:
        self.shared = memoryview(bytearray(SHARED_BYTES))
        self.in_flight_bytes = 0
        self._limit = limit if limit > 0 else _NO_LIMIT_BYTES
        self._free: list[mmap.mmap] = []
        self._waiting: deque[Callable[[], None]] = deque()

    @property
    def is_contended(self) -> bool:
        """Return whether a connection waits for others to finish their frames."""
        return bool(self._waiting)

    def take(self, size: int, resume: Callable[[], None]) -> LargeBuffer | None:
        """Return room for a frame of ``size`` bytes, or None; then ``resume`` is called later."""
        if self.in_flight_bytes and self.in_flight_bytes + size > self._limit:
            self._waiting.append(resume)
            return None
        self.in_flight_bytes += size
        if size <= _POOLED_BYTES:
            memory = self._free.pop() if self._free else mmap.mmap(-1, _POOLED_BYTES)
        else:
            memory = mmap.mmap(-1, size)
        return LargeBuffer(memory, size)

    def give(self, buffer: LargeBuffer) -> None:
        """Take the room of a served frame back and let those who wait try in turn."""
        self.in_flight_bytes -= buffer.size
        memory = buffer.detach()
        if buffer.size <= _POOLED_BYTES and len(self._free) < _POOL_LIMIT:
            self._free.append(memory)
        for _ in range(len(self._waiting)):
            if self.in_flight_bytes >= self._limit:
                return
            self._waiting.popleft()()

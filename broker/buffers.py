"""Memory for what comes in: one receive buffer for the whole loop, and large frames under a cap.

Most frames are complete after one ``recv`` and never leave the shared buffer. A frame above
``LARGE`` bytes gets a buffer of its own: anonymous pages, which cost memory only as bytes arrive,
so a client that announces 100 MiB and sends nothing costs nothing, and keeps nobody waiting. What
has arrived counts against ``queued.max.request.bytes``; beyond that connections wait their turn.
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

    __slots__ = ("_memory", "received", "size", "view")

    def __init__(self, memory: mmap.mmap, size: int) -> None:
        self._memory = memory
        self.size = size
        self.received = 0  # bytes that have arrived
        self.view = memoryview(memory)[:size]

    def detach(self) -> mmap.mmap:
        """Give the pages back; the view must not be used afterwards."""
        memory = self._memory
        self.view = memoryview(b"")
        return memory


class Buffers:
    """The loop's receive memory (loop only).

    ``limit`` is ``queued.max.request.bytes``; a value below one means our own default of 512 MiB.
    Over the limit only the frame that began first goes on receiving, so that there is always one
    that gets done: at most it exceeds the limit.
    """

    def __init__(self, limit: int = -1) -> None:
        self.shared = memoryview(bytearray(SHARED_BYTES))
        self.received_bytes = 0
        self._limit = limit if limit > 0 else _NO_LIMIT_BYTES
        self._taken: dict[LargeBuffer, None] = {}  # in the order in which they were taken
        self._free: list[mmap.mmap] = []
        self._waiting: deque[Callable[[], None]] = deque()

    @property
    def is_contended(self) -> bool:
        """Return whether a connection waits for others to finish their frames."""
        return bool(self._waiting)

    def take(self, size: int, resume: Callable[[], None]) -> LargeBuffer | None:
        """Return room for a frame of ``size`` bytes, or None; then ``resume`` is called later."""
        if self.received_bytes >= self._limit:
            self._waiting.append(resume)
            return None
        if size <= _POOLED_BYTES:
            memory = self._free.pop() if self._free else mmap.mmap(-1, _POOLED_BYTES)
        else:
            memory = mmap.mmap(-1, size)
        buffer = LargeBuffer(memory, size)
        self._taken[buffer] = None
        return buffer

    def may_receive(self, buffer: LargeBuffer, resume: Callable[[], None]) -> bool:
        """Return whether a frame may receive more; if not, ``resume`` is called later."""
        if self.received_bytes < self._limit or buffer is next(iter(self._taken)):
            return True
        self._waiting.append(resume)
        return False

    def note_received(self, buffer: LargeBuffer, size: int) -> None:
        """Count bytes that have arrived in a buffer."""
        buffer.received += size
        self.received_bytes += size

    def give(self, buffer: LargeBuffer) -> None:
        """Take the room of a served frame back and let those who wait try in turn."""
        self.received_bytes -= buffer.received
        del self._taken[buffer]
        memory = buffer.detach()
        if buffer.size <= _POOLED_BYTES and len(self._free) < _POOL_LIMIT:
            self._free.append(memory)
        for _ in range(len(self._waiting)):
            self._waiting.popleft()()

"""Places that many want: one address has the next when each other that waits has had one."""

from __future__ import annotations

import asyncio
from collections import deque
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Hashable


class FairPlaces:
    """So many at a time, in turn by address and then by time (loop only)."""

    def __init__(self, count: int) -> None:
        self._free = count
        self._waiting: dict[Hashable, deque[asyncio.Future[None]]] = {}

    async def take(self, address: Hashable) -> None:
        """Return when there is a place; `release` gives it back."""
        if self._free:
            self._free -= 1
            return
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.setdefault(address, deque()).append(turn)
        try:
            await turn
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled():
                self.release()
            else:
                self._leave(address, turn)
            raise

    def release(self) -> None:
        """Give a place to the address whose turn it is."""
        if not self._waiting:
            self._free += 1
            return
        address = next(iter(self._waiting))
        queue = self._waiting.pop(address)
        turn = queue.popleft()
        if queue:
            self._waiting[address] = queue  # behind all others
        turn.set_result(None)

    def _leave(self, address: Hashable, turn: asyncio.Future[None]) -> None:
        queue = self._waiting[address]
        queue.remove(turn)
        if not queue:
            del self._waiting[address]

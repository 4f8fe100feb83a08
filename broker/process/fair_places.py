"""Shares a fixed number of places fairly among client addresses."""

import asyncio
from collections import deque
from collections.abc import Hashable
from contextlib import suppress


class FairPlaces:
    """``count`` places; addresses take turns, and each address is served in order (loop only)."""

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
            if turn.cancelled():
                self._leave(address, turn)
            else:
                self.release()
            raise

    def release(self) -> None:
        """Give a place to the address whose turn it is."""
        while self._waiting:
            address = next(iter(self._waiting))
            queue = self._waiting.pop(address)
            turn = queue.popleft()
            if queue:
                self._waiting[address] = queue  # its next turn is after all others
            if not turn.cancelled():  # if it is done, its task has not yet run to call `_leave`
                turn.set_result(None)
                return
        self._free += 1

    def _leave(self, address: Hashable, turn: asyncio.Future[None]) -> None:
        queue = self._waiting.get(address, deque())
        with suppress(ValueError):  # `release` has passed it over
            queue.remove(turn)
            if not queue:
                del self._waiting[address]

"""Names that are in somebody's hands: whoever wants one meanwhile waits."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import AsyncIterator


class Reservations:
    """Who has which name (loop only); waiters get it in no particular order."""

    def __init__(self) -> None:
        self._held: dict[str, asyncio.Event] = {}

    @asynccontextmanager
    async def hold(self, name: str) -> AsyncIterator[None]:
        """Have the name for oneself."""
        while name in self._held:
            await self._held[name].wait()
        free = self._held[name] = asyncio.Event()
        try:
            yield
        finally:
            del self._held[name]
            free.set()

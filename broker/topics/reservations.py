"""Names that are in use by one task at a time; others that want one wait."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import AsyncIterator


class Reservations:
    """The names that are held (loop only); waiters get one in no particular order."""

    def __init__(self) -> None:
        self._held: dict[str, asyncio.Event] = {}

    @asynccontextmanager
    async def hold(self, name: str) -> AsyncIterator[None]:
        """Hold the name: others that ask for it wait."""
        while name in self._held:
            await self._held[name].wait()
        free = self._held[name] = asyncio.Event()
        try:
            yield
        finally:
            del self._held[name]
            free.set()

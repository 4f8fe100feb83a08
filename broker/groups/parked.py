"""The answer to a request that may have to wait for others."""

from __future__ import annotations

import asyncio
from typing import Generic, TypeVar

T = TypeVar("T")


class Parked(Generic[T]):
    """Called with the answer once, before or after somebody awaits it (loop only).

    If the waiting request is gone by then, with its connection, the answer is dropped.
    """

    __slots__ = ("_future", "result")

    def __init__(self) -> None:
        self.result: T | None = None
        self._future: asyncio.Future[T] | None = None

    def __call__(self, result: T) -> None:
        """Give the answer."""
        self.result = result
        if self._future is not None and not self._future.done():
            self._future.set_result(result)

    async def wait(self) -> T:
        """Return the answer when it is there."""
        if self.result is not None:
            return self.result
        self._future = asyncio.get_running_loop().create_future()
        return await self._future

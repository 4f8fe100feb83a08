"""Work that a failing disk has refused, tried again until it succeeds."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, Final

from siltstone.broker.process.tasks import Tasks

_PAUSE_SECONDS: Final = 1.0


class Again:
    """Makes an attempt once a second, from `begin` until `end` (loop only)."""

    __slots__ = ("_attempt", "_name", "_task", "_tasks")

    def __init__(self, name: str, attempt: Callable[[], Coroutine[Any, Any, object]]) -> None:
        self._name, self._attempt = name, attempt
        self._tasks = Tasks()
        self._task: asyncio.Task[None] | None = None

    @property
    def is_due(self) -> bool:
        """Tell whether the work is still to be done."""
        return self._task is not None

    def begin(self) -> None:
        """Begin, unless the work is due already."""
        if self._task is None:
            self._task = self._tasks.start(self._repeat(), self._name)

    def end(self) -> None:
        """Make no further attempt; nobody waits for one that is under way."""
        if self._task is not None:
            self._task.cancel()
            self._task = None

    async def _repeat(self) -> None:
        while True:
            await asyncio.sleep(_PAUSE_SECONDS)
            await self._attempt()

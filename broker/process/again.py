"""Work that a failing disk has refused, tried again until it succeeds."""

import asyncio
import logging
from collections.abc import Callable, Coroutine
from typing import Any, Final

from siltstone.broker.process.tasks import Tasks

_PAUSE_SECONDS: Final = 1.0

_logger = logging.getLogger(__name__)


class Again:
    """Makes an attempt once a second, from `begin` until `end` or `give_up` (loop only).

    ``name`` says in the log what is to be done. The first attempt that raises is logged.
    """

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
            _logger.error(
                "disk has refused work, which is tried again every second: check the disk; until "
                "it is done a start may find a refused change work=%r",
                self._name,
            )

    def end(self) -> None:
        """Make no further attempt, since the work is done; an attempt under way is not awaited."""
        if self._stop():
            _logger.info("work that the disk had refused is done work=%r", self._name)

    def give_up(self) -> None:
        """Make no further attempt, whether the work is done or not."""
        if self._stop():
            _logger.error(
                "work that the disk has refused is not done: the next start may find a refused "
                "change work=%r",
                self._name,
            )

    def _stop(self) -> bool:
        """Cancel the attempts; tell whether the work was due."""
        task, self._task = self._task, None
        if task is not None:
            task.cancel()
        return task is not None

    async def _repeat(self) -> None:
        failed = False
        while True:
            await asyncio.sleep(_PAUSE_SECONDS)
            try:
                await self._attempt()
            except Exception:
                if not failed:
                    _logger.exception(
                        "attempt failed and is made again; further failures are not logged work=%r",
                        self._name,
                    )
                failed = True

"""Fetches that wait for data: each stands on the logs it asked for until one has grown enough.

An append wakes only who waits on that log (Kafka's DelayedFetch without the purgatory: one loop
owns everything, so a list on the log is enough). The waiting request reads everything anew when
it is released; nothing read before is kept.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    from storage.log import Log


class Waiter:
    """One parked request: released by ``is_ready`` turning true, by force, or by its deadline."""

    __slots__ = ("future", "is_ready")

    def __init__(self, future: asyncio.Future[None], is_ready: Callable[[], bool]) -> None:
        self.future = future
        self.is_ready = is_ready

    def release(self) -> None:
        """Let the request go on; safe to call again."""
        if not self.future.done():
            self.future.set_result(None)


class Waiting:
    """All parked fetches (loop only). ``Log.waiters`` belongs to this room."""

    def __init__(self) -> None:
        self._waiters: set[Waiter] = set()
        self._is_closed = False

    @property
    def count(self) -> int:
        """How many requests are parked."""
        return len(self._waiters)

    async def wait(
        self, logs: Collection[Log], is_ready: Callable[[], bool], seconds: float
    ) -> None:
        """Park until ``is_ready`` after a growth of one of ``logs``, or for ``seconds`` at most."""
        if self._is_closed:
            return
        loop = asyncio.get_running_loop()
        waiter = Waiter(loop.create_future(), is_ready)
        timer = loop.call_later(seconds, waiter.release)
        self._waiters.add(waiter)
        for log in logs:
            log.waiters.append(waiter)
        try:
            await waiter.future
        finally:
            timer.cancel()
            self._waiters.discard(waiter)
            for log in logs:
                log.waiters.remove(waiter)

    def wake(self, log: Log) -> None:
        """Release who waits on ``log`` and now has enough; call it after any kind of append."""
        for waiter in log.waiters:
            if waiter.is_ready():
                waiter.release()

    def release(self, log: Log) -> None:
        """Release everybody who waits on ``log``: it is gone, cut, or its configuration changed."""
        for waiter in log.waiters:
            waiter.release()

    def close(self) -> None:
        """Release everybody, and park nobody from now on: the broker stops."""
        self._is_closed = True
        for waiter in self._waiters:
            waiter.release()

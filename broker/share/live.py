"""A queue in use: its log, the timer of its locks, and the fetches that wait for its records.

A fetch that waits keeps its place in the line of each of its queues. One of them at a time is told
that there may be records; when it has read, or is gone, the next one is.
"""

import asyncio
from collections.abc import Callable
from typing import Protocol

from siltstone.broker.coordination.timers import Timer, Timers
from siltstone.broker.share.key import ShareKey
from siltstone.broker.share.partition import SharePartition
from siltstone.storage.log.log import Log


class Waiter(Protocol):
    """A fetch that waits for one of its queues."""

    def wants(self, live: "LiveQueue") -> bool:
        """Tell whether the fetch could be answered with the records of a queue."""

    def release(self) -> None:
        """Let the fetch look again."""

    def end(self) -> None:
        """Let the fetch answer with what there is."""


class LiveQueue:
    """One queue and what stands around it; a watcher of its log (loop only).

    ``is_open`` is false when it is no longer the queue in use: its log or its state is gone.
    """

    __slots__ = (
        "_is_told", "_on_gone", "is_open", "key", "leader_epoch", "log", "queue", "timer",
        "waiters",
    )  # fmt: skip

    def __init__(
        self,
        key: ShareKey,
        log: Log,
        queue: SharePartition,
        timers: Timers,
        on_gone: Callable[["LiveQueue"], None],
    ) -> None:
        self.key = key
        self.log = log
        self.leader_epoch = log.leader_epoch
        self.queue = queue
        self.timer = Timer(timers)
        self.waiters: dict[Waiter, None] = {}
        self.is_open = True
        self._on_gone = on_gone
        self._is_told = False
        log.watchers[self] = None

    def log_changed(self) -> None:
        """Let a waiting fetch look: the log has more records, or another start."""
        if self.waiters:
            self.wake()

    def log_gone(self) -> None:
        """End if the log is gone; it may only have been cut."""
        self._on_gone(self)

    def wake(self) -> None:
        """Let the first waiting fetch look that may have records here, soon."""
        if self.waiters and not self._is_told:
            self._is_told = True
            asyncio.get_running_loop().call_soon(self._tell)

    def _tell(self) -> None:
        self._is_told = False
        for waiter in tuple(self.waiters):
            if waiter.wants(self):
                waiter.release()
                if self.is_open:
                    return

    def close(self) -> None:
        """Stop watching, and let all waiting fetches look."""
        self.is_open = False
        self.timer.cancel()
        self.log.watchers.pop(self, None)
        self.wake()

"""Logs tell their changes to those who watch them: fetch sessions, and fetches that wait for data.

A `Watch` is one partition. It is among the watchers of its log (`Log.watchers`), which tells it of
every change. So neither an idle session nor a fetch that waits looks at its partitions one by one.
(In Kafka this is DelayedFetch in its purgatory.) A fetch that waits counts the bytes that it lacks.
When it goes on it reads again; nothing read before is kept.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from siltstone.broker.process.loop_share import LoopShare
from siltstone.protocol.errors import KafkaError

if TYPE_CHECKING:
    from collections.abc import Callable

    from siltstone.protocol.messages.fetch import FetchPartition
    from siltstone.protocol.topic_key import TopicKey
    from siltstone.storage.log.log import Log

READ_COMMITTED = 1
_PIECE = 100


class Watch:
    """One partition that is watched: what was asked of it, and its log.

    ``available`` is the number of bytes that a waiting fetch has counted in it, else 0.
    """

    __slots__ = ("available", "group", "key", "log", "wanted")

    def __init__(self, group: WatchGroup, key: TopicKey, wanted: FetchPartition) -> None:
        self.group = group
        self.key = key
        self.wanted = wanted
        self.log: Log | None = None
        self.available = 0

    def stand_on(self, log: Log) -> None:
        """Be told when this log changes."""
        if self.log is not log:
            self.leave()
            self.log = log
            log.watchers[self] = None

    def leave(self) -> None:
        """Be told no more; safe to call again."""
        log = self.log
        if log is not None:
            self.log = None
            watchers = log.watchers
            del watchers[self]
            if not watchers:
                watchers.clear()  # an emptied dict keeps its memory

    def log_changed(self) -> None:
        """Mark this partition as changed for the group."""
        self.group.note_change(self)

    def log_gone(self) -> None:
        """Mark this partition as changed for the group; if a fetch waits, look at once."""
        self.leave()
        self.group.changed.add(self)
        self.group.release()


class WatchGroup:
    """The partitions of a session, or of one fetch that waits, and those that have ``changed``.

    Every partition is among the changed, or watches its log, or both. One that has changed need not
    be told again before it is read, unless a fetch of the group waits.
    """

    __slots__ = ("changed", "parked")

    def __init__(self) -> None:
        self.changed: set[Watch] = set()
        self.parked: Parked | None = None

    def note_change(self, watch: Watch) -> None:
        """Note a partition whose log has changed."""
        self.changed.add(watch)
        if self.parked is None:
            watch.leave()
        else:
            self.parked.count(watch)

    def release(self) -> None:
        """Resume the waiting fetch, if there is one."""
        if self.parked is not None:
            self.parked.release()

    def leave(self) -> None:
        """Stop watching the logs of the changed partitions; without a session, of all."""
        for watch in self.changed:
            watch.leave()
        self.changed.clear()


class Parked:
    """A fetch that waits until ``missing`` bytes have come, it is released, or its time is over."""

    __slots__ = ("_is_committed", "_missing", "future")

    def __init__(self, future: asyncio.Future[None], min_bytes: int, isolation_level: int) -> None:
        self.future = future
        self._missing = min_bytes
        self._is_committed = isolation_level == READ_COMMITTED

    def count(self, watch: Watch) -> None:
        """Count anew what there is of one partition, and go on if it is enough."""
        log, wanted = watch.log, watch.wanted
        if log is None:
            self.release()
            return
        available = 0
        end = log.end
        upto = end.last_stable_offset if self._is_committed else end.log_end_offset
        if wanted.fetch_offset < upto:
            try:
                available = min(
                    log.available_bytes(wanted.fetch_offset, upto), wanted.partition_max_bytes
                )
            except KafkaError:  # the fetch reports it; the append that calls this goes on
                self.release()
                return
        self._missing -= available - watch.available
        watch.available = available
        if self._missing <= 0:
            self.release()

    def release(self) -> None:
        """Resume the request; safe to call again."""
        if not self.future.done():
            self.future.set_result(None)


class Waiting:
    """All fetches that wait (loop only)."""

    def __init__(self) -> None:
        self._parked: set[Parked] = set()
        self._is_closed = False

    @property
    def count(self) -> int:
        """How many requests are parked."""
        return len(self._parked)

    async def wait(
        self,
        group: WatchGroup,
        get_log: Callable[[TopicKey, int], Log | None],
        *,
        min_bytes: int,
        isolation_level: int,
        seconds: float,
    ) -> None:
        """Wait until the group has ``min_bytes``, or loses a log, or ``seconds`` are over.

        Only what has changed is counted: in all other partitions there was nothing to read.
        """
        if self._is_closed:
            return
        loop = asyncio.get_running_loop()
        parked = Parked(loop.create_future(), min_bytes, isolation_level)
        group.parked = parked
        self._parked.add(parked)
        timer = loop.call_later(seconds, parked.release)
        try:
            share = LoopShare()
            for watch in group.changed:
                watch.available = 0
            # Others are served meanwhile, and a partition may be counted by a change before its
            # turn here.
            for number, watch in enumerate(list(group.changed), 1):
                log = get_log(watch.key, watch.wanted.partition)
                if log is None:  # since it was read
                    parked.release()
                    break
                watch.stand_on(log)
                parked.count(watch)
                if number % _PIECE == 0:
                    await share.rest()
                    if parked.future.done():
                        break
            await parked.future
        finally:
            timer.cancel()
            self._parked.discard(parked)
            if group.parked is parked:
                group.parked = None

    def close(self) -> None:
        """Resume all waiting fetches, and let no further one wait: the broker stops."""
        self._is_closed = True
        for parked in self._parked:
            parked.release()

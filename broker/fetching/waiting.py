"""Fetches that wait for data (in Kafka: DelayedFetch in its purgatory).

A waiting fetch watches its logs (`broker.fetching.watching`) and counts the bytes that it lacks.
When it resumes, it reads again; nothing that it read before is kept.
"""

import asyncio
from collections.abc import Callable, Collection

from siltstone.broker.fetching.watching import Parked, WatchGroup
from siltstone.broker.process.loop_share import LoopShare
from siltstone.protocol.names import TopicKey
from siltstone.storage.log.log import Log

_PIECE = 100


class Waiting:
    """All fetches that wait (loop only)."""

    def __init__(self) -> None:
        self._parked: dict[Parked, None] = {}  # in the order in which they came
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
        absent: Collection[tuple[TopicKey, int]] = (),
    ) -> None:
        """Wait until the group has ``min_bytes``, or loses a log, or ``seconds`` are over.

        Only the bytes of changed partitions are counted: in all others there was nothing to read.
        Partitions that were ``absent`` at the read are skipped.
        """
        if self._is_closed:
            return
        loop = asyncio.get_running_loop()
        parked = Parked(loop.create_future(), min_bytes, isolation_level)
        group.parked = parked
        self._parked[parked] = None
        timer = loop.call_later(seconds, parked.release)
        try:
            share = LoopShare()
            for watch in group.changed:
                watch.available = 0
            # Other requests are served meanwhile: a change may count a partition before this loop
            # does.
            for number, watch in enumerate(list(group.changed), 1):
                partition = watch.wanted.partition
                if (watch.key, partition) in absent:
                    watch.leave()  # a client gets no news of a log that it may not read
                else:
                    log = get_log(watch.key, partition)
                    if log is None:  # it was deleted since the read
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
            del self._parked[parked]
            if group.parked is parked:
                group.parked = None

    def close(self) -> None:
        """Resume all waiting fetches, and let no other fetch wait: the broker stops."""
        self._is_closed = True
        for parked in self._parked:
            parked.release()

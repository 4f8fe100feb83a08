"""One share fetch: it reads its queues once there is enough to acquire, or when its time is over.

Kafka: DelayedShareFetch. Between the look at a queue and the locks on its records nothing else
runs, so no two members acquire the same record.
"""

import asyncio
from collections.abc import Sequence

from siltstone.broker.process.loop_share import FIRST_PIECE, LoopShare
from siltstone.broker.share.live import LiveQueue
from siltstone.broker.share.partition import Limits, Wish
from siltstone.broker.share.partitions import SharePartitions
from siltstone.broker.share.records import ShareRead, read
from siltstone.protocol.errors import KafkaError, OffsetOutOfRange, UnknownTopicOrPartition
from siltstone.protocol.messages.share_fetch import PartitionData


class ShareFetch:
    """One request for records; a `Waiter` of its queues while it waits.

    ``rows`` are the answers of the queues that were read, by their place in ``queues``.
    """

    def __init__(
        self,
        host: SharePartitions,
        queues: Sequence[LiveQueue],
        wish: Wish,
        limits: Limits,
        *,
        max_bytes: int,
        min_bytes: int,
        is_committed: bool,
    ) -> None:
        self.rows: dict[int, PartitionData] = {}
        self._host = host
        self._queues = queues
        self._wish = wish
        self._limits = limits
        self._max_bytes = max_bytes
        self._min_bytes = min(min_bytes, max_bytes)
        self._is_committed = is_committed
        self._future: asyncio.Future[None] | None = None
        self._is_over = False
        self._is_called = False

    async def serve(self, seconds: float, share: LoopShare) -> None:
        """Wait up to ``seconds`` for enough to acquire, then acquire what there is."""
        if seconds > 0 and not self._host.is_closed and not await self._has_enough(share):
            await self._wait(seconds, share)
        else:
            await self._read_all(share)

    def wants(self, live: LiveQueue) -> bool:
        """Tell whether there may be enough for an answer, since a queue has changed."""
        size = self._find_available(live)
        return size >= 0 and (size >= self._min_bytes or len(self._queues) > 1)

    def release(self) -> None:
        """Look again."""
        self._is_called = True
        if self._future is not None and not self._future.done():
            self._future.set_result(None)

    async def _wait(self, seconds: float, share: LoopShare) -> None:
        loop = asyncio.get_running_loop()
        timer = loop.call_later(seconds, self.end)
        for live in self._queues:
            live.waiters[self] = None
        try:
            is_first = len(self._queues) <= FIRST_PIECE  # nothing has happened since it looked
            while not self._is_over and (is_first or not await self._has_enough(share)):
                is_first = False
                if not self._is_called:
                    self._future = loop.create_future()
                    await self._future
                self._is_called = False
            await self._read_all(share)  # before the next one in the line looks
        finally:
            timer.cancel()
            for live in self._queues:
                live.waiters.pop(self, None)
                live.wake()

    def end(self) -> None:
        """Answer with what there is."""
        self._is_over = True
        self.release()

    async def _has_enough(self, share: LoopShare) -> bool:
        """Tell whether the queues have as many bytes to acquire as the client waits for."""
        size, is_any = 0, False
        for live in self._queues:
            found = self._find_available(live)
            is_any = is_any or found >= 0
            size += max(0, found)
            if is_any and size >= self._min_bytes:
                return True
            await share.rest()
        return False

    def _find_available(self, live: LiveQueue) -> int:
        """Return how many bytes there are to acquire; -1 if no record may be acquired.

        What must be told at once counts as enough.
        """
        if not live.is_open:
            return self._min_bytes
        if not live.queue.can_acquire(self._limits):
            return -1
        log, offset = live.log, live.queue.next_fetch_offset()
        upto = log.last_stable_offset if self._is_committed else log.high_watermark
        if not log.log_start_offset <= offset <= log.log_end_offset:
            return self._min_bytes
        try:
            size = log.available_bytes(offset, upto)
        except KafkaError:
            return self._min_bytes
        return min(size, self._max_bytes // len(self._queues) or 1)

    async def _read_all(self, share: LoopShare) -> None:
        ready = []
        for place, live in enumerate(self._queues):
            if not live.is_open or live.queue.can_acquire(self._limits):
                ready.append(place)
            if place % FIRST_PIECE == FIRST_PIECE - 1:  # few are read at once, or others come first
                await share.rest()
        remaining, left = self._max_bytes, self._wish.max_records
        for number, place in enumerate(ready):
            limit = self._max_bytes // len(ready) + (number < self._max_bytes % len(ready))
            row, size, count = self._read(
                self._queues[place],
                min(limit, remaining),
                left,
                is_first=remaining == self._max_bytes,
            )
            if row is not None:
                self.rows[place] = row
            remaining = max(0, remaining - size)
            left -= count
            await share.rest()

    def _read(
        self, live: LiveQueue, limit: int, left: int, *, is_first: bool
    ) -> tuple[PartitionData | None, int, int]:
        """Read and acquire; return the answer, its bytes, and how many records it has."""
        index, queue, log = live.key.partition, live.queue, live.log
        if not live.is_open:
            return PartitionData(index, UnknownTopicOrPartition.code.value), 0, 0
        if not queue.can_acquire(self._limits):
            return None, 0, 0
        offset = queue.next_fetch_offset()
        try:
            found = read(
                log,
                offset,
                limit,
                beyond=queue.end_offset,
                max_records=max(0, left),
                is_committed=self._is_committed,
                at_least_one=is_first,
            )
        except OffsetOutOfRange:
            queue.move_start(log.log_start_offset)
            live.wake()
            return PartitionData(index), 0, 0
        except KafkaError as error:
            return PartitionData(index, error.code.value), 0, 0
        if found is None:
            return PartitionData(index), 0, 0
        return self._acquire(live, offset, found, left)

    def _acquire(
        self, live: LiveQueue, offset: int, found: ShareRead, left: int
    ) -> tuple[PartitionData, int, int]:
        queue = live.queue
        acquired = queue.acquire(
            self._wish._replace(max_records=left),
            offset,
            found.stored,
            self._limits,
            self._host.timers.now_ms(),
        )
        if found.aborted:
            acquired = queue.archive(found.aborted, acquired)
        self._host.watch_locks(live)
        live.wake()
        if not acquired:
            return PartitionData(live.key.partition), 0, 0
        records = found.cut(acquired)
        live.log.bytes_out += records.size
        count = sum(each.last_offset - each.first_offset + 1 for each in acquired)
        row = PartitionData(live.key.partition, records=records, acquired_records=acquired)
        return row, records.size, count

"""Delayed deletion: files are renamed at once, and unlinked after ``file.delete.delay.ms``.

Readers that have a file open keep it. As in Kafka, the delay is for readers that only know the name
of the file. The next start finds files that still waited at the stop by their suffix, and deletes
them.
"""

import heapq
import itertools
from collections.abc import Callable

from siltstone.storage import threads
from siltstone.storage.clock import Clock
from siltstone.storage.directory.background import Background


class DelayedDeletions:
    """The deletions that wait, in the order of their times.

    Any thread may schedule a deletion. The loop's housekeeping passes those that are due to the
    background thread.
    """

    def __init__(self, clock: Clock, background: Background) -> None:
        self._clock = clock
        self._background = background
        self._lock = threads.Lock()
        self._numbers = itertools.count()  # orders equal times; work cannot be compared
        self._waiting: list[tuple[float, int, Callable[[], object]]] = []  # guarded by: _lock

    def schedule(self, delay_ms: int, delete: Callable[[], object]) -> None:
        """Run ``delete`` in the background after ``delay_ms``."""
        due = self._clock.monotonic() + delay_ms / 1000
        with self._lock:
            heapq.heappush(self._waiting, (due, next(self._numbers), delete))

    def run_due(self) -> int:
        """Pass the deletions that are due to the background thread; return their number."""
        now = self._clock.monotonic()
        count = 0
        with self._lock:
            while self._waiting and self._waiting[0][0] <= now:
                self._background.submit("delete", heapq.heappop(self._waiting)[2])
                count += 1
        return count

    @property
    def pending(self) -> int:
        """Return how many deletions wait for their time."""
        return len(self._waiting)

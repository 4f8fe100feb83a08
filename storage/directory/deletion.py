"""Deleting what nobody may find any more: renamed at once, unlinked after ``file.delete.delay.ms``.

Readers that hold a file open keep it; the delay is for those who only know its name, as Kafka has
it. What still waits at a stop is found by its suffix at the next start and goes then.
"""

import heapq
import itertools
import threading
from collections.abc import Callable

from siltstone.storage.clock import Clock
from siltstone.storage.directory.background import Background


class DelayedDeletions:
    """Work that deletes, in the order it falls due.

    Any thread schedules; the loop's housekeeping asks for what is due, which the background
    thread then does.
    """

    def __init__(self, clock: Clock, background: Background) -> None:
        self._clock = clock
        self._background = background
        self._lock = threading.Lock()
        self._numbers = itertools.count()  # equal times keep their order; work is never compared
        self._waiting: list[tuple[float, int, Callable[[], object]]] = []  # guarded by: _lock

    def schedule(self, delay_ms: int, delete: Callable[[], object]) -> None:
        """Have ``delete`` run in the background when ``delay_ms`` have passed."""
        due = self._clock.monotonic() + delay_ms / 1000
        with self._lock:
            heapq.heappush(self._waiting, (due, next(self._numbers), delete))

    def run_due(self) -> int:
        """Hand what is due to the background thread; return how many pieces that were."""
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

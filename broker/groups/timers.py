"""Deadlines, thousands of which move every second and few of which are ever reached.

All of them are on one heap. A later deadline is only noted in its timer, and the heap is not
touched until the earlier one comes due.
"""

from __future__ import annotations

from heapq import heapify, heappop, heappush
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from siltstone.storage.clock import Clock

_LEAST_ENTRIES = 256
_ENTRIES_PER_TIMER = 4
_ROUNDING_MS = 0.001
"""A sum of floats may come out below the deadline that was meant."""


class Timer:
    """One deadline and what happens then; durations and times in ms of the steady clock."""

    __slots__ = ("_action", "_queued", "_timers", "deadline")

    def __init__(self, timers: Timers, action: Callable[[], None]) -> None:
        self.deadline: float | None = None
        self._queued: float | None = None  # where its only valid entry on the heap stands
        self._timers = timers
        self._action = action

    @property
    def is_running(self) -> bool:
        """Whether the deadline is still to come."""
        return self.deadline is not None

    def start(self, after_ms: float) -> None:
        """Fire after ``after_ms``; a time that was set before no longer counts."""
        deadline = self._timers.now_ms() + after_ms
        if self.deadline is None:
            self._timers.running_count += 1
        self.deadline = deadline
        if self._queued is None or deadline < self._queued:
            self._queued = deadline
            self._timers.push(deadline, self)

    def cancel(self) -> None:
        """Do not fire; safe to call again."""
        if self.deadline is not None:
            self._timers.running_count -= 1
            self.deadline = None

    def leave_heap(self, queued: float) -> bool:
        """Tell whether the entry of that time is obsolete, and forget it if so.

        Only `Timers` calls it.
        """
        if queued == self._queued and self.deadline is not None:
            return False
        if queued == self._queued:
            self._queued = None
        return True

    def come_due(self, queued: float, now_ms: float) -> None:
        """Fire, or go back on the heap if the deadline has moved; ``queued`` is the entry's time.

        Only `Timers` calls it.
        """
        if queued != self._queued:
            return  # there is an earlier entry, or was
        self._queued = None
        if self.deadline is None:
            return
        if self.deadline > now_ms:
            self._queued = self.deadline
            self._timers.push(self.deadline, self)
            return
        self._timers.running_count -= 1
        self.deadline = None
        self._action()


class Timers:
    """The heap (loop only). ``on_earlier`` is called when a timer is due before all others.

    Cancelled timers stay on it until their time. When they are most of it they are removed, and so
    are the members that they keep in memory.
    """

    __slots__ = ("_monotonic", "_pushed", "heap", "on_earlier", "running_count")

    def __init__(self, clock: Clock, on_earlier: Callable[[float], None] = lambda _: None) -> None:
        self.on_earlier = on_earlier
        self.running_count = 0
        self._monotonic = clock.monotonic
        self.heap: list[tuple[float, int, Timer]] = []
        self._pushed = 0

    def now_ms(self) -> float:
        """Return the steady clock's time."""
        return self._monotonic() * 1000

    @property
    def next_ms(self) -> float | None:
        """When something may come due; None if nothing is on the heap."""
        return self.heap[0][0] if self.heap else None

    def push(self, deadline: float, timer: Timer) -> None:
        """Put an entry on the heap; for `Timer`."""
        if len(self.heap) > _LEAST_ENTRIES + _ENTRIES_PER_TIMER * self.running_count:
            self.heap = [each for each in self.heap if not each[2].leave_heap(each[0])]
            heapify(self.heap)
        self._pushed += 1  # a tie-breaker: timers have no order
        entry = (deadline, self._pushed, timer)
        heappush(self.heap, entry)
        if self.heap[0] is entry:
            self.on_earlier(deadline)

    def run_due(self, max_entries: int = 1 << 30) -> None:
        """Fire what is due, at most ``max_entries``."""
        now_ms = self.now_ms() + _ROUNDING_MS
        while self.heap and self.heap[0][0] <= now_ms and max_entries:
            queued, _, timer = heappop(self.heap)
            timer.come_due(queued, now_ms)
            max_entries -= 1

"""Deadlines on a heap, made for thousands that move every second and are rarely reached.

All deadlines are on one heap. When a timer's deadline moves to later, only the timer notes it; the
heap does not change until the earlier deadline comes due. A timer keeps its action only while it
runs, and the heap keeps only running timers, so neither keeps a removed or refused member in
memory.
"""

from collections.abc import Callable
from heapq import heapify, heappop, heappush
from typing import Any, TypeAlias

from siltstone.storage.clock import Clock

_Entry: TypeAlias = list[Any]
"""A time, a number, and the timer whose entry it is; None once no timer uses it."""

_LEAST_ENTRIES = 256
_ENTRIES_PER_TIMER = 4
_ROUNDING_MS = 0.001
"""A sum of floats may come out below the deadline that was meant."""


class Timer:
    """One deadline and its action; durations and times are in ms of the steady clock."""

    __slots__ = ("_action", "_entry", "_timers", "deadline")

    def __init__(self, timers: "Timers") -> None:
        self.deadline: float | None = None
        self._action: Callable[[], None] | None = None
        self._entry: _Entry | None = None  # the only entry of this timer on the heap
        self._timers = timers

    @property
    def is_running(self) -> bool:
        """Whether the deadline is still to come."""
        return self.deadline is not None

    def start(self, after_ms: float, action: Callable[[], None]) -> None:
        """Run ``action`` after ``after_ms``; this replaces the action and deadline from before."""
        if self.deadline is None:
            self._timers.running_count += 1
        self._action = action
        self.move(after_ms)

    def move(self, after_ms: float) -> None:
        """Move the deadline to ``after_ms`` from now; call this only while the timer runs."""
        deadline = self._timers.now_ms() + after_ms
        self.deadline = deadline
        entry = self._entry
        if entry is None or deadline < entry[0]:
            if entry is not None:
                entry[2] = None
            self._entry = self._timers.push(deadline, self)

    def cancel(self) -> None:
        """Drop the action and the deadline; safe to call again."""
        if self.deadline is not None:
            self._timers.running_count -= 1
            self.deadline = self._action = None
        if self._entry is not None:
            self._entry[2] = None
            self._entry = None

    def come_due(self, now_ms: float) -> None:
        """Fire, or go back on the heap if the deadline has moved; only `Timers` calls this."""
        self._entry = None
        deadline, action = self.deadline, self._action
        if deadline is None or action is None:
            return
        if deadline > now_ms:
            self._entry = self._timers.push(deadline, self)
            return
        self.cancel()
        action()


class Timers:
    """The heap (loop only). ``on_earlier`` is called when a timer is due before all others.

    An entry loses its timer when the timer is cancelled or gets an earlier entry. Entries without a
    timer are removed when they are most of the heap.
    """

    __slots__ = ("_monotonic", "_pushed", "heap", "on_earlier", "running_count")

    def __init__(self, clock: Clock, on_earlier: Callable[[float], None] = lambda _: None) -> None:
        self.on_earlier = on_earlier
        self.running_count = 0
        self._monotonic = clock.monotonic
        self.heap: list[_Entry] = []
        self._pushed = 0

    def now_ms(self) -> float:
        """Return the steady clock's time."""
        return self._monotonic() * 1000

    @property
    def next_ms(self) -> float | None:
        """The next time at which a timer may come due; None if the heap is empty."""
        return self.heap[0][0] if self.heap else None

    def push(self, deadline: float, timer: Timer) -> _Entry:
        """Put an entry on the heap, and return it; for `Timer`."""
        if len(self.heap) > _LEAST_ENTRIES + _ENTRIES_PER_TIMER * self.running_count:
            self.heap = [each for each in self.heap if each[2] is not None]
            heapify(self.heap)
        self._pushed += 1  # a tie-breaker: timers have no order
        entry: _Entry = [deadline, self._pushed, timer]
        heappush(self.heap, entry)
        if self.heap[0] is entry:
            self.on_earlier(deadline)
        return entry

    def run_due(self, max_entries: int = 1 << 30) -> None:
        """Fire what is due, at most ``max_entries``."""
        now_ms = self.now_ms() + _ROUNDING_MS
        while self.heap and self.heap[0][0] <= now_ms and max_entries:
            timer = heappop(self.heap)[2]
            if timer is not None:
                timer.come_due(now_ms)
            max_entries -= 1

"""The world of one seed: its time, its choices, and the one thing that runs at a time.

Every thread of the broker is a greenlet of one thread of the system. The event loop runs in a
greenlet of its own, beside the driver, which plays the steps of a history. Another thread runs only
at calls of a seam: of the disk, of a lock, of a wait. A read of the clock costs time, so that the
share of the loop that a request has can end.

A process that is killed stops at a call of the disk: the driver goes on, and nothing that ran
before is resumed again. So none of its ``finally`` runs, as after SIGKILL.
"""

from __future__ import annotations

import errno
import hashlib
import heapq
import itertools
import mmap
import os
import random
from math import inf
from typing import TYPE_CHECKING, Any, Final

import greenlet

from siltstone.storage.files import FSYNC_FAILED, LOG
from tests.simulator.world.disk import FIRST, Torn
from tests.simulator.world.network import Network

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.simulator.world.disk import Disk
    from tests.simulator.world.threads import SimulatedThread

BEGAN_SECONDS: Final = 1_700_000_000.0
"""The wall clock at the beginning of each history."""
STEADY_SECONDS: Final = 1_000.0
"""The steady clock at the beginning of each history."""
CALL_SECONDS: Final = 5e-6
"""The virtual time that a call of the disk takes."""
WRITES: Final = frozenset({"pwrite", "write", "copy_file_range"})
WAITS: Final = frozenset({"fsync", "link", "listdir", "mkdir", "rmdir", "scan", "utime"})
"""Calls that the loop's thread leaves to others while clients are served.

It may write and read what the page cache has, cut off half a batch that a failed write left, create
and open files, and, when the copy of a partition takes over, copy the bytes that the copy lacks and
rename its folder. After an fsync that failed it makes the mark for the next start durable, once for
each log directory.
"""
CALLBACK_CALLS: Final = 400
CALLBACK_BYTES: Final = 1 << 20
"""So much of the disk may one callback of the loop ask for."""
_ROLL_CALLS: Final = 24
"""Calls for each segment that it begins besides: a round has the batches of many clients, and each
of them may begin a segment, if segments are so small."""
_TORN: Final = 0.5
"""How often a process that dies in a write has written a part."""
_HALF: Final = 0.5
_FIRSTS: Final = itertools.cycle(range(FIRST, 1 << 31, FIRST))
"""The first descriptor of each world: what is freed late closes no file of another one.

They differ in high bits only, so that sets of descriptors have the same order in each world.
"""


class Stuck(AssertionError):  # noqa: N818  # a verdict
    """Nothing can happen any more, although somebody waits."""


class Wait:
    """The reason why a thread does not run: a condition, and the time when it gives up.

    A condition that has held is not looked at again: it may have taken the lock that it asked for.
    """

    __slots__ = ("deadline", "holds", "is_met")

    def __init__(self, holds: Callable[[], object], deadline: float) -> None:
        self.holds = holds
        self.deadline = deadline
        self.is_met = False


class World:
    """The time, choices and threads of one history, over all starts of its broker.

    ``choices`` decides the order of events; ``noise`` answers the seam of randomness. ``now`` is in
    seconds since the beginning. ``read_seconds`` is the cost of a read of the clock.
    ``yields`` and ``steals`` say how often a call of a thread, or of the loop, lets a thread run.
    An fsync of a thread takes up to ``fsync_seconds`` before it makes anything durable, or after, a
    read of a file up to ``pread_seconds``.
    ``late_cuts`` says how often a power failure takes the last change of a folder and no other.
    ``splits`` is how often a client's frame arrives in two pieces, the second one late.
    """

    def __init__(
        self,
        seed: int,
        *,
        read_seconds: float = 1e-6,
        yields: float = 0.25,
        steals: float = 0.15,
        fsync_seconds: float = 0.0,
        pread_seconds: float = 0.0,
        late_cuts: float = 0.0,
        splits: float = 0.3,
        is_traced: bool = False,
    ) -> None:
        self.seed = seed
        self.choices = random.Random(seed)
        self.noise = random.Random(f"noise {seed}")
        self.now = 0.0
        self.read_seconds = read_seconds
        self.yields = yields
        self.steals = steals
        self.fsync_seconds = fsync_seconds
        self.pread_seconds = pread_seconds
        self.late_cuts = late_cuts
        self.splits = splits
        self.trace: list[tuple[Any, ...]] | None = [] if is_traced else None
        self.descriptors: Iterator[int] = itertools.count(next(_FIRSTS))
        self.calls = 0
        self.callback_calls = self.callback_bytes = 0
        self.callback_rolls = 0
        self.is_serving = self.callback_marks = False
        self.refusals = self.refused = 0
        """So many requests for memory are refused next."""
        self.switches = 0
        self.kill_after: int | None = None
        self.kill_kind = ""
        self.is_killed = False
        self.failures: list[str] = []
        self.errors: list[str] = []
        """The errors that the broker has logged since they were looked at."""
        self.find_fault: Callable[[str, str, int], int] | None = None
        self.driver: Any = greenlet.getcurrent()
        self.network = Network(self)
        self.disk: Disk
        self.threads: list[SimulatedThread] = []
        self.current: SimulatedThread | None = None
        self._is_stealing = False
        self.events: list[tuple[float, int, Callable[[], object]]] = []
        self._numbers = itertools.count()
        self._graves: list[object] = []

    # Time.

    def note(self, *what: Any) -> None:
        """Add a line to the trace, with the time."""
        if self.trace is not None:
            self.trace.append((round(self.now, 9), *what))

    def digest(self) -> str:
        """Return a hash of the trace: equal for equal histories."""
        return hashlib.blake2b(repr(self.trace).encode(), digest_size=16).hexdigest()

    def perf_counter(self) -> float:
        """Return the steady clock, as ``time.perf_counter`` does; the read itself takes time."""
        self.now += self.read_seconds
        return STEADY_SECONDS + self.now

    def time_ns(self) -> int:
        """Return the wall clock, as ``time.time_ns`` does."""
        self.now += self.read_seconds
        return self.now_ns()

    def thread_time(self) -> float:
        """Return the processor time of a thread, as ``time.thread_time`` does."""
        self.now += self.read_seconds
        return self.now

    def sleep(self, seconds: float) -> None:
        """Let others run, as ``time.sleep`` does."""
        if seconds:
            self.wait(bool, seconds)  # which is never true
        else:
            self.offer()

    def now_ns(self) -> int:
        """Return the wall clock without a cost, for the times of files."""
        return int((BEGAN_SECONDS + self.now) * 1e9)

    def later(self, seconds: float, call: Callable[[], object]) -> None:
        """Have something happen at a time."""
        heapq.heappush(self.events, (self.now + seconds, next(self._numbers), call))

    def happen(self) -> None:
        """Have everything happen that is due."""
        while self.events and self.events[0][0] <= self.now:
            heapq.heappop(self.events)[2]()

    def next_time(self) -> float:
        """Return when something happens by itself: an event, or a thread that stops waiting."""
        time = self.events[0][0] if self.events else inf
        for each in self.threads:
            if each.wait is not None and each.wait.deadline < time:
                time = each.wait.deadline
        return time

    # Calls of the disk.

    def kill_later(self, calls: int, kind: str = "") -> None:
        """Have the process die at a call of the disk, counted from now on; of a kind, if named."""
        self.kill_after, self.kill_kind = calls, kind

    def before_call(self, kind: str, path: str, size: int) -> int:
        """Begin a call of the disk: it may be killed, fail, be cut short, and let others run."""
        self.calls += 1
        self.now += CALL_SECONDS
        if self.trace is not None:
            self.note(kind, path, size)
        if self.kill_after is not None:
            self._come_nearer(kind, size)
        if self.current is None and self.is_serving:
            self._count(kind, path, size)
        if self.find_fault is not None:
            whole, size = size, self.find_fault(kind, path, size)
            if size < whole:  # the rest takes one more
                self.callback_calls -= 1
                self.callback_bytes -= whole - size
        thread = self.current
        if thread is not None:
            if self.choices.random() < self.yields:
                thread.leave()
            if kind in {"fsync", "pread"}:
                self.take_time(kind)
        elif self.threads:
            self.offer()
        return size

    def _come_nearer(self, kind: str, size: int) -> None:
        """Count a call down to that at which the process dies, perhaps in the middle of a write."""
        if self.kill_kind not in {"", kind}:
            return
        self.kill_after = (self.kill_after or 0) - 1
        if self.kill_after:
            return
        if kind in WRITES and self.choices.random() < _TORN:
            raise Torn(self.choices.randrange(size + 1), self.die)
        self.die()

    def take_time(self, kind: str = "fsync") -> None:
        """Let others run for a part of the time that a call takes; those of the loop take none."""
        if kind == "pread":
            if self.pread_seconds and self.is_serving:
                self.sleep(self.pread_seconds * self.choices.random())
        elif self.fsync_seconds and self.current is not None and self.choices.random() < _HALF:
            self.sleep(self.fsync_seconds * self.choices.random())

    def _count(self, kind: str, path: str, size: int) -> None:
        """Count a call of the loop in this callback."""
        self.callback_calls += 1
        self.callback_bytes += 0 if kind == "fallocate" else size
        self.callback_rolls += kind == "create" and path.endswith(LOG)
        self.callback_marks = self.callback_marks or path.endswith(FSYNC_FAILED)
        if kind in WAITS and not self.callback_marks:
            self.failures.append(f"the loop waits for {kind} of {path}")
        calls = self.callback_calls - self.callback_rolls * _ROLL_CALLS
        if calls > CALLBACK_CALLS or self.callback_bytes > CALLBACK_BYTES:
            self.failures.append(
                f"a callback of the loop makes {self.callback_calls} calls of the disk with "
                f"{self.callback_bytes} bytes, the last one {kind} of {path}"
            )

    def has_memory(self) -> bool:
        """Tell whether a request for memory is granted."""
        was = self.refusals
        if was:
            self.refusals -= 1
            self.refused += 1
        if self.trace is not None:
            self.note("memory", was)
        return not was

    def new_pages(self, size: int) -> mmap.mmap:
        """Return memory for a large request, as `siltstone.broker.net.buffers.new_pages` does."""
        if not self.has_memory():
            raise OSError(errno.ENOMEM, os.strerror(errno.ENOMEM))
        return mmap.mmap(-1, size)

    def die(self) -> None:
        """Kill the process: the driver goes on, and this greenlet is never resumed."""
        self.is_killed = True
        self.driver.switch()

    def bury(self, *remains: object) -> None:
        """Keep what a killed process had: to free its greenlets would run its ``finally``."""
        self._graves.append((remains, list(self.threads), greenlet.getcurrent()))
        self.threads.clear()
        self.events.clear()
        self.current = None
        self._is_stealing = False
        self.is_killed = False
        self.kill_after = None
        self.is_serving = False

    # Threads.

    def offer(self) -> None:
        """Perhaps let another thread run: at a call of a seam."""
        thread = self.current
        if thread is not None:
            if self.choices.random() < self.yields:
                thread.leave()
        elif self.threads and not self._is_stealing and self.choices.random() < self.steals:
            self._is_stealing = True
            try:
                self.run_one()
            finally:
                self._is_stealing = False

    def run_one(self) -> bool:
        """Let one thread run up to where it waits or lets others run; tell whether one could."""
        now, ready = self.now, []
        for each in self.threads:
            wait = each.wait
            if wait is None or wait.is_met:
                ready.append(each)
            elif wait.holds():
                wait.is_met = True
                ready.append(each)
            elif now >= wait.deadline:
                ready.append(each)
        if not ready:
            return False
        thread = ready[0] if len(ready) == 1 else self.choices.choice(ready)
        self.switches += 1
        if self.trace is not None:
            self.note("run", thread.name)
        before, self.current = self.current, thread
        try:
            thread.resume()
        finally:
            self.current = before
        if thread.is_ended:
            self.threads.remove(thread)
        return True

    def wait(self, holds: Callable[[], object], seconds: float | None = None) -> bool:
        """Return whether a condition came true in time; others run meanwhile."""
        if holds():
            return True
        wait = Wait(holds, inf if seconds is None else self.now + max(0.0, seconds))
        thread = self.current
        while self.now < wait.deadline:
            if thread is not None:
                thread.wait = wait
                thread.leave()
                if wait.is_met:
                    return True
                continue
            if not self.run_one():
                self._pass_to(wait.deadline)
            if holds():
                return True
        return False

    def _pass_to(self, deadline: float) -> None:
        """Let time pass up to what happens next: the loop itself waits, and no thread can run.

        If nothing happens, a call of the disk hangs, or all wait for each other: the driver knows.
        """
        until = min(deadline, self.next_time())
        self.now = max(self.now, self.now + 1.0 if until == inf else until)
        self.happen()
        self.driver.switch()  # it may have waited long enough; else it lets the loop go on

"""Threads as greenlets, with locks, conditions, events, queues, timers and pools of their own.

They have the shape of what `siltstone.storage.threads` has, and replace it.
"""

from __future__ import annotations

import concurrent.futures
import threading
from collections import deque
from functools import partial
from typing import TYPE_CHECKING, Any

import greenlet

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.simulator.world.world import Wait, World


class SimulatedThread:
    """A thread of the broker. ``wait`` is None while it can run."""

    def __init__(self, world: World, name: str, run: Callable[[], object]) -> None:
        self.name = name
        self.ident: int | None = None
        self.native_id: int | None = None
        self.wait: Wait | None = None
        self.is_ended = False
        self._world = world
        self._run = run
        self._greenlet: Any = None
        self._back: Any = None

    def start(self) -> None:
        """Have the thread run, as soon as it is its turn."""
        self.ident = self.native_id = next(self._world.descriptors)
        self._greenlet = greenlet.greenlet(self._main)
        self._world.threads.append(self)

    def _main(self) -> None:
        try:
            self._run()
        except Exception as error:  # noqa: BLE001  # the history is judged by it
            self._world.failures.append(f"thread {self.name}: {error!r}")
        self.is_ended = True
        self._greenlet.parent = self._back

    def resume(self) -> None:
        """Run up to where the thread leaves."""
        self.wait = None
        self._back = greenlet.getcurrent()
        self._greenlet.switch()

    def leave(self) -> None:
        """Let the one go on that has resumed this thread."""
        self._back.switch()

    def is_alive(self) -> bool:
        """Tell whether the thread has begun and not ended."""
        return self.ident is not None and not self.is_ended

    def join(self, seconds: float | None = None) -> None:
        """Wait for the end of the thread."""
        self._world.wait(lambda: self.is_ended, seconds)


class Lock:
    """A lock that one thread has at a time."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._is_taken = False

    def acquire(self, blocking: bool = True, timeout: float = -1) -> bool:
        """Take the lock; tell whether it was had in time."""
        if blocking:
            return self._world.wait(self._take, None if timeout < 0 else timeout)
        return self._take()

    def _take(self) -> bool:
        """Take the lock if it is free: the first that is looked at has it before it goes on."""
        if self._is_taken:
            return False
        self._is_taken = True
        return True

    def release(self) -> None:
        """Give the lock back."""
        assert self._is_taken
        self._is_taken = False

    def locked(self) -> bool:
        """Tell whether a thread has it."""
        return self._is_taken

    def __enter__(self) -> bool:
        if self._is_taken:
            return self.acquire()
        self._is_taken = True
        return True

    def __exit__(self, *_: object) -> None:
        self._is_taken = False


class Condition:
    """A lock with a wait inside it; every waiting thread looks again when it is its turn."""

    def __init__(self, world: World, lock: Lock | None = None) -> None:
        self._world = world
        self._lock = lock or Lock(world)
        self._told = 0
        self.acquire = self._lock.acquire
        self.release = self._lock.release

    def __enter__(self) -> bool:
        return self.acquire()

    def __exit__(self, *_: object) -> None:
        self.release()

    def wait_for(self, predicate: Callable[[], object], timeout: float | None = None) -> object:
        """Wait until a predicate holds; it is looked at when another thread has notified it."""
        deadline = None if timeout is None else self._world.now + timeout
        while not (result := predicate()):
            seconds = None if deadline is None else deadline - self._world.now
            if seconds is not None and seconds <= 0:
                break
            told = self._told
            self._lock.release()
            self._world.wait(partial(self._is_told_since, told), seconds)
            self._lock.acquire()
        return result

    def _is_told_since(self, told: int) -> bool:
        return self._told != told

    def notify_all(self) -> None:
        """Have all that wait look again."""
        self._told += 1


class Event:
    """A flag that threads wait for."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._marks: deque[None] = deque(maxlen=1)  # whose length is asked without a call of Python

    def is_set(self) -> bool:
        """Tell whether the flag is up."""
        return bool(self._marks)

    def set(self) -> None:
        """Raise the flag."""
        self._marks.append(None)

    def clear(self) -> None:
        """Lower the flag."""
        self._marks.clear()

    def wait(self, timeout: float | None = None) -> bool:
        """Wait for the flag; tell whether it is up."""
        self._world.wait(self._marks.__len__, timeout)
        return bool(self._marks)


class Queue:
    """A line without a bound."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._items: deque[Any] = deque()

    def put(self, item: Any) -> None:
        """Add one behind all others."""
        self._items.append(item)

    def get(self) -> Any:
        """Take the first; wait for one."""
        self._world.wait(self._items.__len__)
        return self._items.popleft()

    def qsize(self) -> int:
        """Return how many wait."""
        return len(self._items)

    def empty(self) -> bool:
        """Tell whether none waits."""
        return not self._items


class Timer:
    """A call that comes late, on a thread of its own, unless it is cancelled."""

    daemon = True

    def __init__(
        self,
        world: World,
        interval: float,
        function: Callable[..., object],
        arguments: Any = (),
    ) -> None:
        self._ended = Event(world)

        def run() -> None:
            if not self._ended.wait(interval):
                function(*(arguments or ()))

        self._thread = SimulatedThread(world, "timer", run)

    def start(self) -> None:
        """Begin to wait."""
        self._thread.start()

    def cancel(self) -> None:
        """Do not call."""
        self._ended.set()


class _Unwatched(type(threading.RLock())):  # type: ignore[misc]
    """A condition of a future for which no thread of the system waits."""

    def notify_all(self) -> None:
        """Do nothing."""


class Future(concurrent.futures.Future[Any]):
    """A future whose ``result`` lets other threads run."""

    _condition = _Unwatched()

    def __init__(self, world: World) -> None:
        super().__init__()
        self.world = world
        del self.__dict__["_condition"]

    def result(self, timeout: float | None = None) -> Any:
        """Return the result; wait for it."""
        self.world.wait(self.done, timeout)
        return super().result(0)


class Pool(concurrent.futures.Executor):
    """Threads that take work from one line; each starts when it is needed."""

    def __init__(self, world: World, count: int, name: str) -> None:
        self._world = world
        self._count = count
        self._name = name
        self._work: deque[tuple[Future, Callable[[], Any]] | None] = deque()
        """Calls to make; behind all of it None once the pool is shut down."""
        self._threads: list[SimulatedThread] = []
        self._idle = 0
        self._is_down = False

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future:
        """Have a thread call a function; return its future."""
        if self._is_down:
            raise RuntimeError("cannot schedule new futures after shutdown")
        future = Future(self._world)
        self._work.append((future, lambda: fn(*args, **kwargs)))
        if self._idle < len(self._work) and len(self._threads) < self._count:
            name = f"{self._name}_{len(self._threads)}"
            thread = SimulatedThread(self._world, name, self._run)
            self._threads.append(thread)
            thread.start()
        return future

    def _run(self) -> None:
        while True:
            self._idle += 1
            while not self._work:  # another thread may have been quicker
                self._world.wait(self._work.__len__)
            self._idle -= 1
            if (work := self._work[0]) is None:
                return
            self._work.popleft()
            if self._work:  # another thread may be quicker with the next
                self._world.offer()
            future, call = work
            if not future.set_running_or_notify_cancel():
                continue
            try:
                result = call()
            except Exception as error:  # noqa: BLE001  # the caller gets it
                future.set_exception(error)
            else:
                future.set_result(result)
            del work, future, call

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """Take no more work, and end the threads."""
        if not self._is_down:
            self._is_down = True
            self._work.append(None)
        while cancel_futures and (work := self._work[0]) is not None:
            self._work.popleft()
            work[0].cancel()
        if wait:
            self._world.wait(lambda: all(each.is_ended for each in self._threads))


class Threads:
    """Replacements of the names of `siltstone.storage.threads` in one world."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._main = SimulatedThread(world, "MainThread", lambda: None)

    def new_thread(
        self, name: str, run: Callable[..., object], *arguments: object
    ) -> SimulatedThread:
        """Return a thread that has not started."""
        return SimulatedThread(self._world, name, lambda: run(*arguments))

    def names(self) -> dict[str, Any]:
        """Return each name with what stands for it."""
        world = self._world
        return {
            "Lock": lambda: Lock(world),
            "Condition": lambda lock=None: Condition(world, lock),
            "Event": lambda: Event(world),
            "Queue": lambda: Queue(world),
            "Timer": lambda *given, **named: Timer(world, *given, **named),
            "new_thread": self.new_thread,
            "new_pool": lambda count, name, _niceness=0: Pool(world, count, name),
            "is_current": lambda thread: world.current is thread,
            "find_main_id": lambda: 1,
            "on_failure": lambda _: None,
            "be_nice": lambda _: None,
            "ask_for_slice": lambda *_: True,
        }

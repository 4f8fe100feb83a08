"""The tasks of one owner, which waits for them or cancels them."""

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine, Hashable
from contextlib import asynccontextmanager
from functools import partial
from typing import Any, TypeVar

T = TypeVar("T")


class Tasks:
    """The tasks that its owner has begun and that have not ended yet (loop only).

    A task continues if the request that began it is cancelled. This object keeps the task alive,
    since the loop has only weak references. ``on_failure`` gets each task that fails; without
    ``on_failure`` the error is raised where the task is awaited.
    """

    __slots__ = ("_all", "_on_failure")

    def __init__(self, on_failure: Callable[[asyncio.Task[Any]], None] | None = None) -> None:
        self._all: dict[asyncio.Task[Any], None] = {}  # in the order in which they began
        self._on_failure = on_failure

    def __len__(self) -> int:
        return len(self._all)

    def start(self, work: Coroutine[Any, Any, T], name: str) -> asyncio.Task[T]:
        """Begin a task and hold it until it ends."""
        task = asyncio.get_running_loop().create_task(work, name=name)
        self._all[task] = None
        task.add_done_callback(self._ended)
        return task

    async def finish(self) -> None:
        """Wait until all tasks have ended, and the tasks that they begin."""
        while self._all:
            await asyncio.wait(self._all)

    async def cancel(self) -> None:
        """Cancel all tasks and wait for their ends."""
        for task in tuple(self._all):
            task.cancel()
        await self.finish()

    def _ended(self, task: asyncio.Task[Any]) -> None:
        self._all.pop(task, None)
        failed = self._on_failure
        if failed is not None and not task.cancelled() and task.exception() is not None:
            failed(task)


class Reservations:
    """Locks by thing: one task holds a thing at a time, others wait in order (loop only)."""

    __slots__ = ("_lines",)

    def __init__(self) -> None:
        self._lines: dict[Hashable, tuple[asyncio.Lock, int]] = {}  # with holders and waiters

    @asynccontextmanager
    async def hold(self, thing: Hashable) -> AsyncIterator[None]:
        """Hold a thing: other tasks that want it wait."""
        lock, count = self._lines.get(thing) or (asyncio.Lock(), 0)
        self._lines[thing] = lock, count + 1
        try:
            async with lock:
                yield
        finally:
            _, count = self._lines.pop(thing)
            if count > 1:
                self._lines[thing] = lock, count - 1


class OneByOne:
    """Runs changes: those of one thing run one after the other, each to its end.

    Loop only. An ``expected`` exception of a change that is no longer awaited is dropped.
    """

    __slots__ = ("_expected", "_held", "_name", "_tasks")

    def __init__(self, name: str, *expected: type[Exception]) -> None:
        self._name = name
        self._expected = expected
        self._held = Reservations()
        self._tasks = Tasks()

    async def make(self, change: Coroutine[Any, Any, T], thing: Hashable = None) -> T:
        """Run a change when earlier changes of the thing are done; raise what the change raises."""
        task = self._tasks.start(self._make_in_turn(change, thing), self._name)
        return await to_its_end(task, *self._expected)

    async def finish(self) -> None:
        """Wait until all changes are done."""
        await self._tasks.finish()

    async def _make_in_turn(self, change: Coroutine[Any, Any, T], thing: Hashable) -> T:
        async with self._held.hold(thing):
            return await change


async def to_its_end(work: asyncio.Future[T], *expected: type[Exception]) -> T:
    """Await work that continues if its waiter is cancelled.

    An ``expected`` exception that is no longer awaited is dropped; another one is logged.
    """
    try:
        return await asyncio.shield(work)
    except asyncio.CancelledError:
        work.add_done_callback(partial(_drop, expected))
        raise


def _drop(expected: tuple[type[Exception], ...], work: asyncio.Future[Any]) -> None:
    if work.cancelled():
        return
    error = work.exception()
    if error is not None and not isinstance(error, expected):
        work.get_loop().call_exception_handler(
            {"message": "what a client has begun and not awaited failed", "exception": error}
        )

"""An event loop whose select is the scheduler: it lets threads run, time pass and bytes arrive.

Callbacks keep their order, as asyncio and uvloop promise. The world's choices order the sockets
that are ready, and say which threads run in between.
"""

from __future__ import annotations

import asyncio
from collections import deque
from functools import partial
from heapq import heappop, heappush
from math import inf
from typing import TYPE_CHECKING, Any, Final
from weakref import WeakSet

from tests.simulator.world.world import STEADY_SECONDS, Stuck

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.simulator.world.world import World

_MOST_STEPS: Final = 4
_TICK_SECONDS: Final = 1e-9
"""A timer that is due so soon is due now."""


class Call:
    """A callback that comes in the next turn, in the shape of `asyncio.Handle`.

    It has no context: the broker has no context variables.
    """

    __slots__ = ("arguments", "function")

    def __init__(self, function: Callable[..., object], arguments: tuple[Any, ...]) -> None:
        self.function: Callable[..., object] | None = function
        self.arguments = arguments

    def cancel(self) -> None:
        """Do not call."""
        self.function, self.arguments = None, ()

    def cancelled(self) -> bool:
        """Tell whether nothing is called."""
        return self.function is None


class Timer(float):
    """A callback that comes at a time, which it is, in the shape of `asyncio.TimerHandle`.

    As a number it is compared without a call of Python; `cancel` is that of a `Call`.
    """

    __slots__ = ("arguments", "function")

    function: Callable[..., object] | None
    arguments: tuple[Any, ...]
    cancel = Call.cancel
    cancelled = Call.cancelled

    def when(self) -> float:
        """Return the time."""
        return self


class SimulatedLoop(asyncio.BaseEventLoop):
    """The event loop of one start of a broker."""

    def __init__(self, world: World) -> None:
        super().__init__()
        self.tasks: WeakSet[asyncio.Task[Any]] = WeakSet()
        """The tasks that were created here, ended ones among them."""
        self.create_future = partial(asyncio.Future, loop=self)  # type: ignore[method-assign]
        self._world = world
        self._due: deque[Call | Timer] = deque()
        self._timers: list[Timer] = []
        self._readers: dict[int, Call] = {}
        self._writers: dict[int, Call] = {}
        self.set_exception_handler(self._on_exception)

    def _on_exception(self, _loop: object, context: dict[str, Any]) -> None:
        if asyncio._get_running_loop() is not self:
            return  # what a killed process has left is no failure
        message, error = context.get("message"), context.get("exception")
        self._world.failures.append(f"loop: {message} {error!r}")

    def time(self) -> float:
        """Return the steady clock."""
        return STEADY_SECONDS + self._world.now

    def run_once(self) -> None:
        """Run one turn."""
        world, due, timers = self._world, self._due, self._timers
        while timers and timers[0].function is None:
            heappop(timers)
        due += self._look()
        end = STEADY_SECONDS + world.now + _TICK_SECONDS
        while timers and timers[0] < end:
            due.append(heappop(timers))
        for _ in range(len(due)):
            call = due.popleft()
            function = call.function
            if function is not None:
                world.callback_calls, world.callback_bytes, world.callback_marks = 0, 0, False
                world.callback_rolls = 0
                try:
                    function(*call.arguments)
                except (KeyboardInterrupt, SystemExit):
                    raise
                except BaseException as error:  # noqa: BLE001  # as asyncio
                    told = {"message": f"Exception in callback {function}", "exception": error}
                    self.call_exception_handler(told)

    def call_soon(self, callback: Any, *args: Any, context: Any = None) -> Any:  # type: ignore[override]
        """Call in the next turn."""
        del context
        call = Call(callback, args)
        self._due.append(call)
        return call

    call_soon_threadsafe = call_soon  # type: ignore[assignment]  # the loop looks for itself

    def call_at(self, when: float, callback: Any, *args: Any, context: Any = None) -> Any:  # type: ignore[override]
        """Call at a time of the steady clock."""
        del context
        timer = Timer(when)
        timer.function, timer.arguments = callback, args
        heappush(self._timers, timer)
        return timer

    def call_later(self, delay: float, callback: Any, *args: Any, context: Any = None) -> Any:  # type: ignore[override]
        """Call when some seconds have passed."""
        del context
        return self.call_at(STEADY_SECONDS + self._world.now + delay, callback, *args)

    def create_task(self, coro: Any, **options: Any) -> Any:
        """Begin a task in the next turn."""
        task = super().create_task(coro, **options)
        self.tasks.add(task)
        return task

    def add_reader(self, fd: Any, callback: Any, *args: Any) -> None:  # type: ignore[override]
        """Call back when a socket can be read."""
        self._watch(self._readers, fd, callback, args)

    def add_writer(self, fd: Any, callback: Any, *args: Any) -> None:  # type: ignore[override]
        """Call back when a socket can be written."""
        self._watch(self._writers, fd, callback, args)

    def _watch(
        self, watched: dict[int, Call], fd: int, callback: Any, args: tuple[Any, ...]
    ) -> None:
        self._forget(watched, fd)
        self._world.network.changed[fd] = None
        watched[fd] = Call(callback, args)

    def remove_reader(self, fd: Any) -> bool:
        """Call back no more."""
        return self._forget(self._readers, fd)

    def remove_writer(self, fd: Any) -> bool:
        """Call back no more."""
        return self._forget(self._writers, fd)

    def _forget(self, watched: dict[int, Call], fd: int) -> bool:
        call = watched.pop(fd, None)
        if call is not None:
            call.cancel()
        return call is not None

    def add_signal_handler(self, *_: Any) -> None:  # type: ignore[override]
        """Ignore signals: the driver stops and kills."""

    def _look(self) -> list[Call]:
        """Return what is ready; without it let threads run, then time pass."""
        world, due, timers = self._world, self._due, self._timers
        changed = world.network.changed
        is_late = bool(timers) and timers[0] <= STEADY_SECONDS + world.now
        while True:
            if world.events and world.events[0][0] <= world.now:
                world.happen()
            could = bool(world.threads)
            if could:
                for _ in range(int(world.choices.random() * _MOST_STEPS)):
                    could = world.run_one()
                    if not could:
                        break
            ready = self._find_ready() if changed else []
            if ready or is_late or due:
                return ready
            if could and world.run_one():
                continue
            at = timers[0] - STEADY_SECONDS if timers else inf
            until = min(at, world.next_time())
            if until == inf:
                raise Stuck("nothing can happen any more")
            world.now = max(world.now, until)
            if at <= world.now:
                return self._find_ready()

    def _find_ready(self) -> list[Call]:
        """Return the handles of sockets that can be read or written, in the world's order."""
        network = self._world.network
        found = []
        for number in list(network.changed):
            which = network.look(number)
            reader, writer = self._readers.get(number), self._writers.get(number)
            is_hot = False
            if which is not None and reader is not None and which.is_readable:
                found.append(reader)
                is_hot = True
            if which is not None and writer is not None and which.is_writable:
                found.append(writer)
                is_hot = True
            if not is_hot:
                del network.changed[number]
        if len(found) > 1:
            self._world.choices.shuffle(found)
        return found

"""An event loop whose select is the scheduler: it lets threads run, time pass and bytes arrive.

Callbacks keep their order, as asyncio and uvloop promise. The world's choices order the sockets
that are ready, and say which threads run in between.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, Final

from tests.simulator.world.world import STEADY_SECONDS, Stuck

if TYPE_CHECKING:
    from tests.simulator.world.world import World

_MOST_STEPS: Final = 4


class Selector:
    """The select of the loop, as `asyncio.BaseEventLoop` calls it."""

    def __init__(self, loop: SimulatedLoop) -> None:
        self._loop = loop

    def select(self, timeout: float | None) -> list[asyncio.Handle]:
        """Return what is ready."""
        return self._loop.look(timeout)


class SimulatedLoop(asyncio.BaseEventLoop):
    """The event loop of one start of a broker."""

    def __init__(self, world: World) -> None:
        super().__init__()
        self._world = world
        self._selector = Selector(self)
        self._clock_resolution = 1e-9
        self._readers: dict[int, asyncio.Handle] = {}
        self._writers: dict[int, asyncio.Handle] = {}
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
        world = self._world
        world.turn_calls, world.turn_bytes, world.turn_marks = 0, 0, False
        self._run_once()  # type: ignore[attr-defined]

    def _write_to_self(self) -> None:
        """Do nothing: the loop looks for itself."""

    def _process_events(self, events: list[asyncio.Handle]) -> None:
        for handle in events:
            if not handle.cancelled():
                self._ready.append(handle)  # type: ignore[attr-defined]

    def add_reader(self, fd: Any, callback: Any, *args: Any) -> None:  # type: ignore[override]
        """Call back when a socket can be read."""
        self._watch(self._readers, fd, callback, args)

    def add_writer(self, fd: Any, callback: Any, *args: Any) -> None:  # type: ignore[override]
        """Call back when a socket can be written."""
        self._watch(self._writers, fd, callback, args)

    def _watch(
        self, watched: dict[int, asyncio.Handle], fd: int, callback: Any, args: tuple[Any, ...]
    ) -> None:
        self._forget(watched, fd)
        self._world.network.changed[fd] = None
        watched[fd] = asyncio.Handle(callback, args, self, None)

    def remove_reader(self, fd: Any) -> bool:
        """Call back no more."""
        return self._forget(self._readers, fd)

    def remove_writer(self, fd: Any) -> bool:
        """Call back no more."""
        return self._forget(self._writers, fd)

    def _forget(self, watched: dict[int, asyncio.Handle], fd: int) -> bool:
        handle = watched.pop(fd, None)
        if handle is not None:
            handle.cancel()
        return handle is not None

    def add_signal_handler(self, *_: Any) -> None:  # type: ignore[override]
        """Ignore signals: the driver stops and kills."""

    def look(self, timeout: float | None) -> list[asyncio.Handle]:
        """Return what is ready; without it let threads run, then time pass."""
        world = self._world
        while True:
            world.happen()
            could = bool(world.threads)
            if could:
                for _ in range(int(world.choices.random() * _MOST_STEPS)):
                    could = world.run_one()
                    if not could:
                        break
            ready = self._find_ready()
            if ready or timeout == 0 or self._ready:  # type: ignore[attr-defined]
                return ready
            if could and world.run_one():
                continue
            scheduled: Any = self._scheduled  # type: ignore[attr-defined]
            due = scheduled[0]._when - STEADY_SECONDS if scheduled else None
            times = [each for each in (due, world.next_time()) if each is not None]
            if not times:
                raise Stuck("nothing can happen any more")
            world.now = max(world.now, min(times))
            if due is not None and due <= world.now:
                return self._find_ready()

    def _find_ready(self) -> list[asyncio.Handle]:
        """Return the handles of sockets that can be read or written, in the world's order."""
        network = self._world.network
        if not network.changed:
            return []
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

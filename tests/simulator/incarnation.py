"""One life of a broker in a world: it starts, serves, and stops, is killed or loses its power."""

from __future__ import annotations

import asyncio
import gc
from functools import cache
from typing import TYPE_CHECKING, Any, Final

import greenlet

from siltstone.broker.server import Broker
from siltstone.config.load import load
from siltstone.storage.clock import Clock
from tests.simulator.wire import Pending
from tests.simulator.world.install import install
from tests.simulator.world.loop import SimulatedLoop
from tests.simulator.world.network import Connection, Network

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Mapping, Sequence
    from random import Random

    from siltstone.config.layers import Layers
    from tests.simulator.world.world import World

PORT: Final = 9092
ROOT: Final = "/sim"
JOURNAL_PARTITIONS: Final = 2
SETTINGS: Final = (
    f"log.dirs={ROOT}/a",
    f"listeners=PLAINTEXT://127.0.0.1:{PORT}",
    "http.listener=127.0.0.1:8080",
    f"offsets.topic.num.partitions={JOURNAL_PARTITIONS}",
    f"transaction.state.log.num.partitions={JOURNAL_PARTITIONS}",
)
"""The settings of every history; those of its own come behind them."""
_PATIENCE_SECONDS: Final = 120.0


@cache
def _load(settings: tuple[str, ...]) -> Layers:
    """Return what settings say; it does not change, and to find it out takes a third of a start."""
    return load(None, {}, settings)


class Killed(Exception):  # noqa: N818  # no error: a history wants it
    """The process of the broker was killed at a call of the disk."""


class Silent(AssertionError):  # noqa: N818  # a verdict
    """The broker has not done in time what it must do."""


class Incarnation:
    """A broker from its start to its end. The driver calls it; the broker runs beside.

    ``environ`` has variables that may change meanwhile, for a reload.
    """

    def __init__(
        self, world: World, settings: Sequence[str] = (), environ: Mapping[str, str] | None = None
    ) -> None:
        self.world = world
        self._settings = (*SETTINGS, *settings)
        self._environ = environ
        self._loop: SimulatedLoop | None = None
        self._machine: Any = None
        self._broker: Any = None
        self._ended: Any = None
        self._is_done: Callable[[], object] = lambda: True
        self._end_time = 0.0

    @property
    def broker(self) -> Broker:
        """The broker, for the judge of what it holds: tasks, memory, descriptors."""
        broker: Broker = self._broker
        return broker

    @property
    def tasks(self) -> list[str]:
        """The names of all tasks of the loop, in their order."""
        assert self._loop is not None
        return sorted(each.get_name() for each in self._loop.tasks if not each.done())

    @property
    def is_failed(self) -> bool:
        """Tell whether the broker wants to end, since a task of it has failed."""
        return self._ended is not None and self._ended.is_set()

    def start(self) -> None:
        """Start the broker.

        Raises:
            Killed: It was killed on the way.
            StartError: It refuses to start.
        """
        world = self.world
        world.network = Network(world)
        install(world)
        self._loop = SimulatedLoop(world)
        asyncio._set_running_loop(self._loop)
        world.driver = greenlet.getcurrent()
        self._machine = greenlet.greenlet(self._spin)
        self._ended = asyncio.Event()
        environ, settings = self._environ, self._settings
        layers = _load(settings) if environ is None else load(None, environ, settings)
        self._broker = Broker(layers, Clock(), self._ended)
        self.run(self._broker.start())
        world.is_serving = True

    def _spin(self) -> None:
        """Run the loop up to what the driver waits for."""
        loop, world = self._loop, self.world
        assert loop is not None
        while True:
            loop.run_once()
            if self._is_done() or world.now > self._end_time:
                world.driver.switch()

    def run_until(self, is_done: Callable[[], object], seconds: float = _PATIENCE_SECONDS) -> bool:
        """Let the broker run until something holds; tell whether it held in time.

        Raises:
            Killed: The process was killed.
        """
        world = self.world
        end = self._end_time = world.now + seconds
        self._is_done = is_done
        while not is_done():
            if world.now > end:
                return False
            self._machine.switch()
            if world.is_killed:
                raise Killed
        return True

    def run(self, coroutine: Coroutine[Any, Any, Any], seconds: float = _PATIENCE_SECONDS) -> Any:
        """Run a coroutine of the broker and return its result."""
        assert self._loop is not None
        task = self._loop.create_task(coroutine)
        if not self.run_until(task.done, seconds):
            raise Silent(f"{coroutine} took more than {seconds} s")
        return task.result()

    def ask(self, coroutine: Coroutine[Any, Any, Any]) -> Pending:
        """Have the broker run a coroutine; the answer is its result, or its error."""
        assert self._loop is not None
        question = Pending()
        question.task = self._loop.create_task(coroutine)
        question.task.add_done_callback(
            lambda task: question.end(task.exception() or task.result())
        )
        return question

    def let_pass(self, seconds: float, *, jumps: bool = False) -> None:
        """Let time pass; a clock that jumps has done most of it at once."""
        world = self.world
        if jumps:
            world.now += seconds
            seconds = 0.0
        end = world.now + max(seconds, 0.05)
        world.later(end - world.now, lambda: None)
        self.run_until(lambda: world.now >= end, seconds + 1.0)

    def connect(self, host: str) -> Connection:
        """Connect a client at a host."""
        return self.world.network.dial(PORT, host)

    def stop(self) -> Any:
        """Stop the broker as SIGTERM does; return what `Broker.stop` does.

        Raises:
            Silent: It has not stopped in time, or a thread, task or connection of it goes on.
        """
        self.world.is_serving = False
        result = self.run(self._broker.stop())
        threads = [each.name for each in self.world.threads]
        if threads or self.tasks or self.world.network.connections:
            ports = [each.port for each in self.world.network.connections.values()]
            raise Silent(
                f"after a stop go on: threads {threads}, tasks {self.tasks}, connections {ports}"
            )
        self.kill()  # descriptors end with the process
        self.world.disk.install()
        return result

    def kill(self, power: Random | None = None) -> None:
        """End the process at once; with ``power`` the power goes, and choices say what is left."""
        world = self.world
        self._end()
        disk = world.disk
        world.disk = disk.kill() if power is None else disk.cut(power, world.late_cuts)

    def _end(self) -> None:
        world = self.world
        loop = self._loop
        assert loop is not None
        task = asyncio.current_task(loop)
        if task is not None:
            asyncio.tasks._leave_task(loop, task)
        asyncio._set_running_loop(None)
        world.bury(self._machine, self._broker, loop, world.network)
        self._machine = self._broker = self._loop = self._ended = None
        gc.unfreeze()

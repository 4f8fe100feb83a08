"""Puts a world in the place of the seams, so that a broker that is created lives in it."""

from __future__ import annotations

import logging
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

from siltstone.broker.api import APIS
from siltstone.broker.http import health
from siltstone.broker.net import buffers
from siltstone.broker.process import _sockets, sockets
from siltstone.broker.server import COORDINATOR_MODULES, PAGE_MODULES
from siltstone.cleaner.one_pass.cleaner import Cleaner
from siltstone.storage import clock, log_lock, randomness, threads
from tests.simulator.world.threads import Threads

if TYPE_CHECKING:
    from siltstone.storage.log_lock import LogLock
    from tests.simulator.world.world import World

_CLEAN: Final = Cleaner.clean
_TICK_SECONDS: Final = 5.0
"""How often a loop without delays is looked at for delays; ten times a second takes long."""


class _Errors(logging.Handler):
    """Gives errors that the broker logs to its world."""

    def __init__(self) -> None:
        super().__init__(logging.ERROR)
        self.told: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        """Note an error."""
        self.told.append(record.getMessage())


_ERRORS: Final = _Errors()


def preload() -> None:
    """Import all that a broker imports late, so that every history does the same."""
    for name in (*COORDINATOR_MODULES, *PAGE_MODULES):
        import_module(name)
    for api in APIS:
        api.load()
        api.load_messages()
    logging.disable(logging.WARNING)
    logging.getLogger().addHandler(_ERRORS)


def install(world: World) -> None:
    """Have the seams answer from a world; its disk is installed by itself."""
    clock.route.through = world
    randomness.source = world.noise.randbytes
    _ERRORS.told = world.errors
    for name, value in Threads(world).names().items():
        setattr(threads, name, value)
    for name, value in world.network.names().items():
        setattr(sockets, name, value)
    _sockets.route.through = world.network

    def wait_for(lock: LogLock) -> None:
        world.wait(lock.take_now)

    def clean(*given: Any) -> Any:
        if not world.has_memory():
            raise MemoryError("no memory for an offset map")
        return _CLEAN(*given)

    health.TICK_SECONDS = _TICK_SECONDS
    log_lock.wait_for = wait_for
    buffers.new_pages = world.new_pages
    Cleaner.clean = clean  # type: ignore[assignment,method-assign]  # its map is mapped in C
    world.disk.install()

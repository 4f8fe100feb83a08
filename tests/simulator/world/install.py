"""Puts a world in the place of the seams, so that a broker that is created lives in it."""

from __future__ import annotations

import logging
from importlib import import_module
from typing import TYPE_CHECKING, Final

from siltstone.broker.api import APIS
from siltstone.broker.process import _sockets, sockets
from siltstone.broker.server import COORDINATOR_MODULES, PAGE_MODULES
from siltstone.storage import clock, log_lock, randomness, threads
from tests.simulator.world.threads import Threads

if TYPE_CHECKING:
    from siltstone.storage.log_lock import LogLock
    from tests.simulator.world.world import World

_HANDLERS: Final = "siltstone.broker.handlers."


def preload() -> None:
    """Import all that a broker imports late, so that every history does the same."""
    for name in (*COORDINATOR_MODULES, *PAGE_MODULES):
        import_module(name)
    for api in APIS:
        api.load()
        api.load_messages()
    logging.disable(logging.CRITICAL)


def install(world: World) -> None:
    """Have the seams answer from a world; its disk is installed by itself."""
    clock.route.through = world
    randomness.source = world.noise.randbytes
    for name, value in Threads(world).names().items():
        setattr(threads, name, value)
    for name, value in world.network.names().items():
        setattr(sockets, name, value)
    _sockets.route.through = world.network

    def wait_for(lock: LogLock) -> None:
        world.wait(lock.take_now)

    log_lock.wait_for = wait_for
    world.disk.install()

"""``siltstone serve`` as a process: its loop, its signals, its exit code."""

from __future__ import annotations

import asyncio
import logging
import signal
import sys
from typing import TYPE_CHECKING

import uvloop

from siltstone.broker.process.limits import raise_open_files
from siltstone.broker.process.tasks import Tasks
from siltstone.broker.server import Broker, StartError
from siltstone.storage.clock import Clock

if TYPE_CHECKING:
    from siltstone.config.layers import Layers

__all__ = ["StartError", "run"]

log = logging.getLogger(__name__)

# A thread that computes while holding the GIL costs the loop one interval for each system call.
_SWITCH_INTERVAL_SECONDS = 0.0005

_STOPS = (signal.SIGTERM, signal.SIGINT)
_RELOADS = signal.SIGHUP


def run(layers: Layers) -> int:
    """Serve until a signal of `_STOPS`, stop gracefully, and return the exit code.

    `_RELOADS` has the settings read again, as of other daemons; nohup changes nothing in that.

    Raises:
        StartError: The broker cannot start; the text says why in a sentence.
    """
    raise_open_files()
    sys.setswitchinterval(_SWITCH_INTERVAL_SECONDS)
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        return runner.run(_serve(layers))


async def _serve(layers: Layers) -> int:
    loop = asyncio.get_running_loop()
    stop = asyncio.Event()
    for number in _STOPS:
        if signal.getsignal(number) is not signal.SIG_IGN:  # as of a job in the background
            loop.add_signal_handler(number, _on_signal, number, stop)
    hang_up = asyncio.Event()
    loop.add_signal_handler(_RELOADS, hang_up.set)
    for warning in layers.warnings:
        log.warning("%s", warning)
    broker = Broker(layers, Clock(), stop)
    tasks = Tasks()
    try:
        await broker.start()
        tasks.start(_reload_on(hang_up, broker), "reloads")
        await stop.wait()
    finally:
        await tasks.cancel()
        clean = await broker.stop()
    return 0 if clean else 1


async def _reload_on(hang_up: asyncio.Event, broker: Broker) -> None:
    """Reload after each signal; those that come meanwhile, or during the start, count as one."""
    while True:
        await hang_up.wait()
        hang_up.clear()
        log.info("reloading signal=%s", _RELOADS.name)
        await broker.reload()


def _on_signal(number: signal.Signals, stop: asyncio.Event) -> None:
    log.info("stopping signal=%s", signal.Signals(number).name)
    stop.set()

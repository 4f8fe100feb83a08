"""``siltstone serve`` as a process: its loop, its signals, its exit code."""

from __future__ import annotations

import asyncio
import logging
import signal
import sys
from typing import TYPE_CHECKING

import uvloop

from siltstone.broker.process.limits import raise_open_files
from siltstone.broker.server import Broker, StartError
from siltstone.storage.clock import Clock

if TYPE_CHECKING:
    from siltstone.config.layers import Layers

__all__ = ["StartError", "run"]

log = logging.getLogger(__name__)

# A thread that computes while holding the GIL costs the loop one interval for each system call.
_SWITCH_INTERVAL_SECONDS = 0.0005

# As Kafka: a terminal that is closed is no reason to recover at the next start.
_STOPS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)


def run(layers: Layers) -> int:
    """Serve until a signal of `_STOPS`, stop gracefully, and return the exit code.

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
        if signal.getsignal(number) is not signal.SIG_IGN:  # nohup: not to be stopped by it
            loop.add_signal_handler(number, _on_signal, number, stop)
    for warning in layers.warnings:
        log.warning("%s", warning)
    broker = Broker(layers, Clock(), stop)
    try:
        await broker.start()
        await stop.wait()
    finally:
        clean = await broker.stop()
    return 0 if clean else 1


def _on_signal(number: signal.Signals, stop: asyncio.Event) -> None:
    log.info("stopping signal=%s", signal.Signals(number).name)
    stop.set()

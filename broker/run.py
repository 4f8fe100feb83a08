"""``siltstone serve`` as a process: its loop, its signals, its exit code."""

import asyncio
import logging
import os
import resource
import signal
import sys
from pathlib import Path

import uvloop

from siltstone.broker.process.notify import ReadyFile, ServiceManager
from siltstone.broker.process.tasks import Tasks
from siltstone.broker.process.trial import NO_TRIAL, Trial
from siltstone.broker.server import Broker
from siltstone.config.errors import StartError
from siltstone.config.layers import Layers
from siltstone.storage.clock import Clock

_logger = logging.getLogger(__name__)

# While a thread holds the GIL, each system call of the loop waits up to one interval for the GIL.
_SWITCH_INTERVAL_SECONDS = 0.0005

_STOPS = (signal.SIGTERM, signal.SIGINT)
_RELOADS = signal.SIGHUP
_SERVING = "serving clients"


def run(layers: Layers, trial: Trial = NO_TRIAL, ready_file: Path | None = None) -> int:
    """Serve until a signal of `_STOPS`, stop gracefully, and return the exit code.

    The signal `_RELOADS` makes the broker read its settings again, as in other daemons, also under
    nohup. ``ready_file`` is written when the broker is ready.

    Raises:
        StartError: The broker cannot start; the text says why in a sentence.
    """
    raise_open_files()
    sys.setswitchinterval(_SWITCH_INTERVAL_SECONDS)
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        told = None if ready_file is None else ReadyFile(ready_file)
        return runner.run(_serve(layers, trial, told))


async def _serve(layers: Layers, trial: Trial, ready_file: ReadyFile | None) -> int:
    loop = asyncio.get_running_loop()
    stop = asyncio.Event()
    for number in _STOPS:
        if signal.getsignal(number) is not signal.SIG_IGN:  # a job in the background ignores SIGINT
            loop.add_signal_handler(number, _on_signal, number, stop)
    hang_up = asyncio.Event()
    loop.add_signal_handler(_RELOADS, hang_up.set)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, [_RELOADS])  # `siltstone serve` has it wait
    for warning in layers.warnings:
        _logger.warning("%s", warning)
    manager = ServiceManager(os.environ, Clock())
    broker = Broker(layers, trial.make_clock(), stop, trial)
    tasks = Tasks()
    try:
        fault = None if ready_file is None else ready_file.clear()
        if fault is not None:
            raise StartError(fault)
        await broker.start()
        if not stop.is_set():
            manager.ready(_SERVING)
            tasks.start(_reload_on(hang_up, broker, manager), "reloads")
            if ready_file is not None:
                tasks.start(_tell_ready(ready_file, broker, stop), "ready file")
        await stop.wait()
    finally:
        manager.stopping()
        if ready_file is not None:
            ready_file.remove()
        await tasks.cancel()
        clean = await broker.stop()
        _ignore_signals(loop)
    return 0 if clean else 1


def _ignore_signals(loop: asyncio.AbstractEventLoop) -> None:
    """Have no signal end a process that has stopped, so that its exit code says how."""
    numbers = (*_STOPS, _RELOADS)
    signal.pthread_sigmask(signal.SIG_BLOCK, numbers)  # while they have their default action
    for number in numbers:
        loop.remove_signal_handler(number)
        signal.signal(number, signal.SIG_IGN)


async def _tell_ready(ready_file: ReadyFile, broker: Broker, stop: asyncio.Event) -> None:
    """Write the file when the broker is ready; if that fails, stop: a reader would wait forever."""
    await broker.wait_until_ready()
    if not ready_file.write(broker.describe()):
        stop.set()


async def _reload_on(hang_up: asyncio.Event, broker: Broker, manager: ServiceManager) -> None:
    """Reload after each signal; signals during a reload, or during the start, count as one."""
    while True:
        await hang_up.wait()
        hang_up.clear()
        _logger.info("reloading signal=%s", _RELOADS.name)
        manager.reloading()
        await broker.reload()
        manager.ready(_SERVING)


def _on_signal(number: signal.Signals, stop: asyncio.Event) -> None:
    _logger.info("stopping signal=%s", signal.Signals(number).name)
    stop.set()


_WANTED_FILES = 1_000_000
_SCARCE_FILES = 10_000


def raise_open_files() -> int:
    """Raise RLIMIT_NOFILE as far as the system allows, and return it; warn if it is low.

    Every partition and client needs an open file.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = _WANTED_FILES if hard == resource.RLIM_INFINITY else hard
    if soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
        soft = wanted
    if soft < _SCARCE_FILES:
        _logger.warning(
            "few open files allowed limit=%d: each partition and each client needs one; raise the "
            "hard limit (ulimit -Hn, or LimitNOFILE= of the service)",
            soft,
        )
    return soft

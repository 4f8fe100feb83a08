"""How long the loop takes to answer while something else runs, told from noise of the machine.

A thread that computes with the GIL gives it up after a switch interval, one that waits at once.
So a long interval makes the former stand out: each time it gets the GIL the loop stands still for
that long, where a busy processor costs it some milliseconds. The client is a process of its own,
and a measurement is the best of several windows.
"""

import asyncio
import os
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import NamedTuple

from tests.support import pinging

WINDOWS = 3
WINDOW_SECONDS = 0.3
INTERVAL_SECONDS = 0.1


class Latency(NamedTuple):
    """Seconds per round trip: the median, and what a client waits that comes at a bad moment.

    ``late``: four tenths of the time are spent in longer ones. Counting round trips instead would
    hide a pause in the thousands that are made outside of it; a smaller share of the time, in the
    pauses that other users of the processors make.
    """

    median: float
    late: float

    @property
    def noise(self) -> float:
        """The largest ``late`` that means nothing beside this baseline of the same run."""
        return 4 * self.late + INTERVAL_SECONDS / 5

    def is_noticed_beside(self, base: "Latency") -> bool:
        """Tell whether this is more than noise over a baseline of the same run."""
        return self.late > base.noise


async def measure(port: int, enough: float = 0.0) -> Latency:
    """Return the best of several windows of round trips to the broker in this loop.

    The first whose ``late`` is not above ``enough`` is the last. With the noise of a baseline that
    changes no verdict: one such window says that nothing is noticed.
    """
    loop = f"/proc/{os.getpid()}/task/{threading.get_native_id()}"
    command = [
        sys.executable,
        pinging.__file__,
        *map(str, (port, WINDOWS, WINDOW_SECONDS, enough, loop)),
    ]
    finished = await asyncio.to_thread(
        subprocess.run, command, stdout=subprocess.PIPE, check=True, timeout=60
    )
    windows = [Latency(*map(float, line.split())) for line in finished.stdout.splitlines()]
    return min(windows, key=lambda each: each.late)


@contextmanager
def busy_thread(work: Callable[[], object]) -> Iterator[None]:
    """Have a thread do some work again and again; it must have done it once."""
    stop = threading.Event()
    rounds = 0

    def run() -> None:
        nonlocal rounds
        while not stop.is_set():
            work()
            rounds += 1

    thread = threading.Thread(target=run, name="busy")
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()
    assert rounds

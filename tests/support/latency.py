"""Measures how long the loop takes to answer while something else runs.

A thread that computes keeps the GIL for a switch interval; one that waits gives it up at once. So
with a long interval a computing thread is noticed: it stops the loop for that long each time, while
a busy processor costs the loop only some milliseconds. The client is a process of its own, and a
measurement is the best of several windows.
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

    Four tenths of the time are spent in round trips longer than ``late``. A share of the number of
    round trips would hide a pause among thousands of short ones; with a smaller share of the time,
    pauses by other programs would count.
    """

    median: float
    late: float

    @property
    def noise(self) -> float:
        """The largest ``late`` that counts as noise, given this baseline of the same run."""
        return 4 * self.late + INTERVAL_SECONDS / 5

    def is_noticed_beside(self, base: "Latency") -> bool:
        """Tell whether this is more than noise over a baseline of the same run."""
        return self.late > base.noise


async def measure(port: int, enough: float = 0.0) -> Latency:
    """Return the best of several windows of round trips to the broker in this loop.

    It stops at the first window whose ``late`` is not above ``enough``. If ``enough`` is the noise
    of a baseline, this changes no verdict: one such window shows that there is no pause.
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
    """Let a thread repeat some work; fail unless it has done it at least once."""
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

"""Plays many histories, in processes that play a few dozen each and end.

A killed broker stays in the memory of its process.
"""

from __future__ import annotations

import gc
import multiprocessing
import time
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

from tests.simulator.history import draw, play
from tests.simulator.world.install import preload

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

HISTORIES_OF_A_PROCESS = 40


class Outcome(NamedTuple):
    """The outcome of one history."""

    seed: int
    fault: str | None
    seconds: float
    """Processor time."""
    facts: dict[str, Any]
    """Counters that are summed up over histories."""


def begin() -> None:
    """Prepare a process: import all, and collect garbage only between histories."""
    preload()
    gc.disable()


def run_seed(seed: int, steps: int) -> Outcome:
    """Play one seed."""
    began = time.process_time()
    history, fault = play(draw(seed, steps))
    facts = {"calls": history.world.calls, "restarts": len(history.restarts)}
    return Outcome(seed, fault, time.process_time() - began, facts)


def run_all(seeds: Sequence[int], steps: int, processes: int) -> Iterator[Outcome]:
    """Play many seeds, in the order in which they end."""
    context = multiprocessing.get_context("spawn")
    with context.Pool(processes, begin, maxtasksperchild=HISTORIES_OF_A_PROCESS) as pool:
        yield from pool.imap_unordered(partial(run_seed, steps=steps), seeds, chunksize=1)

"""Plays many histories, in processes that play a few dozen each and end.

A killed broker stays in the memory of its process.
"""

from __future__ import annotations

import atexit
import gc
import multiprocessing
import os
from collections import Counter
from functools import partial
from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple

from tests.simulator.history import draw, find_sites, play
from tests.simulator.sites import Site, listed
from tests.simulator.world.disk import Disk
from tests.simulator.world.install import preload

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

HISTORIES_OF_A_PROCESS = 40
LOT = 10
"""Histories that a process plays before it reports."""


class Outcome(NamedTuple):
    """The outcome of the histories of some seeds, as JSON can hold it."""

    first: int
    end: int
    seconds: float
    """Processor time."""
    wrong: list[tuple[int, str]]
    """Seeds, and what was wrong."""
    facts: dict[str, int]
    """Counters of what happened."""
    seen: list[tuple[Site, int]]
    """The sites of the list that were reached, and by how many histories."""
    hit: list[tuple[Site, int]]
    """The sites of the list that failed, and in how many histories."""


def begin() -> None:
    """Prepare a process: import all, and collect garbage only between histories."""
    preload()
    gc.disable()
    atexit.register(Disk.uninstall)


def run_lot(bounds: tuple[int, int], steps: int, images: int = 1) -> Outcome:
    """Play the histories of some seeds one after the other."""
    began = sum(os.times()[:4])
    facts: Counter[str] = Counter()
    seen: Counter[Site] = Counter()
    hit: Counter[Site] = Counter()
    wrong = []
    for seed in range(*bounds):
        history, fault = play(draw(seed, steps), images=images)
        if fault is not None:
            wrong.append((seed, fault))
        facts["calls of the disk"] += history.world.calls
        facts["switches of threads"] += history.world.switches
        facts["faults"] += history.faults.hit.total()
        for way in history.restarts:
            facts[f"restarts by {way}"] += 1
        facts["further disks of power failures"] += history.judged_images
        facts["deaths in a start"] += history.deaths_in_a_start
        facts["starts that failed"] += history.failed_starts
        seen.update({listed(site) for site in history.faults.seen})
        hit.update({listed(site) for site in history.faults.hit})
        Disk.uninstall()  # what is freed now closes no file of the next history
        del history
    cost = sum(os.times()[:4]) - began
    return Outcome(*bounds, cost, wrong, dict(facts), sorted(seen.items()), sorted(hit.items()))


def lots(first: int, count: int) -> list[tuple[int, int]]:
    """Return seeds in lots: the same ones wherever a campaign begins, so that it can go on."""
    end = first + count
    edges = [first, *range(first - first % LOT + LOT, end, LOT), end]
    return list(pairwise(edges))


def run_all(
    lots: Iterable[tuple[int, int]], steps: int, processes: int, images: int = 1
) -> Iterator[Outcome]:
    """Play many lots, in the order in which they end.

    All that the processes need is imported and found out here, once for all of them.
    """
    begin()
    find_sites()
    context = multiprocessing.get_context("fork")
    most = HISTORIES_OF_A_PROCESS // LOT
    with context.Pool(processes, maxtasksperchild=most) as pool:
        yield from pool.imap_unordered(
            partial(run_lot, steps=steps, images=images), lots, chunksize=1
        )

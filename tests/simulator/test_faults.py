"""Faults of the simulated disk: the call that a fault names fails in its way, and no other."""

import errno
import json
from random import Random
from typing import Any

import pytest

from tests.simulator.faults import (
    DESCRIPTOR,
    INODE,
    IO,
    NEVER,
    SHORT,
    SLOW,
    SPACE,
    Fault,
    Faults,
    draw_wishes,
    read_rare,
    turn_of,
)
from tests.simulator.sites import Site

LOG = Site("pwrite", "storage/log/log.py", "Log.append by write_at")
INDEX = Site("pwrite", "storage/segment/index.py", "Index.flush")
NEW = Site("create", "storage/segment/segment.py", "LogSegment._create_file")
SYNC = Site("fsync", "storage/segment/segment.py", "LogSegment.flush")


class Trial:
    """Faults, and calls from sites that a test names."""

    def __init__(self, *preferred: Site, **more: Any) -> None:
        self.waited: list[float] = []
        self._site = LOG
        self.faults = Faults(
            self.waited.append,
            lambda: self.waited.append(-1),
            preferred,
            find_site=lambda _: self._site,
            **more,
        )

    def call(self, site: Site, size: int = 0) -> int:
        """Call the disk from a site; return the size, or the negative number of an error."""
        self._site = site
        try:
            return self.faults.before(site.kind, "/sim/a", size)
        except OSError as error:
            return -(error.errno or 0)


@pytest.mark.parametrize(
    ("what", "site", "number"),
    [
        (SPACE, LOG, errno.ENOSPC),
        (INODE, NEW, errno.ENOSPC),
        (DESCRIPTOR, NEW, errno.EMFILE),
        (IO, SYNC, errno.EIO),
    ],
)
def test_a_call_fails_once(what: str, site: Site, number: int) -> None:
    """With the error of its fault, and is counted; the site is seen."""
    trial = Trial()
    trial.faults.arm(Fault(what))
    assert [trial.call(site) for _ in range(3)] == [-number, 0, 0]
    assert (trial.faults.hit, trial.faults.seen) == ({site: 1}, {site: True})


def test_an_error_names_the_path_that_was_given() -> None:
    """One of an open file names none, as from the system."""
    trial = Trial()
    trial.faults.arm(Fault(IO, is_sticky=True))
    for kind, path in (("create", "/sim/a"), ("fsync", None)):
        with pytest.raises(OSError, match="Input/output") as caught:
            trial.faults.before(kind, "/sim/a", 0)
        assert caught.value.filename == path


def test_a_fault_waits_for_a_call_that_can_fail_so() -> None:
    """No fsync lacks an inode."""
    trial = Trial()
    trial.faults.arm(Fault(INODE))
    assert [trial.call(site) for site in (SYNC, LOG, NEW)] == [0, 0, -errno.ENOSPC]


def test_calls_are_slow_short_and_endless() -> None:
    """A short one does a part, at least a byte and never all."""
    trial = Trial()
    for fault in (Fault(SLOW, amount=9), Fault(NEVER, nth=2), Fault(SHORT, amount=0.25, nth=3)):
        trial.faults.arm(fault)
    assert [trial.call(LOG, 100) for _ in range(4)] == [100, 100, 25, 100]
    assert trial.waited == [9, -1]
    trial.faults.arm(Fault(SHORT, amount=1, is_sticky=True))
    assert [trial.call(LOG, size) for size in (0, 1, 2)] == [0, 1, 1]


def test_a_site_fails_until_it_is_mended() -> None:
    """From its second call on, and no other site with it."""
    trial = Trial()
    fault = Fault(IO, *INDEX, nth=2, is_sticky=True)
    assert trial.faults.arm(fault) == fault
    assert [trial.call(site) for site in (INDEX, LOG, INDEX, LOG, INDEX)] == [0, 0, -5, 0, -5]
    trial.faults.mend()
    assert trial.call(INDEX) == 0


def test_a_log_directory_fails_alone() -> None:
    """Whatever site calls."""
    trial = Trial()
    trial.faults.arm(Fault(IO, below="/sim/b/"))
    assert trial.call(LOG) == 0
    trial.faults.arm(Fault(IO, below="/sim/a"))
    assert trial.call(LOG) == -errno.EIO


def test_a_compiled_site_has_its_name_in_the_list_too() -> None:
    """All sites of a compiled function fail by it."""
    trial = Trial()
    trial.faults.arm(Fault(IO, "pwrite", "storage/files/_disk.pyx", "write_at", is_sticky=True))
    assert [trial.call(site) for site in (INDEX, LOG)] == [0, -5]


def test_a_rank_counts_what_this_history_has_seen() -> None:
    """Sites without a place come first, as they were seen, then the others by their places."""
    trial = Trial(INDEX, Site("pwrite", "storage/files/_disk.pyx", "write_at"))
    assert trial.faults.arm(Fault(SPACE, rank=0)) is None
    for site in (LOG, SYNC, INDEX, NEW):
        trial.call(site)
    assert trial.faults.candidates(SPACE) == [SYNC, NEW, INDEX, LOG]
    assert trial.faults.candidates(INODE) == [NEW]
    assert trial.faults.arm(Fault(SPACE, rank=7)) == Fault(SPACE, *LOG)
    assert [trial.call(site) for site in (INDEX, LOG)] == [0, -errno.ENOSPC]


def test_a_fault_is_data() -> None:
    """A history that was stored has the same faults."""
    fault = Fault(SHORT, rank=3, nth=2, amount=0.1)
    assert Fault(*json.loads(json.dumps(fault))) == fault


def test_each_site_has_its_turn() -> None:
    """In as many seeds as there are sites, in another order the next time."""
    sites = [INDEX, NEW, SYNC]
    assert {turn_of(seed, sites)[0] for seed in range(3)} == set(sites)
    assert len({tuple(turn_of(seed, sites)) for seed in range(60)}) == 6
    assert turn_of(5, sites) == turn_of(5, sites[::-1])


def test_a_wish_waits_for_its_call_whatever_is_mended() -> None:
    """It comes true once, is told, and not while wishes are not heard."""
    told: list[Fault] = []
    trial = Trial(tell=told.append)
    wish = Fault(IO, *NEW, nth=2)
    trial.faults.wish(wish)
    trial.faults.mend()
    assert [trial.call(site) for site in (SYNC, NEW)] == [0, 0]
    trial.faults.are_wishes_heard = False
    assert trial.call(NEW) == 0
    trial.faults.are_wishes_heard = True
    assert [trial.call(NEW) for _ in range(2)] == [-errno.EIO, 0]
    assert told == trial.faults.came_true == [wish]
    assert trial.faults.is_lasting


def test_sites_of_a_start_have_no_rank() -> None:
    """Nothing comes to them before the fault is mended."""
    trial = Trial()
    trial.faults.is_starting = True
    trial.call(NEW)
    trial.faults.is_starting = False
    trial.call(SYNC)
    assert trial.faults.candidates(SPACE) == [SYNC]


def test_wishes_can_come_true() -> None:
    """Each is for a way in which its call can fail, and every rare site gets one."""
    wanted: set[Site] = set()
    for seed in range(400):
        for wish in draw_wishes(Random(seed), [INDEX, NEW, SYNC]):
            site = Site(wish.kind, wish.file, wish.function)
            assert wish.fits(site, "/sim/a")
            wanted.add(site)
    assert wanted == {INDEX, NEW, *read_rare()}

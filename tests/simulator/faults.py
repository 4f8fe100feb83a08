"""Faults of the simulated disk: which call fails next, and how.

A `Fault` is data, which a step of a history holds as JSON. It names its calls by kind, file and
function, by any of them, or by rank. A rank counts the sites that this history has seen when the
fault is armed and that can fail so: sites that the history is not told about come first, in the
order in which they were seen, then the others in the order in which the history names them.
So a fault depends on the steps before it and on that order alone, which is data as well: the same
seed gives the same history in a fresh process. Sites of a start have no rank: nothing comes to them
before a fault is mended.

Faults should reach every site, and first the one that has failed least. `turn_of` makes the order
of a seed: of as many seeds as there are sites each has another site first. A wish is a fault that
names its site and waits for it from the beginning on, in a start or a recovery too, whatever is
mended meanwhile: `rare_sites.tsv` has the sites that few histories come to, or that have failed
least, and each history wishes for some of them.
"""

from __future__ import annotations

import errno
import os
from collections import Counter
from functools import cache
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Final, NamedTuple

from tests.simulator.sites import Site, listed, where
from tests.simulator.world.disk import CALLS

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

_WRITES: Final = frozenset({"pwrite", "write", "copy_file_range"})
_READS: Final = frozenset({"pread", "preadv", "read"})
_CREATES: Final = frozenset({"create", "mkdir"})
_KINDS: Final = frozenset({"create", *CALLS})
RARE: Final = Path(__file__).with_name("rare_sites.tsv")
_BY_DESCRIPTOR: Final = _WRITES | _READS | {
    *("close", "fallocate", "fcntl", "fstat", "fsync", "ftruncate", "lockf", "posix_fadvise"),
    "sync_file_range",
}  # fmt: skip

SPACE: Final = "space"
INODE: Final = "inode"
DESCRIPTOR: Final = "descriptor"
IO: Final = "io"
SHORT: Final = "short"
SLOW: Final = "slow"
START: Final = "start"
BEHIND: Final = "behind"
NEVER: Final = "never"
DIES: Final = "dies"
CHANGES: Final = frozenset(
    {"create", "fallocate", "fsync", "ftruncate", "pwrite", "rename", "unlink"}
)
FAILS: Final = {
    SPACE: _WRITES | _CREATES | {"fallocate", "link", "rename", "fsync"},
    INODE: _CREATES,
    DESCRIPTOR: frozenset({"create", "open", "scan", "listdir", "memfd_create"}),
    IO: _KINDS - {"close", "memfd_create", "posix_fadvise"},
    SHORT: _WRITES | _READS,
    SLOW: _KINDS,
    NEVER: _KINDS,
}
"""The kinds of calls that can fail in each way."""
NUMBERS: Final = {
    SPACE: errno.ENOSPC,
    INODE: errno.ENOSPC,
    DESCRIPTOR: errno.EMFILE,
    IO: errno.EIO,
}


class Fault(NamedTuple):
    """A way to fail, and the calls that are meant; ``Fault(*data)`` makes one of JSON."""

    what: str
    kind: str = ""
    file: str = ""
    function: str = ""
    rank: int = -1
    """The place among the sites seen so far, from 0 on, round and round; -1: as named above."""
    nth: int = 1
    """The first call that fails, counted from now on."""
    is_sticky: bool = False
    """All later calls fail as well, until the disk is mended."""
    amount: float = 0.5
    """How many seconds a slow call takes; which share of a short one is done."""
    below: str = ""
    """The beginning of the paths that fail, such as that of a log directory."""
    when: str = ""
    """Whether a wish is for a start or for what comes behind it; empty: for what comes first.

    A log directory fails up to the next start, or in that as well."""

    def fits(self, site: Site, path: str) -> bool:
        """Tell whether a call is meant, by the name of its site on the stack or in the list."""
        return (
            self.kind in {"", site.kind}
            and site.kind in _kinds_of(self.what)
            and path.startswith(self.below)
            and (self._names(site) or self._names(listed(site)))
        )

    def _names(self, site: Site) -> bool:
        return self.file in {"", site.file} and self.function in {"", site.function}


def _kinds_of(what: str) -> frozenset[str]:
    return CHANGES if what == DIES else FAILS[what]


class _Armed:
    """A fault that waits for its call."""

    def __init__(self, fault: Fault) -> None:
        self.fault = fault
        self.left = fault.nth


class Faults:
    """Makes calls of the disk fail as faults say.

    ``slow`` lets virtual seconds pass, ``park`` never returns; ``tell`` gets the wishes that come
    true.
    """

    def __init__(
        self,
        slow: Callable[[float], None],
        park: Callable[[], None],
        preferred: Sequence[Site] = (),
        tell: Callable[[Fault], None] = lambda _: None,
        find_site: Callable[[str], Site] = where,
    ) -> None:
        self.seen: dict[Site, bool] = {}
        """The sites that this history came to, and whether each has a rank."""
        self.is_starting = False
        """Whether the broker starts: what is seen now has no rank."""
        self.are_wishes_heard = True
        """Whether a wish may come true now; not while the history is judged."""
        self.came_true: list[Fault] = []
        """The wishes that did."""
        self.struck: Callable[[], None] | None = None
        """Is called once, when the next call fails."""
        self.die: Callable[[], None] = lambda: None
        """Kills the process."""
        self.is_lasting = False
        """Whether there was an error that the broker remembers up to its end."""
        self.hit = Counter[Site]()
        """How often each site failed in this history."""
        self.hit_below = 0
        """How many of these since the last start were below the paths of their faults."""
        self._slow, self._park, self._tell = slow, park, tell
        self._places = {site: place for place, site in enumerate(preferred)}
        self._find_site = find_site
        self._armed: list[_Armed] = []
        self._wishes: dict[Site, _Armed] = {}
        self._ranked: dict[Site, None] = {}
        self._usual: set[Site] = set()
        """The sites of which all is known: they have a rank, and no wish waits for them."""

    def wish(self, fault: Fault) -> None:
        """Have a call of a named site fail, whenever it comes."""
        self._wishes[Site(fault.kind, fault.file, fault.function)] = _Armed(fault)
        self._usual.clear()

    def arm(self, fault: Fault) -> Fault | None:
        """Have a call fail; return the fault with its site named, None if no site fits its rank."""
        if fault.rank >= 0:
            sites = self.candidates(fault.what)
            if not sites:
                return None
            fault = fault._replace(rank=-1, **sites[fault.rank % len(sites)]._asdict())
        self._armed.append(_Armed(fault))
        return fault

    def is_armed(self, fault: Fault) -> bool:
        """Tell whether a fault still waits for calls."""
        return any(each.fault is fault for each in self._armed)

    def mend(self) -> None:
        """Have nothing fail any more."""
        self._armed.clear()

    def candidates(self, what: str) -> list[Site]:
        """Return the sites seen so far that can fail in a way, in the order of their ranks."""
        sites = [site for site in self._ranked if site.kind in _kinds_of(what)]
        return sorted(sites, key=lambda site: self._places.get(listed(site), -1))

    def before(self, kind: str, path: str, size: int) -> int:
        """Return how many bytes are written or read; for `Disk.before`.

        Raises:
            OSError: A fault says so.
        """
        site = self._find_site(kind)
        if site not in self._usual:
            size = self._look(site, kind, path, size)
        for each in self._armed[:] if self._armed else ():
            if each in self._armed and each.fault.fits(site, path):
                each.left -= 1
                if each.left <= 0:
                    if not each.fault.is_sticky:
                        self._armed.remove(each)
                    if each.fault.what == DIES:
                        self.die()
                    self.hit[site] += 1
                    self.hit_below += bool(each.fault.below)
                    size = self._strike(each.fault, kind, path, size)
        return size

    def _look(self, site: Site, kind: str, path: str, size: int) -> int:
        """Note that a call has come to a site, and have a wish for it come true."""
        if not self.seen.get(site):
            self.seen[site] = not self.is_starting
            if not self.is_starting:
                self._ranked[site] = None
        if listed(site) in self._wishes:
            return self._hear(site, kind, path, size) if self.are_wishes_heard else size
        if self.seen[site]:
            self._usual.add(site)
        return size

    def _hear(self, site: Site, kind: str, path: str, size: int) -> int:
        """Have a wish for a site come true."""
        wish = self._wishes[listed(site)]
        if wish.fault.when and (wish.fault.when == START) != self.is_starting:
            return size
        wish.left -= 1
        if wish.left > 0:
            return size
        del self._wishes[listed(site)]
        self.hit[site] += 1
        self.came_true.append(wish.fault)
        self._tell(wish.fault)
        return self._strike(wish.fault, kind, path, size)

    def _strike(self, fault: Fault, kind: str, path: str, size: int) -> int:
        if self.struck is not None:
            struck, self.struck = self.struck, None
            struck()
        if fault.what in NUMBERS and (fault.what == IO or kind == "fsync"):
            self.is_lasting = True
        if fault.what in NUMBERS:
            number = NUMBERS[fault.what]
            raise OSError(number, os.strerror(number), *([] if kind in _BY_DESCRIPTOR else [path]))
        if fault.what == SLOW:
            self._slow(fault.amount)
        elif fault.what == NEVER:
            self._park()
        elif size > 1:
            return min(max(1, int(size * fault.amount)), size - 1)
        return size


def turn_of(seed: int, sites: Sequence[Site]) -> list[Site]:
    """Return an order of the sites for a seed: each site is the first of one seed in a row."""
    lap, turn = divmod(seed, len(sites))
    order = sorted(sites)
    Random(lap).shuffle(order)
    return order[turn:] + order[:turn]


@cache
def read_rare() -> list[Site]:
    """Return the sites that few histories come to, or that have failed least."""
    return [Site(*line.split("\t")) for line in RARE.read_text().splitlines()]


def draw_wishes(rng: Random, turn: Sequence[Site]) -> list[Fault]:
    """Draw the wishes of a history: for the first sites of its turn, and for rare ones.

    Most wait until the broker serves, since each that comes true in a start costs one more start.
    """
    share = rng.choice((0.0, 0.0, 0.2, 0.6))
    wanted = [*turn[:2], *(site for site in read_rare() if rng.random() < share)]
    return [
        Fault(
            rng.choice([what for what in FAILS if what != NEVER and site.kind in FAILS[what]]),
            *site,
            nth=rng.choice((1, 1, 1, 2, 4)),
            amount=rng.choice((0.1, 0.5, 0.9)),
            when="" if site in turn[:2] else rng.choice((START, BEHIND, BEHIND, BEHIND)),
        )
        for site in dict.fromkeys(wanted)
    ]

"""Many histories: what is done is kept by commit, so that a campaign goes on where it was left."""

from __future__ import annotations

import json
import subprocess
import time
from collections import Counter
from typing import TYPE_CHECKING

from tests.simulator.runs import Outcome, lots, run_all
from tests.simulator.sites import Site, list_sites
from tools.house import PRODUCT
from tools.sources import Tree

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

_TELLS_EVERY_SECONDS = 60.0


def find_commit(root: Path) -> str | None:
    """Return the commit of the tree; None if the tree has changes, whose results do not last."""

    def git(*arguments: str) -> str:
        command = ["git", "-C", str(root), *arguments]
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()

    try:
        if git("status", "--porcelain", "--untracked-files=no"):
            return None
        return git("rev-parse", "--short=12", "HEAD")
    except (OSError, subprocess.CalledProcessError):
        return None


class Campaign:
    """The outcomes of many histories, and the file that keeps them if there is one."""

    def __init__(self, kept: Path | None) -> None:
        self._kept = kept
        self.outcomes: dict[tuple[int, int], Outcome] = {}
        if kept is not None and kept.exists():
            for line in kept.read_text().splitlines():
                self._add(_read(line))

    def _add(self, outcome: Outcome) -> None:
        self.outcomes[outcome.first, outcome.end] = outcome

    def run(
        self, first: int, count: int, steps: int, processes: int, images: int = 1
    ) -> list[Outcome]:
        """Play what was not played before; return the outcomes of all, by their seeds.

        Raises:
            OSError: The outcomes cannot be kept.
        """
        wanted = lots(first, count)
        left = [bounds for bounds in wanted if bounds not in self.outcomes]
        if len(left) < len(wanted):
            print(f"{len(wanted) - len(left)} of {len(wanted)} lots were played before", flush=True)
        told, done = time.monotonic(), 0
        for outcome in run_all(left, steps, processes, images):
            self._add(outcome)
            self._keep(outcome)
            done += outcome.end - outcome.first
            for seed, fault in outcome.wrong:
                print(f"seed {seed}: {fault}", flush=True)
            if time.monotonic() - told > _TELLS_EVERY_SECONDS:
                told = time.monotonic()
                print(f"{done} of {sum(b - a for a, b in left)} histories", flush=True)
        return [self.outcomes[bounds] for bounds in wanted]

    def _keep(self, outcome: Outcome) -> None:
        if self._kept is not None:
            self._kept.parent.mkdir(parents=True, exist_ok=True)
            with self._kept.open("a") as file:
                file.write(json.dumps(outcome) + "\n")


def _read(line: str) -> Outcome:
    first, end, seconds, wrong, facts, seen, hit = json.loads(line)
    sites = ([(Site(*each), count) for each, count in some] for some in (seen, hit))
    return Outcome(first, end, seconds, [(seed, fault) for seed, fault in wrong], facts, *sites)


def summarize(outcomes: Iterable[Outcome], root: Path, told: Path) -> str:
    """Return the figures of a campaign; write how often it came to each site to a file.

    Raises:
        OSError: The file cannot be written.
    """
    facts: Counter[str] = Counter()
    seen: Counter[Site] = Counter()
    hit: Counter[Site] = Counter()
    count, seconds, wrong = 0, 0.0, 0
    for each in outcomes:
        facts.update(each.facts)
        seen.update(dict(each.seen))
        hit.update(dict(each.hit))
        count += each.end - each.first
        seconds += each.seconds
        wrong += len(each.wrong)
    every = list_sites(Tree(root, PRODUCT))
    told.parent.mkdir(parents=True, exist_ok=True)
    told.write_text(
        "".join("\t".join(map(str, (seen[site], hit[site], *site))) + "\n" for site in every)
    )
    rows = [
        f"{count} histories, {count / seconds:.1f} a second of a core; {wrong} wrong",
        *(f"{number} {name}" for name, number in sorted(facts.items())),
        f"{len(every)} sites of the disk",
        f"{sum(site in seen for site in every)} of them reached",
        f"{sum(site in hit for site in every)} of them failed; how often each: {told}",
    ]
    return "\n".join(rows)

"""Searches for planted faults: which seed finds each, and after how many histories.

A fault is found by a seed that is wrong in the tree that has it and is not wrong in the same way
without it. What was found is kept in `.cache/simulate`, by the content of patch and simulator, so
that a search goes on where it was ended. `planted/found.tsv` has the first seed that found each; a
search plays that one first.
"""

from __future__ import annotations

import hashlib
import json
import subprocess
import sys
import tempfile
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from tests.simulator.planted import ROOT, applied, environment
from tests.simulator.shrinking import kind_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from tests.simulator.planted import Patch

FOUND: Final = Path(__file__).parent / "planted" / "found.tsv"
KEPT: Final = ROOT / ".cache" / "simulate" / "planted.jsonl"
_CHUNK: Final = 40
"""Histories of one process: a killed broker stays in its memory."""
_PATIENCE_SECONDS: Final = 900
_ENDLESS: Final = "the history does not end"
_PLAY: Final = """
import json, sys
from tests.simulator.runs import begin, run_lot
from tests.simulator.history import STEPS
begin()
for seed in range(int(sys.argv[1]), int(sys.argv[2])):
    print(json.dumps({"begins": seed}), flush=True)
    try:
        played = run_lot((seed, seed + 1), STEPS)
        fault = played.wrong[0][1] if played.wrong else None
        outcome = {"seed": seed, "fault": fault, "seconds": played.seconds}
    except Exception as error:
        outcome = {"seed": seed, "fault": repr(error), "seconds": 0.0}
    print(json.dumps(outcome), flush=True)
    if outcome["fault"] is not None:
        break
"""


@dataclass(frozen=True, slots=True)
class Search:
    """How far the search for one fault has come: all seeds below ``next`` were played."""

    name: str
    key: str
    next: int = 0
    seed: int | None = None
    """The first one that found it."""
    fault: str = ""
    seconds: float = 0.0
    """Processor time."""
    also: dict[str, str] = field(default_factory=dict)
    """Seeds that are wrong in the same way without the patch."""


def play_seeds(tree: Path, first: int, end: int) -> list[dict[str, Any]]:
    """Play seeds in a tree in one process, up to the first wrong one; return their outcomes."""
    process = subprocess.Popen(
        [sys.executable, "-c", _PLAY, str(first), str(end)],
        cwd=tree,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=environment(tree),
    )
    told = ""
    try:
        out, told = process.communicate(timeout=_PATIENCE_SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()
        out, _ = process.communicate()
    lines = [json.loads(line) for line in out.splitlines()]
    outcomes = [line for line in lines if "begins" not in line]
    if lines and "begins" in lines[-1]:
        fault = told.strip().rpartition("\n")[2] or _ENDLESS
        outcomes.append({"seed": lines[-1]["begins"], "fault": fault, "seconds": 0.0})
    elif not lines:
        raise ValueError(f"no seed can be played in {tree}: {told.strip()}")
    return outcomes


def advance(search: Search, tree: Path, end: int, sound: Path = ROOT) -> Search:
    """Play the next seeds of a search in the tree of its patch; ``sound`` has no fault."""
    outcomes = play_seeds(tree, search.next, min(end, search.next + _CHUNK))
    last = outcomes[-1]
    seconds = search.seconds + sum(each["seconds"] for each in outcomes)
    search = replace(search, next=last["seed"] + 1, seconds=seconds)
    if last["fault"] is None:
        return search
    (without,) = play_seeds(sound, last["seed"], last["seed"] + 1)
    if kind_of(without["fault"]) == kind_of(last["fault"]):
        return replace(search, also={**search.also, str(last["seed"]): last["fault"]})
    return replace(search, seed=last["seed"], fault=last["fault"])


def key_of(patch: Patch) -> str:
    """Return what stands for the content of a patch and of the simulator."""
    digest = hashlib.sha256(patch.path.read_bytes())
    for path in sorted((ROOT / "tests" / "simulator").rglob("*.py")):
        if not path.name.startswith("test_") and path.name not in {"planted.py", "searching.py"}:
            digest.update(path.read_bytes())
    return digest.hexdigest()[:16]


def read_kept() -> dict[str, Search]:
    """Return the searches that were begun, by their keys."""
    if not KEPT.is_file():
        return {}
    rows = (json.loads(line) for line in KEPT.read_text().splitlines())
    return {each.key: each for each in (Search(**row) for row in rows)}


def read_found() -> dict[str, int]:
    """Return the seeds that have found faults, by the names of these."""
    rows = (line.split("\t") for line in FOUND.read_text().splitlines())
    return {name: int(seed) for name, seed in rows}


def write_found(searches: Iterable[Search]) -> None:
    """Note the seeds that have found faults beside those of other faults."""
    found = read_found() | {each.name: each.seed for each in searches if each.seed is not None}
    FOUND.write_text("".join(f"{name}\t{found[name]}\n" for name in sorted(found)))


def search_all(
    patches: Sequence[Patch], seeds: int, processes: int, found: Mapping[str, int]
) -> Iterator[Search]:
    """Search for faults, a few seeds of each in turn; yield each that is found or given up.

    The seed that has ``found`` a fault before comes first.
    """
    kept = read_kept()
    way = "" if found else " from 0"
    KEPT.parent.mkdir(parents=True, exist_ok=True)
    searches = [
        kept.get(key) or Search(patch.name, key)
        for patch, key in ((each, key_of(each) + way) for each in patches)
    ]
    by_name = {patch.name: patch for patch in patches}
    trees: dict[str, Path] = {}

    def go_on(search: Search, folder: Path) -> Search:
        if search.name not in trees:
            trees[search.name] = applied(by_name[search.name], folder / search.name)
            if not search.next and search.name in found:
                seed = found[search.name]
                again = advance(replace(search, next=seed), trees[search.name], seed + 1)
                if again.seed is not None:
                    return again
        return advance(search, trees[search.name], seeds)

    with (
        tempfile.TemporaryDirectory() as name,
        ThreadPoolExecutor(processes) as pool,
        KEPT.open("a") as file,
    ):
        running: set[Future[Search]] = set()
        for each in searches:
            if each.seed is not None or each.next >= seeds:
                yield each
            else:
                running.add(pool.submit(go_on, each, Path(name)))
        while running:
            done, running = wait(running, return_when=FIRST_COMPLETED)
            for future in done:
                search = future.result()
                file.write(json.dumps(asdict(search)) + "\n")
                file.flush()
                if search.seed is not None or search.next >= seeds:
                    yield search
                else:
                    running.add(pool.submit(go_on, search, Path(name)))


def table(searches: Iterable[Search]) -> str:
    """Return what was found as a table; what was not found comes last."""
    rows = ["| patch | seed | processor seconds | what was wrong |", "| --- | --- | --- | --- |"]
    for each in sorted(searches, key=lambda each: (each.seed is None, each.seed or 0, each.name)):
        seed = f"not in {each.next}" if each.seed is None else str(each.seed)
        rows.append(f"| `{each.name}` | {seed} | {each.seconds:.0f} | {each.fault} |")
    return "\n".join(rows)


def main(
    names: Sequence[str],
    planted: Mapping[str, Patch],
    seeds: int,
    processes: int,
    *,
    is_from_zero: bool,
) -> int:
    """Search for faults, tell and note what was found; return 1 if one was not."""
    searches = []
    wanted = [planted[name] for name in names or planted]
    for each in search_all(wanted, seeds, processes, {} if is_from_zero else read_found()):
        searches.append(each)
        found = "not found" if each.seed is None else f"seed {each.seed}: {each.fault}"
        sys.stderr.write(f"{each.name}: {found} ({each.next} histories, {each.seconds:.0f} s)\n")
        write_found(searches)
    sys.stdout.write(table(searches) + "\n")
    missing = [each.name for each in searches if each.seed is None]
    return 1 if missing else 0

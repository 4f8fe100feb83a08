"""``make simulate``: plays histories, many on all cores or one with its story."""

from __future__ import annotations

import argparse
import json
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Final

from tests.simulator.campaign import Campaign, find_commit, summarize
from tests.simulator.history import STEPS, Plan, draw, play
from tests.simulator.plans import as_test, read_plan
from tests.simulator.runs import begin
from tests.simulator.shrinking import shrink

if TYPE_CHECKING:
    from collections.abc import Sequence

_ROOT: Final = Path(__file__).resolve().parents[2]
_KEPT: Final = Path(os.environ.get("SILTSTONE_CACHE") or _ROOT / ".cache", "simulate")
_SHRINK_SECONDS: Final = 60.0


def _tell_one(plan: Plan, options: argparse.Namespace) -> int:
    history, fault = play(plan, images=options.images)
    print("\n".join(history.story))
    print(f"topics: {plan.parts}\nsettings: {plan.settings} world: {plan.world}")
    print("nothing was wrong" if fault is None else f"WRONG {fault}")
    if fault is None:
        return 0
    _tell_cut_down(history.plan, fault, options)
    return 1


def _tell_cut_down(plan: Plan, fault: str, options: argparse.Namespace) -> None:
    small, fault, tries = shrink(plan, fault, _SHRINK_SECONDS)
    history, _ = play(small)
    print(f"\nseed {plan.seed} in {len(small.steps)} steps, after {tries} tries:")
    print("\n".join(history.story))
    again = f"make simulate SEED={plan.seed}"
    again += f" STEPS={options.steps}" if options.steps != STEPS else ""
    again += f" IMAGES={options.images}" if options.images > 1 else ""
    if options.plan:
        again = f"python -m tests.simulator --plan {options.plan}"
    print(
        f"WRONG {fault}\n\nto repeat it: {again}"
        f"\nto keep it, in tests/simulator/kept/NAME.json:\n{as_test(history, fault)}"
    )


def _tell_kept(paths: Sequence[Path]) -> int:
    """Print what was wrong with each of some histories, None with most, as JSON."""
    found = {path.name: play(read_plan(path))[1] for path in paths}
    print(json.dumps(found))
    return 0


def _tell_many(options: argparse.Namespace) -> int:
    commit = None if options.keep_nothing else find_commit(_ROOT)
    name = f"{commit}-{options.steps}" + (f"-{options.images}" if options.images > 1 else "")
    campaign = Campaign(None if commit is None else _KEPT / f"{name}.jsonl")
    outcomes = campaign.run(
        options.first, options.seeds, options.steps, options.processes, options.images
    )
    print(summarize(outcomes, _ROOT, _KEPT / f"{name if commit else 'changed'}.sites.tsv"))
    wrong = [each for outcome in outcomes for each in outcome.wrong]
    if wrong:
        seed, fault = wrong[0]
        print(f"the first of {len(wrong)}, seed {seed}: {fault}", flush=True)
        begin()
        history, _ = play(draw(seed, options.steps), images=options.images)
        _tell_cut_down(history.plan, fault, options)
    return 1 if wrong else 0


def _parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.simulator", description=__doc__)
    parser.add_argument("--seed", type=int, help="play this one and tell its story")
    parser.add_argument("--digest", type=int, nargs="+", help="print a hash of all that they do")
    parser.add_argument("--plan", type=Path, help="play a history from a file and tell its story")
    parser.add_argument("--kept", type=Path, nargs="+", help="play histories from files")
    parser.add_argument("--first", type=int, default=0, help="the first of many seeds (0)")
    parser.add_argument("--seeds", type=int, default=500, help="how many seeds (500)")
    parser.add_argument("--steps", type=int, default=STEPS, help=f"steps of each ({STEPS})")
    parser.add_argument("--images", type=int, default=1, help="disks of each power failure (1)")
    parser.add_argument("--keep-nothing", action="store_true", help="play all, as if at first")
    parser.add_argument("--processes", type=int, default=len(os.sched_getaffinity(0)))
    options = parser.parse_args(arguments)
    if min(options.seeds, options.images, options.processes, options.steps + 1) < 1:
        parser.error("there must be a seed, a disk, a process, and no less than 0 steps")
    return options


def _run(options: argparse.Namespace) -> int:
    if options.seed is None and not (options.plan or options.kept or options.digest):
        return _tell_many(options)
    begin()
    for seed in options.digest or ():
        history, fault = play(draw(seed, options.steps), is_traced=True)
        print(seed, history.world.digest(), len(history.world.trace or ()), fault)
    if options.digest:
        return 0
    if options.kept:
        return _tell_kept(options.kept)
    plan = read_plan(options.plan) if options.plan else draw(options.seed, options.steps)
    return _tell_one(plan, options)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command."""
    options = _parse(arguments)
    try:
        return _run(options)
    except ValueError as error:
        print(f"simulate: {error}", file=sys.stderr)
    except OSError as error:
        print(f"simulate: {error.filename}: {error.strerror}", file=sys.stderr)
    return 2


if __name__ == "__main__":
    sys.exit(main())

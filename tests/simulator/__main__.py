"""``make simulate``: plays histories, many on all cores or one with its story."""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

from tests.simulator.history import STEPS, Plan, draw, play
from tests.simulator.runs import begin, run_all
from tests.simulator.shrinking import shrink

if TYPE_CHECKING:
    from collections.abc import Sequence

_SHRINK_SECONDS = 30.0


def as_test(plan: Plan, fault: str) -> str:
    """Return a history as data, ready to be kept among the histories that once failed."""
    return json.dumps({"fault": fault, **plan._asdict()})


def read_plan(text: str) -> Plan:
    """Return a history from its data.

    Raises:
        ValueError: It is no history, or is one of another version of the simulator.
    """
    fields = json.loads(text)
    fields.pop("fault", None)
    if set(fields) != set(Plan._fields):
        raise ValueError(f"no history of this version: it has {', '.join(sorted(fields))}")
    fields["steps"] = [(number, step) for number, step in fields["steps"]]
    return Plan(**fields)


def _tell_one(plan: Plan) -> int:
    history, fault = play(plan)
    print("\n".join(history.story))
    print(f"topics: {plan.parts}\nsettings: {plan.settings} world: {plan.world}")
    print("nothing was wrong" if fault is None else f"WRONG {fault}")
    if fault is None:
        return 0
    small, fault, tries = shrink(plan, fault, _SHRINK_SECONDS)
    history, _ = play(small)
    print(f"\nthe same in {len(small.steps)} steps, after {tries} tries:")
    print("\n".join(history.story))
    print(
        f"WRONG {fault}\n\nto keep it, in tests/simulator/kept/NAME.json:\n{as_test(small, fault)}"
    )
    return 1


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command."""
    parser = argparse.ArgumentParser(prog="python -m tests.simulator", description=__doc__)
    parser.add_argument("--seed", type=int, help="play this one and tell its story")
    parser.add_argument("--plan", help="play a history from a file")
    parser.add_argument("--first", type=int, default=0, help="the first of many seeds (0)")
    parser.add_argument("--seeds", type=int, default=500, help="how many seeds (500)")
    parser.add_argument("--steps", type=int, default=STEPS, help=f"steps of each ({STEPS})")
    parser.add_argument("--processes", type=int, default=len(os.sched_getaffinity(0)))
    options = parser.parse_args(arguments)
    if options.seed is not None or options.plan is not None:
        begin()
        if options.plan is None:
            return _tell_one(draw(options.seed, options.steps))
        return _tell_one(read_plan(Path(options.plan).read_text()))
    seeds = range(options.first, options.first + options.seeds)
    began = time.monotonic()
    count, cost, wrong = 0, 0.0, 0
    for each in run_all(seeds, options.steps, options.processes):
        count += 1
        cost += each.seconds
        if each.fault is not None:
            wrong += 1
            print(f"seed {each.seed}: {each.fault}", flush=True)
    print(
        f"{count} histories in {time.monotonic() - began:.0f} s, {count / cost:.1f} a second of a"
        f" core; {wrong} wrong"
    )
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())

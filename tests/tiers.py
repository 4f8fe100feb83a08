"""The tests in tiers: `now` is what every change needs at once, `all` is that and the rest.

python -m tests.tiers now|all [arguments of pytest]

A tier is made of legs, each a run of pytest over what its markers choose. Most tests run in several
processes side by side, a module in one of them. What judges by a clock or by memory is marked
`alone` and runs when nothing else does. Each test is in one leg.

To import a module and to collect its tests takes longer than most tests do, so a module is left
out of a run of which it can have no test: the markers that it names tell. What Python makes of a
source is kept, even where PYTHONDONTWRITEBYTECODE is set, as in many containers: each process would
compile the tests, the broker and its packages again, which takes longer than all tests.

Folders of tests lie in memory in the leg `now`, if there is room: on a disk its tests wait for
fsyncs more than for anything else. The other legs have the folders of the machine.
"""

import itertools
import os
import re
import shlex
import shutil
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import NamedTuple

MARKERS = ("slow", "java", "spark", "connector", "alone", "client")
"""The marks that choose a test for a leg; its module has each as `mark.NAME`."""

LATER = "(slow or java or spark or connector)"
BESIDE = (
    "-n",
    str(min(4, len(os.sched_getaffinity(0)))),
    "--dist",
    "loadfile",
    "--no-loadscope-reorder",
)
FOLDERS = "PYTEST_DEBUG_TEMPROOT"
"""The variable by which pytest is told where to make folders."""
MEMORY = Path("/dev/shm")
ROOM = 2 << 30
"""Bytes that must be free there; the folders of tests that have passed go at once."""
NOTHING_CHOSEN = 5


class Leg(NamedTuple):
    """One run of pytest."""

    name: str
    markers: str
    options: Sequence[str] = ()
    in_memory: bool = False

    def command(self, arguments: Iterable[str]) -> list[str]:
        """Return what runs it."""
        return [sys.executable, "-m", "pytest", "-m", self.markers, *self.options, *arguments]


NOW = (
    Leg(
        "now",
        f"not {LATER} and not alone",
        (*BESIDE, "-o", "tmp_path_retention_policy=failed"),
        in_memory=True,
    ),
    Leg("now, alone", f"not {LATER} and alone"),
)
REST = (Leg("rest", f"{LATER} and not alone", BESIDE), Leg("rest, alone", f"{LATER} and alone"))
TIERS = {"now": NOW, "all": (*NOW, *REST)}


def may_have_a_test(expression: str, module: Path) -> bool:
    """Tell whether `-m` with this expression could choose a test of a module."""
    asked = frozenset(re.findall(r"\w+", expression)) - {"and", "or", "not"}
    if not asked or not asked <= frozenset(MARKERS):
        return True
    named = re.findall(r"\bmark\.(\w+)", module.read_text())
    return _may_choose(expression, asked.intersection(named))


@cache
def _may_choose(expression: str, named: frozenset[str]) -> bool:
    """Tell whether an expression of `MARKERS` holds for a test that has some of these, or none."""
    try:
        code = compile(expression, "-m", "eval")
    except SyntaxError:  # pytest says what is wrong with it
        return True
    return any(
        eval(code, {}, {name: name in had for name in MARKERS})
        for count in range(len(named) + 1)
        for had in itertools.combinations(named, count)
    )


def run(legs: Iterable[Leg], arguments: Sequence[str]) -> Iterator[tuple[Leg, int, float]]:
    """Run each leg, whatever became of the one before; yield its exit code and its seconds."""
    for leg in legs:
        print(f"\n== {leg.name}: {shown(leg, arguments)}", flush=True)
        began = time.monotonic()
        environ = dict(os.environ)
        environ.pop("PYTHONDONTWRITEBYTECODE", None)
        if leg.in_memory and MEMORY.is_dir() and shutil.disk_usage(MEMORY).free >= ROOM:
            environ.setdefault(FOLDERS, str(MEMORY))
        code = subprocess.run(leg.command(arguments), env=environ, check=False).returncode
        if arguments and code == NOTHING_CHOSEN:  # a part need not have tests of every leg
            code = 0
        yield leg, code, time.monotonic() - began


def shown(leg: Leg, arguments: Iterable[str]) -> str:
    """Return a leg as it would be typed."""
    return shlex.join(leg.command(arguments)[2:])


def again(nodes: Iterable[str], seed: int | None) -> str:
    """Return the command that runs these tests as they ran now, in their order."""
    order = [] if seed is None else [f"--randomly-seed={seed}"]
    python = os.path.relpath(sys.executable)
    return shlex.join([python, "-m", "pytest", *order, *nodes])


def main(tier: str, *arguments: str) -> int:
    """Run a tier, tell how each leg went, and fail if one did."""
    ran = list(run(TIERS[tier], arguments))
    print()
    for leg, code, seconds in ran:
        print(f"{leg.name:20} {seconds:5.0f} s  {'passed' if not code else f'FAILED ({code})'}")
    return int(any(code for _, code, _ in ran))


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))

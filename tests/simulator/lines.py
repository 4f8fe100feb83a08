"""``make simulate-coverage``: the lines of the broker that histories execute, by room.

Compiled modules cannot be traced, so they are left out; so is what commands and pages alone use.
"""

from __future__ import annotations

import ast
import gc
import sys
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Iterator

_ROOT: Final = Path(__file__).resolve().parents[2]
_ROOMS: Final = (
    *("broker/handlers", "broker/groups", "broker/transactions", "broker/fetching"),
    *("broker/coordination", "storage/log", "storage/segment", "storage/producers"),
    *("storage/moving", "storage/directory", "storage/manager.py", "cleaner"),
)
_APART: Final = (
    *("cleaner/explaining", "cleaner/verify.py", "cleaner/history/receipts.py"),
    *("storage/log/reader.py", "storage/segment/check.py", "storage/directory/control.py"),
)
"""Of commands and pages."""


def _files(room: str) -> list[str]:
    found = sorted(Path(_ROOT / room).rglob("*.py")) or [_ROOT / room]
    names = [str(each.relative_to(_ROOT)) for each in found]
    return [each for each in names if not each.startswith(_APART)]


def _functions(node: ast.AST) -> Iterator[tuple[str, range]]:
    """Yield the functions of a file with the lines of their bodies."""
    for each in ast.walk(node):
        if isinstance(each, (ast.FunctionDef, ast.AsyncFunctionDef)):
            yield each.name, range(each.body[0].lineno, (each.end_lineno or 0) + 1)


def _report(measured: Any) -> Iterator[str]:
    """Yield how many lines of each room were executed, and the functions that never were."""
    never, every, done = [], 0, 0
    for room in _ROOMS:
        count = missed = 0
        for file in _files(room):
            _, lines, _, missing, _ = measured.analysis2(f"{_ROOT}/{file}")
            count, missed = count + len(lines), missed + len(missing)
            for name, body in _functions(ast.parse((_ROOT / file).read_text())):
                if (own := set(body) & set(lines)) and own <= set(missing):
                    never.append(f"{len(own):4} {file} {name}")
        yield f"{room:22} {count:6} lines {100 - 100 * missed / count:5.1f} %"
        every, done = every + count, done + count - missed
    yield f"{'all':22} {every:6} lines {100 * done / every:5.1f} %\n\nnever executed, by lines:"
    yield from sorted(never, reverse=True)


if __name__ == "__main__":
    measured = import_module("coverage").Coverage(
        None, include=[f"{_ROOT}/[bcs]*/*"], concurrency=["greenlet", "thread"], config_file=False
    )
    measured.start()
    from tests.simulator.history import draw, play
    from tests.simulator.runs import begin
    from tests.simulator.world.disk import Disk

    begin()
    first, count = map(int, sys.argv[1:])
    played = {}
    for seed in range(first, first + count):
        played[seed] = play(draw(seed))[1]
        Disk.uninstall()  # what is freed now closes no file of it
        gc.collect()
    measured.stop()
    faults = [f"seed {seed}: {fault}" for seed, fault in played.items() if fault]
    sys.stdout.write("\n".join([*faults, *_report(measured), ""]))

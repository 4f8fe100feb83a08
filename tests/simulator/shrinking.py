"""Cuts a failing history down to the steps that it needs.

Runs of steps are left out, halves first, then single steps, as long as what remains fails alike:
with the same kind of fault, whatever the offsets and names in its sentence are.
"""

from __future__ import annotations

import re
import time
from typing import TYPE_CHECKING

from tests.simulator.history import play

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.simulator.history import Plan

_VARYING = re.compile(r"\d+|[a-z]+-\d+|\b(?:apples|pears|plums)\b")


def kind_of(fault: str | None) -> str | None:
    """Return what stays the same of a fault's sentence when other steps lead to it."""
    return None if fault is None else _VARYING.sub("#", fault)


def shrink(
    plan: Plan, fault: str, seconds: float, run: Callable[[Plan], str | None] | None = None
) -> tuple[Plan, str, int]:
    """Return a plan with fewer steps that fails alike, its fault, and the number of tries.

    It gives up after ``seconds`` with what it has.
    """
    run = run or (lambda tried: play(tried)[1])
    end = time.monotonic() + seconds
    wanted = kind_of(fault)
    numbers = [*(-1 - at for at in range(len(plan.wishes))), *(number for number, _ in plan.steps)]
    tries = 0
    size = max(1, len(numbers) // 2)
    while size and time.monotonic() < end:
        at, is_cut = 0, False
        while at < len(numbers) and time.monotonic() < end:
            rest = [*numbers[:at], *numbers[at + size :]]
            tries += 1
            found = run(plan.only(rest))
            if found is not None and kind_of(found) == wanted:
                numbers, fault, is_cut = rest, found, True
            else:
                at += size
        if size > 1:
            size //= 2
        elif not is_cut:
            break
    return plan.only(numbers), fault, tries

"""Playing histories by their seeds, and cutting down one that fails."""

import itertools
import logging
import shutil
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.support.histories.history import new_history
from tests.support.histories.partition import Found
from tests.support.histories.plan import Step, make_steps

_numbers = itertools.count()

_TRIES = 150
"""How often a history that fails is played again at most, to cut it down."""


@contextmanager
def silence() -> Iterator[None]:
    """Have nothing logged: a disk that fails thousands of times says so each time."""
    logging.disable(logging.CRITICAL)
    try:
        yield
    finally:
        logging.disable(logging.NOTSET)


def play(
    root: Path,
    seed: int,
    steps: Sequence[Step],
    prepare: Callable[[pytest.MonkeyPatch], object] = lambda _: None,
) -> tuple[Found | None, list[str]]:
    """Play a history; return what was found, and a line for each of its steps."""
    with pytest.MonkeyPatch.context() as patch, silence():
        history = new_history(root / f"history-{next(_numbers)}", seed, patch)
        prepare(patch)
        found = None
        try:
            history.play(steps)
        except Found as error:
            found = Found(error.rule, error.detail)  # without all that its frames hold
    shutil.rmtree(history.root)
    return found, history.said


def cut_down(
    root: Path, seed: int, steps: Sequence[Step], found: Found
) -> tuple[list[Step], list[str], Found]:
    """Leave steps out for as long as the same rule is broken; return those left, and their lines.

    Halves go first, then quarters, then single steps.
    """
    left = list(steps)
    said: list[str] = []
    size = len(left) // 2
    tries = 0
    while size:
        at = 0
        while at < len(left) and tries < _TRIES:
            tries += 1
            fewer = left[:at] + left[at + size :]
            again, lines = play(root, seed, fewer)
            if again is not None and again.rule == found.rule:
                left, said, found = fewer, lines, again
            else:
                at += size
        size //= 2
    return left, said or play(root, seed, left)[1], found


def tell(root: Path, seed: int, steps: Sequence[Step], found: Found) -> str:
    """Return a history that fails, cut down, with the command that plays just it."""
    left, said, found = cut_down(root, seed, steps, found)
    numbers = ",".join(str(each.number) for each in left) or "none"
    lines = "\n".join(f"    {line.replace(str(root), '')}" for line in said)
    return (
        f"seed {seed}: {found}\n{lines}\n"
        f"    to play just this: make histories HISTORIES=1 SEED={seed} STEPS={numbers}"
    )


def choose(seed: int, numbers: str) -> list[Step]:
    """Return the steps of a history; of ``numbers``, separated by commas, only those."""
    steps = make_steps(seed)
    if not numbers:
        return steps
    wanted = {int(each) for each in numbers.split(",") if each != "none"}
    return [step for step in steps if step.number in wanted]

"""A judge in a copy of the process tells what it finds, and leaves nothing behind."""

import os
from collections.abc import Callable

import pytest

from tests.simulator.images import find_fault


def _find(number: int) -> None:
    raise AssertionError(f"{number} is lost")


@pytest.mark.parametrize(
    ("judge", "fault"),
    [
        (lambda: None, None),
        (lambda: _find(7), "AssertionError: 7 is lost"),
        (lambda: os.kill(os.getpid(), 9), "the copy of the process has ended with 9"),
    ],
)
def test_what_a_judge_finds(judge: Callable[[], None], fault: str | None) -> None:
    """Nothing, a fault, or the end of the copy."""
    assert find_fault(judge) == fault


def test_the_process_itself_does_not_change() -> None:
    """Each disk is judged from the same state."""
    seen: list[int] = []

    assert find_fault(lambda: seen.append(1)) is None
    assert seen == []

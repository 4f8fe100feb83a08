"""The rules of the house: no place breaks one.

`tools/house.py` says what each rule forbids, why, and what to write instead.
"""

from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path

import pytest

from tools.house import HELD, NAMES, PRODUCT, TICS, Figure
from tools.sources import Tree

ROOT = Path(__file__).parents[1]
ADVICE = {rule.name: f" ({rule.why}; write {rule.instead})" for rule in (*NAMES, *TICS)}


@cache
def tree() -> Tree:
    """Return the checkout."""
    return Tree(ROOT, PRODUCT)


@pytest.mark.parametrize("find", HELD)
def test_nothing_breaks_a_rule(find: Callable[[Tree], Iterator[Figure]]) -> None:
    """A word that went does not come back."""
    found = [figure for figure in find(tree()) if figure.number]

    assert found == [], "\n".join(
        f"{figure.what}: {figure.number}"
        + "\n    ".join([ADVICE.get(figure.what, ""), *figure.names])
        for figure in found
    )

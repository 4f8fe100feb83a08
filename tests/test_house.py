"""The rules of the house: what still breaks one is counted, and each count may only go down.

`tools/house.py` says what each rule forbids, why, and what to write instead.
"""

from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path

import pytest

from tools.house import HELD, NAMES, PRODUCT, TICS, Figure, read_ratchets
from tools.sources import Tree

ROOT = Path(__file__).parents[1]
ADVICE = {rule.name: f" ({rule.why}; write {rule.instead})" for rule in (*NAMES, *TICS)}


@cache
def tree() -> Tree:
    """Return the checkout."""
    return Tree(ROOT, PRODUCT)


@pytest.mark.parametrize("find", HELD)
def test_nothing_breaks_a_rule_more_often(find: Callable[[Tree], Iterator[Figure]]) -> None:
    """A word that went does not come back; a rule without a line in the ratchets allows none."""
    allowed = read_ratchets()
    more = [figure for figure in find(tree()) if figure.number > allowed.get(figure.what, 0)]

    assert more == [], "\n".join(
        f"{figure.what}: {figure.number}, allowed are {allowed.get(figure.what, 0)}"
        + "\n    ".join([ADVICE.get(figure.what, ""), *figure.names])
        for figure in more
    )

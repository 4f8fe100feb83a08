"""What clients give as regular expressions never takes long."""

from time import thread_time

import pytest

from siltstone.broker.groups.regular_expression import compile_expression
from siltstone.protocol.errors import InvalidRegularExpression
from tests.support.turns import slowness


@pytest.mark.parametrize("unit", [r"\pL", r"[^\PL]", "[^a]", "((a?){500}){2}", "x"])
def test_expressions_that_take_long_are_refused(unit: str) -> None:
    """As much as a string on the wire can hold of what costs RE2 most."""
    began = thread_time()

    with pytest.raises(InvalidRegularExpression, match="too many"):
        compile_expression(unit * (32_767 // len(unit)))

    assert thread_time() - began < 0.02 * slowness()


def test_long_alternatives_are_taken() -> None:
    """Names of some hundred topics, and classes of letters, are no attack."""
    names = "|".join(f"orders-{number:04}" for number in range(800))

    assert compile_expression(names).fullmatch("orders-0799")
    assert compile_expression(r"(\p{Greek}|\pN)+").fullmatch("λ1")

"""Regular expressions of clients never take long."""

from sys import getrefcount
from time import thread_time

import pytest

from siltstone.broker.groups.regular_expression import compile_expression
from siltstone.protocol.errors import InvalidRegularExpression
from tests.support.turns import slowness


@pytest.mark.parametrize("unit", [r"\pL", r"[^\PL]", "[^a]", "((a?){500}){2}", "x{1000}", "x"])
def test_expressions_that_take_long_are_refused(unit: str) -> None:
    """As much as a string on the wire can hold of what costs RE2 most."""
    began = thread_time()

    with pytest.raises(InvalidRegularExpression, match="too many"):
        compile_expression(unit * (32_767 // len(unit)))

    assert thread_time() - began < 0.02 * slowness()


def test_what_is_large_when_it_is_compiled_is_refused() -> None:
    """RE2 stops early, and an expression of very many steps is held against no name."""
    for expression in (".{900}" * 8, r"[^\x{100}-\x{ffff}]{100}" * 99):
        began = thread_time()

        with pytest.raises(InvalidRegularExpression):
            compile_expression(expression)

        assert thread_time() - began < 0.02 * slowness()


def test_counts_of_very_many_digits_are_refused() -> None:
    """Python reads no number of so many digits."""
    for count in ("9" * 5000, "1," + "9" * 5000):
        with pytest.raises(InvalidRegularExpression):
            compile_expression(f"a{{{count}}}")


def test_long_alternatives_are_taken() -> None:
    """Names of some hundred topics, and classes of letters, are no attack."""
    names = "|".join(f"orders-{number:04}" for number in range(800))

    assert compile_expression(names).fullmatch("orders-0799")
    assert compile_expression(r"(\p{Greek}|\pN)+").fullmatch("λ1")


def test_who_compiles_an_expression_is_alone_in_keeping_it() -> None:
    """RE2's module would keep the last 128, each with up to a megabyte of states."""
    compiled = compile_expression("a.*b")
    alone = object()

    assert getrefcount(compiled) == getrefcount(alone)

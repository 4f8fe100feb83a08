"""A difference between two answers is told, whatever it is."""

from typing import Any

import pytest

from tests.support.side_by_side import compare

A, B = {"name": "a"}, {"name": "b"}


@pytest.mark.parametrize(
    ("mine", "other", "told"),
    [
        ([A, A], [A], [".rows[]: {'name': 'a'} is ours"]),
        ([A, B], [A, A, B, B], [f".rows[]: {each} is Kafka's" for each in (A, B)]),
        ([A, A, B], [B], [".rows[]: {'name': 'a'} is ours"] * 2),
        ([A], [A | {"code": 3}], [".rows[].code: 'missing' is 3 in Kafka"]),
        (
            [A, B],
            [B, A],
            [".rows[].name: 'a' is 'b' in Kafka", ".rows[].name: 'b' is 'a' in Kafka"],
        ),
    ],
)
def test_rows_that_one_has_more_often_are_told(mine: Any, other: Any, told: list[str]) -> None:
    """As often as they are missing, and fields that only one has."""
    assert list(compare({"rows": mine}, {"rows": other})) == told
    assert list(compare({"rows": mine}, {"rows": mine})) == []


def test_only_the_row_of_a_pair_of_errors_may_differ() -> None:
    """The rows beside it are compared."""
    mine = [{"error_code": 69, "at": 1}, {"error_code": 0, "at": 2}]
    other = [{"error_code": 0, "at": 3}, {"error_code": 5, "at": 2}]

    assert list(compare(mine, other, "", {(69, 0)})) == ["[].error_code: 0 is 5 in Kafka"]

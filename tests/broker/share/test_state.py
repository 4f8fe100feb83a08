"""The combination of batches of a queue's state, beside a dictionary by offset."""

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from siltstone.broker.share.state import NOT_SET, StateBatch, combine

batches = st.builds(
    lambda first, length, state, count: StateBatch(first, first + length, state, count),
    st.integers(0, 30),
    st.integers(0, 8),
    st.sampled_from((0, 2, 4)),
    st.integers(1, 4),
)
starts = st.one_of(st.just(NOT_SET), st.integers(0, 35))


def by_offset(some: list[StateBatch], start: int) -> dict[int, tuple[int, int]]:
    """Return the count and state of each offset: the highest count wins, then the highest state."""
    found: dict[int, tuple[int, int]] = {}
    for first, last, state, count in some:
        for offset in range(max(first, start), last + 1):
            found[offset] = max(found.get(offset, (0, 0)), (count, state))
    return found


@given(st.lists(batches, max_size=8), st.lists(batches, max_size=8), starts)
def test_each_offset_has_its_highest_count(
    held: list[StateBatch], new: list[StateBatch], start: int
) -> None:
    """As the dictionary says; the batches are disjoint, in order, and as few as possible."""
    combined = combine(held, new, start)

    assert by_offset(list(combined), start) == by_offset([*held, *new], start)
    assert all(
        left.last_offset < right.first_offset
        and (left.last_offset + 1 < right.first_offset or left[2:] != right[2:])
        for left, right in pairwise(combined)
    )


@given(st.lists(st.lists(batches, max_size=3), max_size=6), starts)
def test_it_does_not_matter_when_updates_are_combined(
    updates: list[list[StateBatch]], start: int
) -> None:
    """One after the other, or all at once: so updates may be kept loose for a while."""
    one_by_one: tuple[StateBatch, ...] = ()
    for update in updates:
        one_by_one = combine(one_by_one, update, NOT_SET)
    together = combine((), [batch for update in updates for batch in update], start)

    assert combine(one_by_one, (), start) == together


def test_an_example_of_kafkas() -> None:
    """A batch in the middle of another one with a higher count cuts it in three."""
    held = [StateBatch(100, 120, 0, 1)]
    new = [StateBatch(105, 110, 2, 2)]

    assert combine(held, new, NOT_SET) == (
        StateBatch(100, 104, 0, 1),
        StateBatch(105, 110, 2, 2),
        StateBatch(111, 120, 0, 1),
    )
    assert combine(held, new, 108) == (StateBatch(108, 110, 2, 2), StateBatch(111, 120, 0, 1))
    assert combine(held, [], 121) == ()

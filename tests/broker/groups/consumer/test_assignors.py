"""The assignors: they give each member its partitions."""

from collections import deque
from collections.abc import Iterator
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from siltstone.broker.groups.consumer import assignors
from siltstone.broker.groups.consumer.assignors import (
    ASSIGNORS,
    Assigned,
    MemberSpec,
    assign_uniform,
)

A, B, C = UUID(int=1), UUID(int=2), UUID(int=3)
TOPICS = (A, B, C)

counts = st.fixed_dictionaries({topic: st.integers(0, 7) for topic in TOPICS})
subscriptions = st.dictionaries(
    st.sampled_from("mnopqr"), st.frozensets(st.sampled_from(TOPICS)), min_size=1
)


def join(*names: str, topics: frozenset[UUID] = frozenset({A})) -> dict[str, MemberSpec]:
    """Return members that subscribe to the same and have nothing yet."""
    return {name: MemberSpec(topics, {}) for name in names}


def keep(members: dict[str, MemberSpec], assigned: dict[str, Assigned]) -> dict[str, MemberSpec]:
    """Return the members with what they were assigned as what they have."""
    return {name: each._replace(target=assigned.get(name, {})) for name, each in members.items()}


def sizes(assigned: dict[str, Assigned]) -> dict[str, int]:
    """Return how many partitions everyone has."""
    return {name: sum(map(len, each.values())) for name, each in assigned.items()}


def check_complete(
    members: dict[str, MemberSpec], partition_counts: dict[UUID, int], assigned: dict[str, Assigned]
) -> None:
    """Every partition of a subscribed topic has one owner, which subscribes to it."""
    given_out = [
        (topic, partition)
        for name, topics in assigned.items()
        for topic, partitions in topics.items()
        for partition in partitions
        if topic in members[name].topic_ids
    ]
    subscribed = frozenset[UUID]().union(*(each.topic_ids for each in members.values()))
    wanted = [(t, p) for t in subscribed for p in range(partition_counts.get(t, 0))]

    assert sorted(given_out) == sorted(wanted)
    assert sum(sizes(assigned).values()) == len(wanted)


@pytest.mark.parametrize("name", sorted(ASSIGNORS))
@given(subscribed=subscriptions, partition_counts=counts)
def test_every_partition_has_one_owner(
    name: str, subscribed: dict[str, frozenset[UUID]], partition_counts: dict[UUID, int]
) -> None:
    """Whatever members subscribe to, nothing is left over and nothing is read twice."""
    members = {each: MemberSpec(topics, {}) for each, topics in subscribed.items()}

    assigned = ASSIGNORS[name](members, partition_counts)

    assert set(assigned) == set(members)
    check_complete(members, partition_counts, assigned)


@pytest.mark.parametrize("name", sorted(ASSIGNORS))
@given(subscribed=subscriptions, partition_counts=counts)
def test_nothing_moves_without_a_reason(
    name: str, subscribed: dict[str, frozenset[UUID]], partition_counts: dict[UUID, int]
) -> None:
    """Assigned again with nothing changed, everybody keeps what it has."""
    members = {each: MemberSpec(topics, {}) for each, topics in subscribed.items()}
    assigned = ASSIGNORS[name](members, partition_counts)

    assert ASSIGNORS[name](keep(members, assigned), partition_counts) == assigned


@given(
    st.frozensets(st.sampled_from("mnopqr"), min_size=1),
    st.frozensets(st.sampled_from("mnopqrst"), min_size=1),
    counts,
)
def test_uniform_moves_no_more_than_it_must(
    before: frozenset[str], after: frozenset[str], partition_counts: dict[UUID, int]
) -> None:
    """Where all subscribe to the same, members that stay keep the average, rounded as is best."""
    everything = frozenset(TOPICS)
    first = ASSIGNORS["uniform"](join(*before, topics=everything), partition_counts)
    members = keep(join(*after, topics=everything), first)
    total = sum(partition_counts.values())

    second = ASSIGNORS["uniform"](members, partition_counts)

    low, more = divmod(total, len(after))
    had = sorted((sizes(first).get(name, 0) for name in after), reverse=True)
    may_keep = sum(min(each, low + (place < more)) for place, each in enumerate(had))
    kept = sum(
        len(partitions & second[name].get(topic, frozenset()))
        for name in after
        for topic, partitions in first.get(name, {}).items()
    )
    assert kept == may_keep
    assert set(sizes(second).values()) <= {low, low + 1}
    check_complete(members, partition_counts, second)


@given(subscriptions, subscriptions, counts, counts)
def test_uniform_is_as_level_as_can_be(
    before: dict[str, frozenset[UUID]],
    after: dict[str, frozenset[UUID]],
    counts_before: dict[UUID, int],
    counts_after: dict[UUID, int],
) -> None:
    """No chain of moves leads from a member to one that has two fewer."""
    first = ASSIGNORS["uniform"](
        {name: MemberSpec(topics, {}) for name, topics in before.items()}, counts_before
    )
    members = keep({name: MemberSpec(topics, {}) for name, topics in after.items()}, first)

    assigned = ASSIGNORS["uniform"](members, counts_after)

    load = sizes(assigned)
    for name in members:
        reached, queue = {name}, deque([name])
        while queue:
            for topic in assigned[queue.popleft()]:
                for other, each in members.items():
                    if topic in each.topic_ids and other not in reached:
                        reached.add(other)
                        queue.append(other)
        assert min(load[each] for each in reached) >= load[name] - 1
    check_complete(members, counts_after, assigned)


def test_range_gives_neighbours_and_the_first_get_more() -> None:
    """Seven partitions for three members, in the order of their ids."""
    assigned = ASSIGNORS["range"](join("z", "x", "y"), {A: 7})

    assert assigned == {"x": {A: {0, 1, 2}}, "y": {A: {3, 4}}, "z": {A: {5, 6}}}


def test_range_puts_static_members_first() -> None:
    """Their instance ids last, so the others come and go behind them."""
    members = {
        "a": MemberSpec(frozenset({A}), {}),
        "b": MemberSpec(frozenset({A}), {}, "i2"),
        "c": MemberSpec(frozenset({A}), {}, "i1"),
    }

    assigned = ASSIGNORS["range"](members, {A: 3})

    assert assigned == {"c": {A: {0}}, "b": {A: {1}}, "a": {A: {2}}}


def test_range_lines_topics_up() -> None:
    """Topics with as many partitions and the same subscribers are assigned alike."""
    assigned = ASSIGNORS["range"](join("m", "n", topics=frozenset({A, B})), {A: 5, B: 5})

    assert all(each[A] == each[B] for each in assigned.values())


def test_range_leaves_those_out_who_come_too_late() -> None:
    """More members than partitions: the last ones have nothing."""
    assigned = ASSIGNORS["range"](join("m", "n", "o"), {A: 2})

    assert sizes(assigned) == {"m": 1, "n": 1, "o": 0}


def test_uniform_moves_along_a_chain() -> None:
    """One member's only topic is full of another's: a third makes room."""
    members = {
        "m": MemberSpec(frozenset({A, B}), {A: frozenset({0, 1}), B: frozenset({0})}),
        "n": MemberSpec(frozenset({B, C}), {B: frozenset({1}), C: frozenset({0})}),
        "o": MemberSpec(frozenset({C}), {}),
    }

    assigned = ASSIGNORS["uniform"](members, {A: 2, B: 2, C: 1})

    assert sizes(assigned) == {"m": 2, "n": 2, "o": 1}


class _Counted(list[str]):
    """Subscribers, and how often somebody went through some."""

    walks = 0

    def __iter__(self) -> Iterator[str]:
        """Count."""
        _Counted.walks += 1
        return super().__iter__()


def test_topics_with_the_same_subscribers_are_one() -> None:
    """Twenty come to forty that have 500 topics: a move costs one walk over them, not 500."""
    topics = {UUID(int=number + 1): 10 for number in range(500)}
    everything = frozenset(topics)
    names = [f"member-{number:02}" for number in range(60)]
    before = assign_uniform({name: MemberSpec(everything, {}) for name in names[:40]}, topics)
    members = {name: MemberSpec(everything, before.get(name, {})) for name in names}
    balance = assignors._Balance(members, topics)
    balance.keep_what_is_due()
    balance.hand_out()
    balance._subscribers[:] = [_Counted(each) for each in balance._subscribers]
    balance.level()

    loads = [sum(map(len, each.values())) for each in balance.assigned.values()]
    assert {min(loads), max(loads)} == {83, 84}
    assert _Counted.walks < 2_000


def test_who_has_too_much_of_the_same_topics_gives_up_just_that() -> None:
    """No partition is moved one by one: a hundred thousand would take seconds."""
    topics = {UUID(int=number + 1): 100 for number in range(100)}
    everything = frozenset(topics)
    before = assign_uniform({"a": MemberSpec(everything, {})}, topics)
    members = {"a": MemberSpec(everything, before["a"]), "b": MemberSpec(everything, {})}
    balance = assignors._Balance(members, topics)
    balance.keep_what_is_due()
    balance.hand_out()

    assert balance._load == {"a": 5000, "b": 5000}
    after = assign_uniform(members, topics)
    assert all(after["a"][topic] <= before["a"][topic] for topic in after["a"])


def test_very_many_different_subscriptions_are_not_levelled_for_ever(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Each partition has a subscriber as owner; that is all that is promised then."""
    topics = {UUID(int=number + 1): 10 for number in range(50)}
    order = sorted(topics)
    target = dict.fromkeys(order, frozenset(range(10)))
    members = {"a": MemberSpec(frozenset(order), target)}
    members |= {f"m{number}": MemberSpec(frozenset(order[number:]), {}) for number in range(1, 50)}
    full = assign_uniform(members, topics)
    monkeypatch.setattr(assignors, "MAX_LOOKS", 100)
    some = assign_uniform(members, topics)

    def loads(assigned: dict[str, Assigned]) -> list[int]:
        return [sum(map(len, each.values())) for each in assigned.values()]

    assert max(loads(full)) - min(loads(full)) <= 9
    assert max(loads(some)) > max(loads(full))
    for assigned in (full, some):
        assert sum(loads(assigned)) == 500
        for member_id, each in assigned.items():
            assert each.keys() <= members[member_id].topic_ids


@pytest.mark.parametrize(
    ("partition_counts", "before", "after"),
    [
        ((7, 5), [{}, {}, {}], ["A0123", "A456 B0", "B1234"]),
        ((7,), [{}, {}, {}], ["A01", "A23", "A456"]),
        ((2,), [{}, {}, {}], ["", "A0", "A1"]),
        ((3, 3, 2), [{}, {}, {}], ["A01", "A2 B01", "B2 C01"]),
        ((7,), [{A: range(7)}, {}], ["A0123", "A456"]),
        ((8,), [{A: range(4)}, {A: range(4, 8)}, {}], ["A012", "A456", "A37"]),
        ((7, 3), [{B: range(3)}, {A: range(6)}, {}, {}], ["B012", "A012", "A36", "A45"]),
    ],
)
def test_uniform_deals_in_runs_as_kafka_does(
    partition_counts: tuple[int, ...], before: list[dict[UUID, range]], after: list[str]
) -> None:
    """The targets of UniformAssignor of Apache Kafka 4.3.1, for members with one subscription."""
    topics = TOPICS[: len(partition_counts)]
    members = {
        f"m{number}": MemberSpec(
            frozenset(topics), {topic: frozenset(each) for topic, each in target.items()}
        )
        for number, target in enumerate(before)
    }

    assigned = assign_uniform(members, dict(zip(topics, partition_counts, strict=True)))

    assert [write(assigned[name]) for name in members] == after


def write(assigned: Assigned) -> str:
    """Return an assignment as text, such as ``A01 B2``."""
    return " ".join(
        letter + "".join(map(str, sorted(assigned[topic])))
        for letter, topic in zip("ABC", TOPICS, strict=True)
        if topic in assigned
    )

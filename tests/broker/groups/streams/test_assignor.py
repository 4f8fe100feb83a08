"""The sticky assignor: every task once, evenly, and where it was."""

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from siltstone.broker.groups.streams.assignor import (
    MemberSpec,
    SubtopologySpec,
    TaskId,
    assign_sticky,
)
from siltstone.protocol.coordinator.streams_group_records import Tasks, TaskSet

Members = dict[str, MemberSpec]
Subtopologies = dict[str, SubtopologySpec]

subtopologies = st.dictionaries(
    st.sampled_from("0123"),
    st.builds(SubtopologySpec, st.integers(1, 8), st.booleans()),
    min_size=1,
)
processes = st.lists(st.sampled_from("pqr"), min_size=1, max_size=6)


def start(processes: list[str]) -> Members:
    """Return members without tasks, by the processes that they are in."""
    return {f"m{index}": MemberSpec(each) for index, each in enumerate(processes)}


def keep(members: Members, given_tasks: dict[str, Tasks]) -> Members:
    """Return members that have what they were given."""
    return {
        name: each._replace(held=given_tasks.get(name, Tasks())) for name, each in members.items()
    }


def ids(tasks: TaskSet) -> list[TaskId]:
    """Return the tasks of a role."""
    return [TaskId(name, partition) for name, each in tasks.items() for partition in each]


def all_of(wanted: Subtopologies, *, stateful: bool = False) -> list[TaskId]:
    """Return every task, or every one with state."""
    return sorted(
        TaskId(name, partition)
        for name, each in wanted.items()
        if each.is_stateful or not stateful
        for partition in range(each.tasks)
    )


def check(members: Members, wanted: Subtopologies, standby: int, found: dict[str, Tasks]) -> None:
    """Hold what is true of every assignment."""
    active = [task for each in found.values() for task in ids(each.active)]
    copies = [task for each in found.values() for task in ids(each.standby)]
    assert sorted(active) == all_of(wanted)
    of_process: dict[str, Counter[TaskId]] = {}
    for name, each in found.items():
        process = of_process.setdefault(members[name].process_id, Counter())
        process.update([*ids(each.active), *ids(each.standby)])
        assert each.warmup == {}
    assert all(count == 1 for each in of_process.values() for count in each.values())
    expected = min(standby, len(of_process) - 1)
    assert Counter(copies) == Counter(all_of(wanted, stateful=True) * expected)


@given(processes, subtopologies, st.integers(0, 2))
def test_every_task_is_assigned_once(
    processes: list[str], wanted: Subtopologies, standby: int
) -> None:
    """And a standby task as often as there are other processes, up to the number that is set."""
    members = start(processes)

    check(members, wanted, standby, assign_sticky(members, wanted, standby))


@given(st.integers(1, 6), subtopologies)
def test_members_alone_in_their_processes_have_equally_many(
    count: int, wanted: Subtopologies
) -> None:
    """At most one task more than another."""
    found = assign_sticky(start([f"p{index}" for index in range(count)]), wanted, 0)

    counts = [len(ids(each.active)) for each in found.values()]
    assert max(counts) - min(counts) <= 1


@given(processes, subtopologies, st.integers(0, 2))
def test_nothing_moves_without_a_reason(
    processes: list[str], wanted: Subtopologies, standby: int
) -> None:
    """If members without standby tasks are assigned again, each task stays where it is."""
    members = start([f"p{index}" for index in range(len(processes))])
    before = assign_sticky(members, wanted, 0)

    assert assign_sticky(keep(members, before), wanted, 0) == before


@given(processes, subtopologies, st.integers(0, 2), st.data())
def test_what_comes_after_a_change_is_whole_again(
    processes: list[str], wanted: Subtopologies, standby: int, data: st.DataObject
) -> None:
    """Members go and come; a member that stays keeps what it has, within an equal share."""
    members = start(processes)
    before = assign_sticky(members, wanted, standby)
    left = data.draw(st.sets(st.sampled_from(sorted(members)), max_size=len(members) - 1))
    after = keep({name: each for name, each in members.items() if name not in left}, before)
    for index, each in enumerate(data.draw(st.lists(st.sampled_from("pqrst"), max_size=3))):
        after[f"n{index}"] = MemberSpec(each)

    found = assign_sticky(after, wanted, standby)

    check(after, wanted, standby, found)
    share = -(-len(all_of(wanted)) // len(after))
    for name in members.keys() & after.keys():
        had = ids(before[name].active)
        kept = set(had) & set(ids(found[name].active))
        assert len(kept) >= min(len(had), share - 1) or not had


def test_a_task_goes_to_the_member_that_has_its_state() -> None:
    """As a standby task first, then on its disk; what is newer wins."""
    wanted = {"0": SubtopologySpec(1, is_stateful=True)}
    task = TaskId("0", 0)
    members = {
        "new": MemberSpec("p"),
        "old": MemberSpec("q", offsets={task: 5}),
        "newer": MemberSpec("r", offsets={task: 9}),
    }

    assert assign_sticky(members, wanted, 0)["newer"].active == {"0": {0}}
    members["new"] = MemberSpec("p", Tasks(standby={"0": frozenset({0})}))
    assert assign_sticky(members, wanted, 0)["new"].active == {"0": {0}}

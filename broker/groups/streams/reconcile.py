"""One step of a member from the tasks that it has to its target (Kafka: CurrentAssignmentBuilder).

A member keeps its epoch until it has given up the tasks that are not in its target. Then it gets
the target's epoch and all of the target's tasks that are free, and waits for the others.

| state | meaning | next step when |
| --- | --- | --- |
| STABLE | all of the target of its epoch | there is a newer target |
| UNREVOKED_TASKS | told to give tasks up | it reports that it has |
| UNRELEASED_TASKS | some of the target is another's | at every heartbeat |

A process never has two copies of a task. A standby task that becomes active stays where it is until
the active one is free, so that its state is not closed in between.
"""

from collections.abc import Callable, Mapping
from collections.abc import Set as AbstractSet
from typing import NamedTuple

from siltstone.broker.groups.streams.assignor import TaskId
from siltstone.broker.groups.streams.group import StreamsGroup, task_ids
from siltstone.broker.groups.streams.member import NO_TASKS, Member, MemberState
from siltstone.protocol.coordinator.group_errors import FencedMemberEpoch
from siltstone.protocol.coordinator.streams_group_records import (
    CurrentAssignment,
    HeldTasks,
    Tasks,
    TaskSet,
)


def reconcile(
    group: StreamsGroup, member: Member, target_epoch: int, target: Tasks, owned: Tasks | None
) -> CurrentAssignment:
    """Return the member's next assignment, or its present one if it cannot move.

    ``owned`` are the tasks that the member reports as its own; None if the heartbeat does not say.

    Raises:
        FencedMemberEpoch: A newer broker left the member in a state that is not known here.
    """
    step = _Step(group, member, target_epoch, target, owned)
    match member.state:
        case MemberState.STABLE if member.epoch == target_epoch:
            return member.current
        case MemberState.UNREVOKED_TASKS:
            if _holds(owned, member.current.revoking):
                return member.current
            return step.take(member.epoch + 1)
        case MemberState.UNKNOWN:
            if owned is None or any(owned):
                raise FencedMemberEpoch(
                    "The streams group member is in a unknown state. The member must abandon all "
                    "its tasks and rejoin."
                )
            return step.take(target_epoch)
    return step.take(member.epoch)


class _Split(NamedTuple):
    """The tasks that a role keeps, gives up, and gets now; and whether it waits for others."""

    kept: set[TaskId]
    revoked: set[TaskId]
    gotten: set[TaskId]
    waits: bool


class _Step:
    """The next step of a member."""

    def __init__(
        self,
        group: StreamsGroup,
        member: Member,
        target_epoch: int,
        target: Tasks,
        owned: Tasks | None,
    ) -> None:
        self._group = group
        self._member = member
        self._epoch = target_epoch
        self._target = target
        self._owned = owned
        assigned = member.current.assigned
        self._active = set(task_ids(assigned.active))
        self._standby = set(task_ids(assigned.standby))
        self._warmup = set(task_ids(assigned.warmup))

    def take(self, epoch: int) -> CurrentAssignment:
        """Give up tasks outside of the target in an epoch; otherwise get the target's free ones."""
        target = self._target
        active = _split(self._active, set(task_ids(target.active)), self._is_active_free)
        standby = _split(self._standby, set(task_ids(target.standby)), self._is_standby_free)
        warmup = _split(self._warmup, set(task_ids(target.warmup)), self._is_warmup_free)
        _grant(standby, self._active)
        for task in _grant(warmup, self._standby):
            standby.revoked.discard(task)
        for task in _grant(standby, self._warmup):
            warmup.revoked.discard(task)
        promoted = set(task_ids(target.active))
        standby.revoked.difference_update(self._standby & promoted)
        warmup.revoked.difference_update(self._warmup & promoted)
        revoking = HeldTasks(
            self._with_epochs(active.revoked), _by_name(standby.revoked), _by_name(warmup.revoked)
        )
        gives_up = any(revoking) and _holds(self._owned, revoking)
        waiting = promoted if gives_up else promoted - active.gotten
        standby.kept.update(self._standby & waiting)
        warmup.kept.update(self._warmup & waiting)
        if gives_up:
            kept = HeldTasks(
                self._with_epochs(active.kept), _by_name(standby.kept), _by_name(warmup.kept)
            )
            state = MemberState.UNREVOKED_TASKS
            return CurrentAssignment(epoch, self._member.epoch, state, kept, revoking)
        assigned = HeldTasks(
            self._with_epochs(active.kept | active.gotten),
            _by_name(standby.kept | standby.gotten),
            _by_name(warmup.kept | warmup.gotten),
        )
        waits = active.waits or standby.waits or warmup.waits
        state = MemberState.UNRELEASED_TASKS if waits else MemberState.STABLE
        return CurrentAssignment(self._epoch, self._member.epoch, state, assigned, NO_TASKS)

    def _is_active_free(self, task: TaskId) -> bool:
        group = self._group
        return (
            task not in group.owners
            and not self._has_other(group.standby, task)
            and not self._has_other(group.warmup, task)
        )

    def _is_standby_free(self, task: TaskId) -> bool:
        group = self._group
        runs_here = self._runs_here(task) and task not in self._active
        return not (
            runs_here or self._has_any(group.standby, task) or self._has_other(group.warmup, task)
        )

    def _is_warmup_free(self, task: TaskId) -> bool:
        group = self._group
        return not (
            self._runs_here(task)
            or self._has_other(group.standby, task)
            or self._has_any(group.warmup, task)
        )

    def _runs_here(self, task: TaskId) -> bool:
        """Tell whether the active task is in this member's process."""
        owner = self._group.owners.get(task)
        return owner is not None and self._is_here(owner)

    def _has_any(self, holders: Mapping[TaskId, set[str]], task: TaskId) -> bool:
        return any(map(self._is_here, holders.get(task, ())))

    def _has_other(self, holders: Mapping[TaskId, set[str]], task: TaskId) -> bool:
        others = holders.get(task, set()) - {self._member.id}
        return any(map(self._is_here, others))

    def _is_here(self, member_id: str) -> bool:
        return self._group.members[member_id].process_id == self._member.process_id

    def _with_epochs(self, tasks: AbstractSet[TaskId]) -> dict[str, dict[int, int]]:
        """Return active tasks; one that the member had before keeps the epoch in which it came."""
        before = self._member.current.assigned.active
        found: dict[str, dict[int, int]] = {}
        for subtopology, partition in sorted(tasks):
            epoch = before.get(subtopology, {}).get(partition, self._epoch)
            found.setdefault(subtopology, {})[partition] = epoch
        return found


def _split(
    held: AbstractSet[TaskId], target: AbstractSet[TaskId], is_free: Callable[[TaskId], bool]
) -> _Split:
    wanted = target - held
    free = set(filter(is_free, wanted))
    return _Split(set(held & target), set(held - target), free, len(free) < len(wanted))


def _grant(split: _Split, held: AbstractSet[TaskId]) -> set[TaskId]:
    """Give a member at once a role of tasks that it has in another role; return these tasks."""
    tasks = split.gotten & held
    split.gotten.difference_update(tasks)
    split.kept.update(tasks)
    return tasks


def _by_name(tasks: AbstractSet[TaskId]) -> TaskSet:
    found: dict[str, set[int]] = {}
    for subtopology, partition in sorted(tasks):
        found.setdefault(subtopology, set()).add(partition)
    return {name: frozenset(each) for name, each in found.items()}


def _holds(owned: Tasks | None, tasks: HeldTasks) -> bool:
    """Tell whether the member owns one of these tasks, or did not report what it owns."""
    if owned is None:
        return True
    return any(
        not each.isdisjoint(there.get(name, ()))
        for role, there in zip(owned, tasks, strict=True)
        for name, each in role.items()
    )

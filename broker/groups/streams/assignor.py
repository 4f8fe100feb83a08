"""The sticky assignor, which gives the tasks of a topology to the members of a streams group.

A task stays where it runs, as long as that member has room for it; then it goes to a member that
has its state, as a standby task or on its disk; then to the process with the least load. A process
has a member for each of its threads, and at most one copy of a task. Standby tasks of stateful
subtopologies come last (Kafka 4.4's StickyTaskAssignor).
"""

from collections.abc import Iterable, Mapping
from heapq import heapify, heappop, heappush
from types import MappingProxyType
from typing import NamedTuple

from siltstone.protocol.coordinator.streams_group_records import Tasks, TaskSet


class TaskId(NamedTuple):
    """One task."""

    subtopology: str
    partition: int


class MemberSpec(NamedTuple):
    """A member: its process, the tasks that it has, and the offsets of the state on its disk."""

    process_id: str
    held: Tasks = Tasks()
    offsets: Mapping[TaskId, int] = MappingProxyType({})


class SubtopologySpec(NamedTuple):
    """The number of tasks of a subtopology, and whether they have state."""

    tasks: int
    is_stateful: bool


def assign_sticky(
    members: Mapping[str, MemberSpec],
    subtopologies: Mapping[str, SubtopologySpec],
    standby_replicas: int,
) -> dict[str, Tasks]:
    """Return the tasks of every member."""
    work = _Assignment(members, subtopologies, standby_replicas)
    work.assign_active()
    if standby_replicas:
        work.assign_standby()
    return {
        name: Tasks(work.of(name, work.active), work.of(name, work.standby)) for name in members
    }


class _Process:
    """A process while tasks are assigned: its members, and what they have."""

    def __init__(self) -> None:
        self.counts: dict[str, int] = {}
        self.tasks: set[TaskId] = set()

    @property
    def load(self) -> float:
        """How many tasks each member has, on average."""
        return len(self.tasks) / len(self.counts)

    @property
    def idlest(self) -> str:
        """The member with the fewest tasks."""
        return min(self.counts, key=self.counts.__getitem__)


class _Quota:
    """How many tasks a member may have so that all have equally many; it follows what is given."""

    def __init__(self, tasks: int, members: int) -> None:
        self._tasks = tasks
        self._members = members
        self._share()

    def _share(self) -> None:
        self.each = -(-self._tasks // self._members) if self._members else 0

    def note(self, count: int) -> None:
        """Note that a member has ``count`` tasks now; if it is full, the others share the rest."""
        if count == self.each:
            self._members -= 1
            self._tasks -= count
            self._share()


class _Assignment:
    def __init__(
        self,
        members: Mapping[str, MemberSpec],
        subtopologies: Mapping[str, SubtopologySpec],
        standby_replicas: int,
    ) -> None:
        self._members = members
        self._subtopologies = subtopologies
        self._replicas = standby_replicas
        self.active: dict[str, list[TaskId]] = {}
        self.standby: dict[str, list[TaskId]] = {}
        self._processes: dict[str, _Process] = {}
        self._active_before: dict[TaskId, str] = {}
        candidates: dict[TaskId, list[tuple[bool, int, str]]] = {}
        for name, member in members.items():
            self._processes.setdefault(member.process_id, _Process()).counts[name] = 0
            self._active_before |= dict.fromkeys(_ids(member.held.active), name)
            standby = dict.fromkeys(_ids(member.held.standby))
            for task in standby:
                said = member.offsets.get(task, 0)
                candidates.setdefault(task, []).append((False, -said, name))
            for task, offset in member.offsets.items():
                if task not in standby:
                    candidates.setdefault(task, []).append((True, -offset, name))
        # The member whose state is the newest comes first, and a standby task before a mere store.
        self._state_before = {
            task: [name for *_, name in sorted(some, key=lambda each: each[:2])]
            for task, some in candidates.items()
        }
        total = sum(each.tasks for each in subtopologies.values())
        stateful = sum(each.tasks for each in subtopologies.values() if each.is_stateful)
        self._active_quota = _Quota(total, len(members))
        self._total_quota = _Quota(total + stateful * standby_replicas, len(members))

    def of(self, name: str, given: Mapping[str, Iterable[TaskId]]) -> TaskSet:
        """Return what a member was given."""
        found: dict[str, set[int]] = {}
        for task in given.get(name, ()):
            found.setdefault(task.subtopology, set()).add(task.partition)
        return {subtopology: frozenset(each) for subtopology, each in found.items()}

    def assign_active(self) -> None:
        """Give every task to one member."""
        left = self._tasks()
        left.sort(key=lambda task: (task.partition, task.subtopology))
        left = [task for task in left if not self._keep_active(self._active_before.get(task), task)]
        left = [task for task in left if not self._keep_active(self._find_state(task), task)]
        left.sort()
        queue = _Queue(self._processes)
        for task in left:
            name = queue.pop()
            self._give(self.active, self._processes[name].idlest, task)
            queue.push(name)

    def assign_standby(self) -> None:
        """Give copies of stateful tasks to other processes."""
        tasks = [task for task in self._tasks() if self._subtopologies[task[0]].is_stateful]
        tasks.sort(key=lambda task: (task.partition, task.subtopology), reverse=True)
        left: list[tuple[TaskId, int]] = []
        for task in tasks:
            for index in range(self._replicas):
                if not (
                    self._keep_standby(self._active_before.get(task), task)
                    or self._keep_standby(self._find_state(task, is_standby=True), task)
                ):
                    left.append((task, self._replicas - index))
                    break
        left.sort(reverse=True)
        queue = _Queue(self._processes)
        for task, count in left:
            for _ in range(count):
                if not self._give_copy(queue, task):
                    break

    def _tasks(self) -> list[TaskId]:
        return [
            TaskId(name, partition)
            for name, each in self._subtopologies.items()
            for partition in range(each.tasks)
        ]

    def _process_of(self, name: str) -> _Process:
        return self._processes[self._members[name].process_id]

    def _keep_active(self, name: str | None, task: TaskId) -> bool:
        if name is None or self._process_of(name).counts[name] >= self._active_quota.each:
            return False
        self._give(self.active, name, task)
        return True

    def _keep_standby(self, name: str | None, task: TaskId) -> bool:
        if name is None:
            return False
        process = self._process_of(name)
        if task in process.tasks or process.counts[name] >= self._total_quota.each:
            return False
        self._give(self.standby, name, task)
        return True

    def _find_state(self, task: TaskId, *, is_standby: bool = False) -> str | None:
        """Return the member with the least load of those that have the state of a task."""
        chosen, chosen_load = None, (0.0, 0)
        for name in self._state_before.get(task, ()):
            process = self._process_of(name)
            if is_standby and task in process.tasks:
                continue
            load = process.load, process.counts[name]
            if chosen is None or (load[0] < chosen_load[0] and load[1] < chosen_load[1]):
                chosen, chosen_load = name, load
        return chosen

    def _give(self, role: dict[str, list[TaskId]], name: str, task: TaskId) -> None:
        process = self._process_of(name)
        process.counts[name] += 1
        process.tasks.add(task)
        role.setdefault(name, []).append(task)
        if role is self.active:
            self._active_quota.note(process.counts[name])
        self._total_quota.note(process.counts[name])

    def _give_copy(self, queue: "_Queue", task: TaskId) -> bool:
        """Give a copy to the process with the least load that does not have the task."""
        passed = []
        name = None
        while queue and name is None:
            passed.append(queue.pop())
            if task not in self._processes[passed[-1]].tasks:
                name = passed[-1]
        if name is not None:
            self._give(self.standby, self._processes[name].idlest, task)
        for each in passed:
            queue.push(each)
        return name is not None


class _Queue:
    """The processes, the one with the least load first."""

    def __init__(self, processes: Mapping[str, _Process]) -> None:
        self._processes = processes
        self._heap = [(each.load, name) for name, each in processes.items()]
        heapify(self._heap)

    def __len__(self) -> int:
        return len(self._heap)

    def pop(self) -> str:
        """Take out the process with the least load."""
        return heappop(self._heap)[1]

    def push(self, name: str) -> None:
        """Put a process back, with the load that it has now."""
        heappush(self._heap, (self._processes[name].load, name))


def _ids(tasks: TaskSet) -> Iterable[TaskId]:
    return (TaskId(name, partition) for name, each in tasks.items() for partition in each)

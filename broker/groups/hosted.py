"""A group whose members have epochs, as the coordinator sees it: with its journal and deadlines."""

from collections.abc import Callable
from typing import Any, Generic, TypeVar

from siltstone.broker.groups.changes import Changes
from siltstone.broker.groups.coordinator import GroupCoordinator
from siltstone.broker.groups.deadlines import Deadline, Deadlines
from siltstone.broker.groups.epoch_group import EpochGroup
from siltstone.broker.groups.member_bytes import GroupBytes, size_of_group
from siltstone.protocol.errors import ErrorCode

M = TypeVar("M", bound=EpochGroup[Any])
C = TypeVar("C", bound=Changes[Any])
T = TypeVar("T")


class Hosted(Generic[M]):
    """The part of a `Group` that consumer groups and share groups have in common (loop only).

    ``machine`` is its state from the records.
    """

    def __init__(
        self, machine: M, coordinator: GroupCoordinator, missed: Callable[[str, Deadline], None]
    ) -> None:
        self.machine = machine
        self.group_id = machine.group_id
        self.partition = machine.partition
        self.deadlines = Deadlines(coordinator.timers, missed)
        self._bytes = GroupBytes(coordinator.member_bytes)
        self._own_bytes = 0
        self._coordinator = coordinator

    @property
    def is_empty(self) -> bool:
        """Whether no member is left."""
        return self.machine.is_empty

    def count_name(self) -> None:
        """Count the memory that the group takes, with its name and its members."""
        self._own_bytes = size_of_group(self.group_id)
        self.count_bytes()

    def count_bytes(self) -> None:
        """Count the memory that the members take now."""
        self._bytes.add(self._own_bytes + self.machine.size - self._bytes.size)
        self._bytes.set_shares(self.machine.of_users)

    def touch(self, member_id: str) -> None:
        """Do nothing: a commit is no heartbeat in this protocol."""

    def close(self, error: ErrorCode = ErrorCode.none) -> None:
        """Cancel all deadlines; requests of this protocol never wait."""
        del error
        self.deadlines.close()
        self._bytes.close()

    def settle(self, changes: Any) -> None:
        """Change what hangs on the records of a transition, when all is written or undone."""
        changes.settle(self.deadlines)

    def run(self, changes: C, transition: Callable[[C], T]) -> T:
        """Run a transition and write its records; after a failure nothing has changed.

        Raises:
            KafkaError: The transition is refused, or the journal did not take it.
        """
        machine, user = self.machine, changes.user
        before, share = machine.size, machine.of_users.get(user, 0)
        try:
            result = transition(changes)
            if changes.has_words:
                member_bytes = self._coordinator.member_bytes
                member_bytes.check(machine.size - before)
                member_bytes.check_share(machine.of_users.get(user, 0) - share, user)
            if changes.records:
                self._coordinator.write(machine, changes.encode())
        except BaseException:
            changes.undo()
            raise
        finally:
            self.settle(changes)
        self.count_bytes()
        return result

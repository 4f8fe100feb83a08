"""A member of a streams group: its metadata, and its tasks."""

from enum import IntEnum
from typing import Final, NamedTuple

from siltstone.broker.groups.member_bytes import EACH_BYTES, bytes_of
from siltstone.protocol.coordinator.streams_group_records import (
    CurrentAssignment,
    HeldTasks,
    MemberMetadata,
)

LEAVE_EPOCH: Final = -1
STATIC_LEAVE_EPOCH: Final = -2
JOIN_EPOCH: Final = 0


class MemberState(IntEnum):
    """Kafka's MemberState of streams groups by the code in the record."""

    STABLE = 1
    UNREVOKED_TASKS = 2
    UNRELEASED_TASKS = 3
    UNKNOWN = 127

    @classmethod
    def of(cls, code: int) -> "MemberState":
        """Return the state of a code; UNKNOWN for a code that a newer broker wrote."""
        try:
            return cls(code)
        except ValueError:
            return cls.UNKNOWN


NO_TASKS: Final = HeldTasks()
NEW_METADATA: Final = MemberMetadata(instance_id=None, rack_id=None, topology_epoch=-1)
NEW_ASSIGNMENT: Final = CurrentAssignment(JOIN_EPOCH, 0, MemberState.STABLE, NO_TASKS, NO_TASKS)
GONE_ASSIGNMENT: Final = CurrentAssignment(
    LEAVE_EPOCH, LEAVE_EPOCH, MemberState.STABLE, NO_TASKS, NO_TASKS
)


class Member(NamedTuple):
    """One member: its two records. The group keeps the member's target."""

    id: str
    metadata: MemberMetadata = NEW_METADATA
    current: CurrentAssignment = NEW_ASSIGNMENT
    user: str = ""
    """The user that brought it; empty without a login, and after a start. No record has it."""

    @property
    def epoch(self) -> int:
        """The member epoch: the epoch of the group that its assignment belongs to."""
        return self.current.member_epoch

    @property
    def state(self) -> MemberState:
        """Where the member stands between two assignments."""
        return MemberState.of(self.current.state)

    @property
    def process_id(self) -> str:
        """The instance of the application that it is a thread of."""
        return self.metadata.process_id

    @property
    def size(self) -> int:
        """How many bytes the member takes in memory, without its tasks."""
        said = self.metadata
        texts = (
            self.id,
            said.instance_id,
            said.rack_id,
            said.client_id,
            said.client_host,
            said.process_id,
            None if said.user_endpoint is None else said.user_endpoint.host,
        )
        return EACH_BYTES + bytes_of(texts) + sum(map(bytes_of, said.client_tags))

    def is_reconciled(self, target_epoch: int) -> bool:
        """Tell whether the member has all of the target assignment and nothing else."""
        return self.current.state == MemberState.STABLE and self.epoch == target_epoch

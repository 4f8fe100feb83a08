"""A member of a share group: its metadata, and its assignment."""

from typing import Final, NamedTuple

from siltstone.broker.groups.epoch_group import size_of
from siltstone.broker.groups.member_bytes import EACH_BYTES, bytes_of
from siltstone.protocol.coordinator.share_group_records import CurrentAssignment, MemberMetadata

LEAVE_EPOCH: Final = -1
JOIN_EPOCH: Final = 0
STABLE: Final = 0
"""The only state of a member: it never has to give up partitions before others get them."""

NEW_METADATA: Final = MemberMetadata(rack_id=None)
NEW_ASSIGNMENT: Final = CurrentAssignment(JOIN_EPOCH, -1, STABLE, {})
GONE_ASSIGNMENT: Final = CurrentAssignment(LEAVE_EPOCH, LEAVE_EPOCH, STABLE, {})
_CURRENT_BYTES: Final = (350, 100)
"""The memory for a topic of an assignment and for a partition of it."""


class Member(NamedTuple):
    """One member: its two records. The group keeps the member's target."""

    id: str
    metadata: MemberMetadata = NEW_METADATA
    current: CurrentAssignment = NEW_ASSIGNMENT
    user: str = ""
    """The user that brought it; empty without a login, and after a start. No record has it."""

    @property
    def epoch(self) -> int:
        """The member epoch: the epoch of the target that its assignment belongs to."""
        return self.current.member_epoch

    @property
    def size(self) -> int:
        """How many bytes the member takes in memory, without its assignment."""
        said = self.metadata
        texts = (self.id, said.rack_id, said.client_id, said.client_host)
        return EACH_BYTES + bytes_of(texts) + bytes_of(said.subscribed_topic_names)

    @property
    def assigned_size(self) -> int:
        """How many bytes its assignment takes."""
        return size_of(self.current.assigned, _CURRENT_BYTES)

"""A member of a consumer group: its metadata, and its assignment."""

from enum import IntEnum
from typing import Final, NamedTuple

from siltstone.broker.groups.epoch_group import size_of
from siltstone.broker.groups.member_bytes import EACH_BYTES, bytes_of
from siltstone.protocol.coordinator.consumer_group_records import CurrentAssignment, MemberMetadata
from siltstone.protocol.messages.consumer_offsets import ClassicMemberMetadata

LEAVE_EPOCH: Final = -1
STATIC_LEAVE_EPOCH: Final = -2
JOIN_EPOCH: Final = 0


_CURRENT_BYTES: Final = (600, 250)
"""The memory for a topic of an assignment and for a partition of it."""


class MemberState(IntEnum):
    """Kafka's MemberState by the code in the record."""

    STABLE = 0
    UNREVOKED_PARTITIONS = 1
    UNRELEASED_PARTITIONS = 2
    UNKNOWN = 127

    @classmethod
    def of(cls, code: int) -> "MemberState":
        """Return the state of a code; UNKNOWN for a code that a newer broker wrote."""
        try:
            return cls(code)
        except ValueError:
            return cls.UNKNOWN


NEW_METADATA: Final = MemberMetadata(
    instance_id=None,
    rack_id=None,
    client_id="",
    client_host="",
    subscribed_topic_names=(),
    subscribed_topic_regex="",
    rebalance_timeout_ms=-1,
    server_assignor=None,
    classic_member_metadata=None,
)
NEW_ASSIGNMENT: Final = CurrentAssignment(JOIN_EPOCH, -1, MemberState.STABLE, {}, {})
GONE_ASSIGNMENT: Final = CurrentAssignment(LEAVE_EPOCH, LEAVE_EPOCH, MemberState.STABLE, {}, {})


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
    def classic(self) -> ClassicMemberMetadata | None:
        """The member's metadata of the classic protocol, or None in the consumer protocol."""
        return self.metadata.classic_member_metadata

    @property
    def regex(self) -> str:
        """The expression that the member subscribes to, or an empty string."""
        return self.metadata.subscribed_topic_regex or ""

    @property
    def size(self) -> int:
        """How many bytes the member takes in memory, without its assignment."""
        said = self.metadata
        texts = (
            self.id,
            said.instance_id,
            said.rack_id,
            said.client_id,
            said.client_host,
            said.subscribed_topic_regex,
        )
        size = EACH_BYTES + bytes_of(texts) + bytes_of(said.subscribed_topic_names)
        if self.classic is not None:
            size += sum(map(bytes_of, self.classic.supported_protocols))
        return size

    @property
    def assigned_size(self) -> int:
        """How many bytes its assignment takes, for which the group also knows the owners."""
        current = self.current
        return sum(size_of(each, _CURRENT_BYTES) for each in (current.assigned, current.revoking))

    def is_reconciled(self, target_epoch: int) -> bool:
        """Tell whether the member has all of the target assignment and nothing else."""
        return self.current.state == MemberState.STABLE and self.epoch == target_epoch

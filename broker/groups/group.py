"""The interface of a group, whichever protocol its members speak; the states of a classic group."""

from collections.abc import Sequence
from enum import StrEnum
from typing import Protocol

from siltstone.broker.groups.classic import messages
from siltstone.broker.groups.consumer.checks import PartitionCheck
from siltstone.protocol.errors import ErrorCode
from siltstone.protocol.messages.consumer_offsets import OffsetCommitValue
from siltstone.protocol.records.journal import Row


class GroupState(StrEnum):
    """The states of a classic group; the values are the names that tools print."""

    EMPTY = "Empty"
    PREPARING = "PreparingRebalance"
    COMPLETING = "CompletingRebalance"
    STABLE = "Stable"
    DEAD = "Dead"


class InJournal(Protocol):
    """A group of any kind, or its state: it is kept in a partition of ``__consumer_offsets``."""

    @property
    def partition(self) -> int:
        """The partition that keeps it."""


class Group(Protocol):
    """A group of any type; a check raises the `KafkaError` to answer with."""

    @property
    def type(self) -> str:
        """The group's type as ListGroups names it: such as ``share``."""

    @property
    def group_id(self) -> str:
        """Its name."""

    @property
    def partition(self) -> int:
        """The partition of ``__consumer_offsets`` that keeps the group."""

    @property
    def state(self) -> str:
        """The state by the name that tools print."""

    @property
    def protocol_type(self) -> str:
        """The protocol type, such as ``consumer``; empty if there were never members."""

    def count_name(self) -> None:
        """Count the memory of the group's name: the coordinator keeps the group from now on."""

    @property
    def is_empty(self) -> bool:
        """Whether no member is left."""

    def join(self, request: messages.JoinRequest, reply: messages.JoinReply) -> None:
        """Serve a JoinGroup, now or later."""

    def sync(self, request: messages.SyncRequest, reply: messages.SyncReply) -> None:
        """Serve a SyncGroup, now or later."""

    def heartbeat(self, member_id: str, instance_id: str | None, generation: int) -> None:
        """Keep a member of the classic protocol alive."""

    def leave(self, leaving: Sequence[tuple[str, str | None]]) -> list[ErrorCode]:
        """Remove members, named by member id and instance id, and return an error code for each."""

    def check_commit(
        self, member_id: str, instance_id: str | None, generation: int, version: int | None
    ) -> None:
        """Refuse a commit if the sender may not commit now.

        ``version`` is that of an OffsetCommit; it is None for a TxnOffsetCommit.
        """

    def find_partition_check(self, member_id: str, generation: int) -> PartitionCheck | None:
        """Return the check for each partition of a commit, or None if there is nothing to check."""

    def check_fetch(self, member_id: str | None, member_epoch: int) -> None:
        """Refuse an OffsetFetch of a sender that is no longer a member."""

    def check_offset_delete(self) -> None:
        """Refuse to delete offsets while it is not known which offsets are in use."""

    def check_delete(self) -> None:
        """Refuse to be deleted while there are members."""

    def is_subscribed_to(self, topic: str) -> bool:
        """Tell whether members read a topic, or may read it."""

    def expiry_base(self, topic: str, committed: OffsetCommitValue) -> int | None:
        """Return the time in ms since which an offset is unused; None if it is in use."""

    def touch(self, member_id: str) -> None:
        """Note that a member has committed."""

    def tombstones(self) -> list[Row]:
        """Return the records that delete the group, without those of its offsets."""

    def close(self, error: ErrorCode = ...) -> None:
        """End the group: requests that wait get the error, and no timer fires again."""

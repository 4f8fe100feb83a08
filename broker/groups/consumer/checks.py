"""Checks of clients that commit or fetch the offsets of a consumer group (Kafka: ConsumerGroup)."""

from collections.abc import Callable
from functools import partial
from typing import Final, TypeAlias
from uuid import UUID

from siltstone.broker.groups.consumer.group import ConsumerGroup
from siltstone.broker.groups.consumer.member import Member
from siltstone.protocol.coordinator.group_errors import IllegalGeneration, StaleMemberEpoch
from siltstone.protocol.errors import UnsupportedVersion

PartitionCheck: TypeAlias = Callable[[str, UUID | None, int], None]
"""Refuses, by topic, its id and partition, what a member of an older epoch may not commit."""

FIRST_WITH_EPOCHS: Final = 9
"""The first version of OffsetCommit that has member epochs."""


def check_commit(
    group: ConsumerGroup,
    member_id: str,
    instance_id: str | None,
    member_epoch: int,
    version: int | None,
) -> None:
    """Refuse a commit of a non-member, or of a member with an epoch above its own.

    A commit with an older epoch passes: `find_partition_check` judges it by its partitions.

    Raises:
        UnknownMemberId: The sender is no member, and there are members.
        UnsupportedVersion: The member has epochs, and this version of the request has none.
        StaleMemberEpoch: The epoch is above the member's.
        IllegalGeneration: The epoch is above the member's, which uses the classic protocol.
    """
    if member_epoch < 0:
        is_anonymous = not member_id and instance_id is None
        if not group.members or (version is None and is_anonymous):
            return
    member = group.get(member_id)
    if version is not None and version < FIRST_WITH_EPOCHS and member.classic is None:
        raise UnsupportedVersion(
            "OffsetCommit version 9 or above must be used by members using the consumer group "
            "protocol"
        )
    if member_epoch > member.epoch:
        raise _stale(
            member, f"epoch {member_epoch} is newer than {member.epoch}, that of member {member.id}"
        )


def find_partition_check(
    group: ConsumerGroup, member_id: str, member_epoch: int
) -> PartitionCheck | None:
    """Return the check for each partition of a commit; None if no check is needed (KIP-1251).

    A member whose epoch has risen since it sent its commit may commit for partitions that it
    already had.
    """
    member = group.members.get(member_id)
    if member is None or member_epoch == member.epoch:
        return None
    return partial(_check_partition, member, member_epoch)


def check_fetch(group: ConsumerGroup, member_id: str | None, member_epoch: int) -> None:
    """Refuse an OffsetFetch whose sender claims to be a member and is not.

    Raises:
        UnknownMemberId: The sender is no member.
        StaleMemberEpoch: The member is not in that epoch.
        IllegalGeneration: A classic member is not in that epoch.
    """
    if member_id is None and member_epoch < 0:
        return
    member = group.get(member_id or "")
    if member_epoch != member.epoch:
        raise _stale(
            member, f"epoch {member_epoch} is not {member.epoch}, that of member {member.id}"
        )


def _check_partition(
    member: Member, member_epoch: int, topic: str, topic_id: UUID | None, partition: int
) -> None:
    """Refuse a commit for a partition that the member lacks, or got after the commit's epoch."""
    del topic
    current = member.current
    since = next(
        (
            held[topic_id][partition]
            for held in (current.assigned, current.revoking)
            if topic_id is not None and partition in held.get(topic_id, {})
        ),
        None,
    )
    if since is None or member_epoch < since:
        raise _stale(
            member, f"in epoch {member_epoch} partition {partition} was not member {member.id}'s"
        )


def _stale(member: Member, message: str) -> StaleMemberEpoch | IllegalGeneration:
    return StaleMemberEpoch(message) if member.classic is None else IllegalGeneration(message)

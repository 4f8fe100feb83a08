"""Checks of clients that commit or fetch the offsets of a streams group (Kafka: StreamsGroup)."""

from functools import partial
from typing import Final
from uuid import UUID

from siltstone.broker.groups.consumer.checks import PartitionCheck
from siltstone.broker.groups.streams.group import StreamsGroup
from siltstone.broker.groups.streams.member import Member
from siltstone.broker.groups.streams.topology import find_reader
from siltstone.protocol.coordinator.group_errors import StaleMemberEpoch
from siltstone.protocol.coordinator.streams_group_records import Topology
from siltstone.protocol.errors import UnsupportedVersion

_FIRST_WITH_EPOCHS: Final = 9
"""The first version of OffsetCommit that has member epochs."""
_NO_EPOCH: Final = -1


def check_commit(
    group: StreamsGroup,
    member_id: str,
    instance_id: str | None,
    member_epoch: int,
    version: int | None,
) -> None:
    """Refuse a commit of a non-member, or of a member with an epoch above its own.

    A commit with an older epoch passes: `find_partition_check` judges it by its tasks.

    Raises:
        UnknownMemberId: The sender is no member, and there are members.
        UnsupportedVersion: This version of the request has no epochs.
        StaleMemberEpoch: The epoch is above the member's.
    """
    if member_epoch < 0 and not group.members:
        return
    is_anonymous = member_epoch == _NO_EPOCH and not member_id and instance_id is None
    if version is None and is_anonymous:
        return
    member = group.get(member_id)
    if version is not None and version < _FIRST_WITH_EPOCHS:
        raise UnsupportedVersion(
            "OffsetCommit version 9 or above must be used by members using the streams group "
            "protocol"
        )
    if member_epoch > member.epoch:
        raise StaleMemberEpoch(
            f"Received member epoch {member_epoch} is newer than current member epoch "
            f"{member.epoch}."
        )


def find_partition_check(
    group: StreamsGroup, member_id: str, member_epoch: int
) -> PartitionCheck | None:
    """Return the check for each partition of a commit; None if no check is needed (KIP-1251).

    A member whose epoch has risen since it sent its commit may commit for tasks that it already
    had.

    Raises:
        StaleMemberEpoch: It is not known which task reads which partition.
    """
    member = group.members.get(member_id)
    if member is None or member_epoch == member.epoch:
        return None
    if group.topology is None:
        raise StaleMemberEpoch("Topology is not available for offset commit validation.")
    return partial(_check_partition, member, member_epoch, group.topology)


def check_fetch(group: StreamsGroup, member_id: str | None, member_epoch: int) -> None:
    """Refuse an OffsetFetch whose sender claims to be a member and is not.

    Raises:
        UnknownMemberId: The sender is no member.
        StaleMemberEpoch: The member is not in that epoch.
    """
    if member_id is None and member_epoch < 0:
        return
    member = group.get(member_id or "")
    if member_epoch != member.epoch:
        raise StaleMemberEpoch(
            f"The received member epoch {member_epoch} does not match the expected member epoch "
            f"{member.epoch}."
        )


def _check_partition(
    member: Member,
    member_epoch: int,
    topology: Topology,
    topic: str,
    topic_id: UUID | None,
    partition: int,
) -> None:
    """Refuse a commit for a task that the member lacks, or got after the commit's epoch."""
    del topic_id
    reader = find_reader(topology, topic)
    if reader is None:
        raise StaleMemberEpoch(f"Topic {topic} is not in the topology.")
    name = reader.subtopology_id
    since = next(
        (
            held.active[name][partition]
            for held in (member.current.assigned, member.current.revoking)
            if partition in held.active.get(name, {})
        ),
        None,
    )
    if since is None:
        raise StaleMemberEpoch(
            f"Task {name}-{partition} is not assigned or pending revocation for member."
        )
    if member_epoch < since:
        raise StaleMemberEpoch(
            f"Received member epoch {member_epoch} is older than assignment epoch {since} for "
            f"task {name}-{partition}."
        )

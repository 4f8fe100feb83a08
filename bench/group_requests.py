"""The requests of groups, as kio's classes: what a consumer sends, and the clients beside it."""

from __future__ import annotations

import struct
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Final

from kio.schema.errors import ErrorCode

from bench.connection import part, request_class

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from bench.connection import Connection

SESSION: Final = timedelta(minutes=25)
"""Longer than any case: members of the load beat when it is their turn, not when it is time."""

PROTOCOL: Final = "range"
_NO_NAME: Final = struct.pack(">i", -1)


def find_coordinator(group: str) -> Any:
    """Return a FindCoordinator of version 4; Kafka makes ``__consumer_offsets`` for it."""
    return request_class(10, 4)(key_type=0, coordinator_keys=(group,))


def commit(group: str, topic: str, partitions: Iterable[int], offset: int) -> Any:
    """Return an OffsetCommit of version 8, of a group without members."""
    request = request_class(8, 8)
    row, rows = (
        part(request, name) for name in ("OffsetCommitRequestPartition", "OffsetCommitRequestTopic")
    )
    return request(
        group_id=group,
        generation_id_or_member_epoch=-1,
        member_id="",
        group_instance_id=None,
        topics=(
            rows(
                name=topic,
                partitions=tuple(
                    row(
                        partition_index=index,
                        committed_offset=offset,
                        committed_leader_epoch=0,
                        committed_metadata="",
                    )
                    for index in partitions
                ),
            ),
        ),
    )


def fetch_offsets(groups: Iterable[str], topic: str, partition: int) -> Any:
    """Return an OffsetFetch of version 8: one partition of each group."""
    request = request_class(9, 8)
    row, rows = (
        part(request, name) for name in ("OffsetFetchRequestGroup", "OffsetFetchRequestTopics")
    )
    topics = (rows(name=topic, partition_indexes=(partition,)),)
    return request(
        groups=tuple(row(group_id=group, topics=topics) for group in groups), require_stable=False
    )


def subscription(topic: str) -> bytes:
    """Return what a consumer of one topic says when it joins."""
    return struct.pack(">hih", 0, 1, len(topic)) + topic.encode() + _NO_NAME


def join(group: str, topic: str, member_id: str) -> Any:
    """Return a JoinGroup of version 5; the member's metadata is that of a consumer."""
    request = request_class(11, 5)
    protocol = part(request, "JoinGroupRequestProtocol")(
        name=PROTOCOL, metadata=subscription(topic)
    )
    return request(
        group_id=group,
        session_timeout=SESSION,
        rebalance_timeout=SESSION,
        member_id=member_id,
        group_instance_id=None,
        protocol_type="consumer",
        protocols=(protocol,),
    )


def sync(group: str, member_id: str, generation: int, members: Sequence[str]) -> Any:
    """Return a SyncGroup of version 3; the leader gives every member some bytes."""
    request = request_class(14, 3)
    row = part(request, "SyncGroupRequestAssignment")
    return request(
        group_id=group,
        generation_id=generation,
        member_id=member_id,
        group_instance_id=None,
        assignments=tuple(row(member_id=each, assignment=bytes(20)) for each in members),
    )


def heartbeat(group: str, member_id: str, generation: int) -> Any:
    """Return a Heartbeat of version 4."""
    return request_class(12, 4)(
        group_id=group, generation_id=generation, member_id=member_id, group_instance_id=None
    )


def leave(group: str, member_id: str) -> Any:
    """Return a LeaveGroup of version 3."""
    request = request_class(13, 3)
    member = part(request, "MemberIdentity")(member_id=member_id, group_instance_id=None)
    return request(group_id=group, members=(member,))


def enter(connection: Connection, group: str, topic: str) -> tuple[str, int]:
    """Make a member the only one of its group; return its id and the generation."""
    refused = connection.ask_until(
        join(group, topic, ""), lambda answer: answer.error_code is ErrorCode.member_id_required
    )
    joined = connection.ask(join(group, topic, refused.member_id))
    synced = connection.ask(sync(group, joined.member_id, joined.generation_id, [joined.member_id]))
    for answer in (joined, synced):
        if answer.error_code is not ErrorCode.none:
            raise RuntimeError(f"no member could enter {group}: {answer}")
    return joined.member_id, joined.generation_id

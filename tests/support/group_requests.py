"""Requests of groups, as kio has them, with what tests leave out."""

from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Any

from tests.support.kio_schemas import request_class


def _milliseconds(value: int) -> timedelta:
    return timedelta(milliseconds=value)


def join(
    group: str,
    member_id: str = "",
    *,
    instance_id: str | None = None,
    session_ms: int = 10_000,
    protocol_type: str = "consumer",
    protocols: Sequence[tuple[str, bytes]] = (("range", b""),),
) -> Any:
    """Return a JoinGroup of version 9."""
    protocol = request_class(11, 9, "JoinGroupRequestProtocol")
    return request_class(11, 9)(
        group_id=group,
        session_timeout=_milliseconds(session_ms),
        rebalance_timeout=_milliseconds(20_000),
        member_id=member_id,
        group_instance_id=instance_id,
        protocol_type=protocol_type,
        protocols=tuple(protocol(name=name, metadata=data) for name, data in protocols),
    )


def find(key: str, key_type: int = 0) -> Any:
    """Return a FindCoordinator of version 4: of a group, or of a transactional id (1)."""
    return request_class(10, 4)(key_type=key_type, coordinator_keys=(key,))


def old_join(group: str, *, session_ms: int = 10_000) -> Any:
    """Return a JoinGroup of version 0."""
    protocol = request_class(11, 0, "JoinGroupRequestProtocol")
    return request_class(11, 0)(
        group_id=group,
        session_timeout=_milliseconds(session_ms),
        member_id="",
        protocol_type="consumer",
        protocols=(protocol(name="range", metadata=b"x"),),
    )


def sync(
    group: str,
    member_id: str,
    generation: int,
    assignments: Mapping[str, bytes] | None = None,
    protocol: tuple[str | None, str | None] = ("consumer", "range"),
) -> Any:
    """Return a SyncGroup of version 5; the protocol is type and name."""
    row = request_class(14, 5, "SyncGroupRequestAssignment")
    return request_class(14, 5)(
        group_id=group,
        generation_id=generation,
        member_id=member_id,
        protocol_type=protocol[0],
        protocol_name=protocol[1],
        assignments=tuple(
            row(member_id=each, assignment=data) for each, data in (assignments or {}).items()
        ),
    )


def beat(group: str, member_id: str, generation: int, instance_id: str | None = None) -> Any:
    """Return a Heartbeat of version 4."""
    return request_class(12, 4)(
        group_id=group, generation_id=generation, member_id=member_id, group_instance_id=instance_id
    )


def leave(group: str, *members: tuple[str, str | None]) -> Any:
    """Return a LeaveGroup of version 5."""
    identity = request_class(13, 5, "MemberIdentity")
    return request_class(13, 5)(
        group_id=group,
        members=tuple(identity(member_id=one, group_instance_id=two) for one, two in members),
    )


def commit(
    group: str,
    offsets: Mapping[tuple[str, int], int],
    *,
    version: int = 8,
    member: tuple[str, int, str | None] = ("", -1, None),
    metadata: str | None = "",
    retention_ms: int = -1,
) -> Any:
    """Return an OffsetCommit that names its topics; a member is id, generation, instance id."""
    row = request_class(8, version, "OffsetCommitRequestPartition")
    topic = request_class(8, version, "OffsetCommitRequestTopic")
    values: dict[str, Any] = {} if version < 7 else {"group_instance_id": member[2]}
    if version < 5:
        values["retention_time"] = _milliseconds(retention_ms)
    return request_class(8, version)(
        group_id=group,
        generation_id_or_member_epoch=member[1],
        member_id=member[0],
        topics=tuple(
            topic(
                name=name,
                partitions=(
                    row(
                        partition_index=index, committed_offset=offset, committed_metadata=metadata
                    ),
                ),
            )
            for (name, index), offset in offsets.items()
        ),
        **values,
    )


def fetch(group: str, *wanted: tuple[str, int]) -> Any:
    """Return an OffsetFetch of version 8 for one group, for all topics by default."""
    groups = request_class(9, 8, "OffsetFetchRequestGroup")
    topic = request_class(9, 8, "OffsetFetchRequestTopics")
    topics = tuple(topic(name=name, partition_indexes=(index,)) for name, index in wanted)
    return request_class(9, 8)(groups=(groups(group_id=group, topics=topics or None),))


def describe(group: str, version: int = 6) -> Any:
    """Return a DescribeGroups of one group."""
    return request_class(15, version)(groups=(group,), include_authorized_operations=False)


def list_groups(*states: str, types: Sequence[str] = ()) -> Any:
    """Return a ListGroups of version 5."""
    return request_class(16, 5)(states_filter=states, types_filter=tuple(types))


def delete(*groups: str) -> Any:
    """Return a DeleteGroups of version 2."""
    return request_class(42, 2)(groups_names=groups)


def delete_offsets(group: str, *named: tuple[str, int]) -> Any:
    """Return an OffsetDelete."""
    topic = request_class(47, 0, "OffsetDeleteRequestTopic")
    row = request_class(47, 0, "OffsetDeleteRequestPartition")
    return request_class(47, 0)(
        group_id=group,
        topics=tuple(
            topic(name=name, partitions=(row(partition_index=index),)) for name, index in named
        ),
    )


def consumer_beat(group: str, member_id: str, epoch: int, **said: Any) -> Any:
    """Return a ConsumerGroupHeartbeat of version 1; a member that joins reads "orders"."""
    values: dict[str, Any] = {
        "group_id": group,
        "member_id": member_id,
        "member_epoch": epoch,
        "instance_id": None,
        "rack_id": None,
        "rebalance_timeout": _milliseconds(-1 if epoch else 9000),
        "subscribed_topic_names": None if epoch else ("orders",),
        "subscribed_topic_regex": None,
        "server_assignor": None,
        "topic_partitions": None if epoch else (),
    }
    return request_class(68, 1)(**values | said)


def describe_consumer(group: str) -> Any:
    """Return a ConsumerGroupDescribe of version 1."""
    return request_class(69, 1)(group_ids=(group,), include_authorized_operations=False)

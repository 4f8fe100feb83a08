"""Requests of groups as kio's entities, with defaults for what tests leave out."""

from collections.abc import Mapping, Sequence
from typing import Any

from tests.support.kio_messages import request


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
    return request(
        11,
        9,
        group_id=group,
        session_timeout=session_ms,
        rebalance_timeout=20_000,
        member_id=member_id,
        group_instance_id=instance_id,
        protocol_type=protocol_type,
        protocols=[{"name": name, "metadata": data} for name, data in protocols],
    )


def find(key: str, key_type: int = 0) -> Any:
    """Return a FindCoordinator of version 4: of a group, or of a transactional id (1)."""
    return request(10, 4, key_type=key_type, coordinator_keys=[key])


def old_join(group: str, *, session_ms: int = 10_000, metadata: bytes = b"x") -> Any:
    """Return a JoinGroup of version 0."""
    protocols = [{"name": "range", "metadata": metadata}]
    return request(
        11,
        0,
        group_id=group,
        session_timeout=session_ms,
        protocol_type="consumer",
        protocols=protocols,
    )


def sync(
    group: str,
    member_id: str,
    generation: int,
    assignments: Mapping[str, bytes] | None = None,
    protocol: tuple[str | None, str | None] = ("consumer", "range"),
) -> Any:
    """Return a SyncGroup of version 5; the protocol is type and name."""
    rows = [{"member_id": one, "assignment": data} for one, data in (assignments or {}).items()]
    return request(
        14,
        5,
        group_id=group,
        generation_id=generation,
        member_id=member_id,
        protocol_type=protocol[0],
        protocol_name=protocol[1],
        assignments=rows,
    )


def beat(group: str, member_id: str, generation: int, instance_id: str | None = None) -> Any:
    """Return a Heartbeat of version 4."""
    member = {"member_id": member_id, "group_instance_id": instance_id}
    return request(12, 4, group_id=group, generation_id=generation, **member)


def leave(group: str, *members: tuple[str, str | None]) -> Any:
    """Return a LeaveGroup of version 5."""
    rows = [{"member_id": one, "group_instance_id": two} for one, two in members]
    return request(13, 5, group_id=group, members=rows)


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
    values: dict[str, Any] = {} if version < 7 else {"group_instance_id": member[2]}
    if version < 5:
        values["retention_time"] = retention_ms
    kept = {"committed_metadata": metadata}
    return request(
        8,
        version,
        group_id=group,
        generation_id_or_member_epoch=member[1],
        member_id=member[0],
        topics=[
            {
                "name": name,
                "partitions": [{"partition_index": index, "committed_offset": offset, **kept}],
            }
            for (name, index), offset in offsets.items()
        ],
        **values,
    )


def fetch(group: str, *wanted: tuple[str, int]) -> Any:
    """Return an OffsetFetch of version 8 for one group, for all topics by default."""
    topics = [{"name": name, "partition_indexes": [index]} for name, index in wanted]
    return request(9, 8, groups=[{"group_id": group, "topics": topics or None}])


def describe(group: str, version: int = 6) -> Any:
    """Return a DescribeGroups of one group."""
    return request(15, version, groups=[group])


def list_groups(*states: str, types: Sequence[str] = ()) -> Any:
    """Return a ListGroups of version 5."""
    return request(16, 5, states_filter=states, types_filter=types)


def delete(*groups: str) -> Any:
    """Return a DeleteGroups of version 2."""
    return request(42, 2, groups_names=groups)


def delete_offsets(group: str, *named: tuple[str, int]) -> Any:
    """Return an OffsetDelete."""
    topics = [{"name": name, "partitions": [{"partition_index": index}]} for name, index in named]
    return request(47, 0, group_id=group, topics=topics)


def consumer_beat(group: str, member_id: str, epoch: int, **said: Any) -> Any:
    """Return a ConsumerGroupHeartbeat of version 1; a member that joins reads "orders"."""
    values: dict[str, Any] = {
        "rebalance_timeout": -1 if epoch else 9000,
        "subscribed_topic_names": None if epoch else ("orders",),
        "topic_partitions": None if epoch else (),
    }
    values |= {"group_id": group, "member_id": member_id, "member_epoch": epoch}
    return request(68, 1, **values | said)


def describe_consumer(group: str) -> Any:
    """Return a ConsumerGroupDescribe of version 1."""
    return request(69, 1, group_ids=[group])

"""OffsetDelete (47), version 0: forget what a group has committed (KIP-496)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from protocol.coordinator.group_errors import (
    GroupIdNotFound,
    GroupSubscribedToTopic,
    InvalidGroupId,
)
from protocol.errors import ErrorCode, KafkaError, UnknownTopicOrPartition
from protocol.messages.offset_delete import (
    OffsetDeleteResponse,
    OffsetDeleteResponsePartition,
    OffsetDeleteResponseTopic,
)

if TYPE_CHECKING:
    from broker.context import RequestContext, Rooms
    from broker.groups.group import Group
    from protocol.messages.offset_delete import OffsetDeleteRequest


def delete(context: RequestContext, request: OffsetDeleteRequest) -> OffsetDeleteResponse:
    """Delete offsets of topics that no member reads; one that was not there is no error."""
    rooms = context.rooms
    named: dict[str, list[int]] = {}
    for topic in request.topics:
        named.setdefault(topic.name, []).extend(each.partition_index for each in topic.partitions)
    codes = {
        (name, index): _find_unknown(rooms, name, index)
        for name, indexes in named.items()
        for index in indexes
    }
    known = [key for key, code in codes.items() if code is ErrorCode.none]
    error = ErrorCode.none
    try:
        group = _find_group(rooms, request.group_id)
        deleted = []
        for name, index in known:
            if group.is_subscribed_to(name):
                codes[name, index] = GroupSubscribedToTopic.code
            else:
                deleted.append((name, index))
        rooms.groups.offsets.deleted_count += rooms.groups.delete_offsets(group, deleted)
    except KafkaError as refusal:
        error = refusal.code
    return OffsetDeleteResponse(
        error_code=error,
        topics=[]
        if error
        else [
            OffsetDeleteResponseTopic(
                name,
                [OffsetDeleteResponsePartition(index, codes[name, index]) for index in indexes],
            )
            for name, indexes in named.items()
        ],
    )


def _find_unknown(rooms: Rooms, name: str, index: int) -> ErrorCode:
    topic = rooms.topics.topics.get(name)
    if topic is None or not 0 <= index < topic.partitions:
        return UnknownTopicOrPartition.code
    return ErrorCode.none


def _find_group(rooms: Rooms, group_id: str) -> Group:
    """Return the group whose offsets may be deleted.

    Raises:
        InvalidGroupId: It has no name.
        GroupIdNotFound: There is no such group.
        KafkaError: Another refusal of the group.
    """
    if not group_id:
        raise InvalidGroupId
    rooms.groups.check(group_id)
    group = rooms.groups.find(group_id)
    if group is None:
        raise GroupIdNotFound
    group.check_offset_delete()
    return group

"""OffsetDelete (47), version 0: forget what a group has committed (KIP-496)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from siltstone.broker.net.slices import ELEMENTS, Slices
from siltstone.broker.process.loop_share import finish, finish_in_shares
from siltstone.broker.security.rights import DELETE, GROUP, READ, TOPIC
from siltstone.protocol.coordinator.group_errors import (
    GroupIdNotFound,
    GroupSubscribedToTopic,
    InvalidGroupId,
)
from siltstone.protocol.errors import (
    ErrorCode,
    GroupAuthorizationFailed,
    KafkaError,
    TopicAuthorizationFailed,
    UnknownTopicOrPartition,
)
from siltstone.protocol.messages.offset_delete import (
    OffsetDeleteResponse,
    OffsetDeleteResponsePartition,
    OffsetDeleteResponseTopic,
)

if TYPE_CHECKING:
    from collections.abc import Coroutine, Generator

    from siltstone.broker.context import RequestContext
    from siltstone.broker.groups.group import Group
    from siltstone.broker.services import Services
    from siltstone.protocol.messages.offset_delete import OffsetDeleteRequest

_SLICES = Slices("topics", nested="partitions")


def delete(
    context: RequestContext, request: OffsetDeleteRequest
) -> OffsetDeleteResponse | Coroutine[Any, Any, OffsetDeleteResponse]:
    """Delete offsets of topics that no member reads; one that does not exist is no error."""
    if not context.may(DELETE, GROUP, request.group_id):
        return OffsetDeleteResponse(error_code=GroupAuthorizationFailed.code)
    steps = _delete(context, request)
    return finish_in_shares(steps) if _SLICES.is_large(request) else finish(steps)


def _delete(
    context: RequestContext, request: OffsetDeleteRequest
) -> Generator[None, None, OffsetDeleteResponse]:
    """Delete some offsets at a time, as the group is then; a refusal of the group is of all."""
    services = context.services
    answered: dict[str, list[OffsetDeleteResponsePartition]] = {}
    try:
        _find_group(services, request.group_id)
        for name, partitions in request.topics:
            rows = answered.setdefault(name, [])
            may_read = context.may(READ, TOPIC, name)
            for start in range(0, len(partitions), ELEMENTS):
                indexes = [each[0] for each in partitions[start : start + ELEMENTS]]
                if not may_read:
                    denied = TopicAuthorizationFailed.code
                    rows += [OffsetDeleteResponsePartition(index, denied) for index in indexes]
                    yield
                    continue
                group = _find_group(services, request.group_id)
                code = ErrorCode.none
                if group.is_subscribed_to(name):
                    code = GroupSubscribedToTopic.code
                topic = services.topics.topics.get(name)
                count = 0 if topic is None else topic.partitions
                known = dict.fromkeys(index for index in indexes if 0 <= index < count)
                if not code:
                    doomed = [(name, index) for index in known]
                    groups = services.groups()
                    groups.offsets.deleted_count += groups.delete_offsets(group, doomed)
                unknown = UnknownTopicOrPartition.code
                rows += [
                    OffsetDeleteResponsePartition(index, code if index in known else unknown)
                    for index in indexes
                ]
                yield
            yield
    except KafkaError as refusal:
        return OffsetDeleteResponse(error_code=refusal.code)
    return OffsetDeleteResponse(
        topics=[OffsetDeleteResponseTopic(*each) for each in answered.items()]
    )


def _find_group(services: Services, group_id: str) -> Group:
    """Return the group whose offsets may be deleted.

    Raises:
        InvalidGroupId: It has no name.
        GroupIdNotFound: There is no such group.
        KafkaError: Another refusal of the group.
    """
    if not group_id:
        raise InvalidGroupId
    groups = services.groups()
    groups.check(group_id)
    group = groups.find(group_id)
    if group is None:
        raise GroupIdNotFound
    group.check_offset_delete()
    return group

"""OffsetDelete (47), version 0: deletes committed offsets of a group (KIP-496)."""

from collections.abc import Sequence

from siltstone.broker.groups.group import Group
from siltstone.broker.process.loop_share import LoopShare
from siltstone.broker.security.rights import DELETE, GROUP, READ, TOPIC
from siltstone.broker.services import RequestContext, Services
from siltstone.protocol import errors
from siltstone.protocol.coordinator.group_errors import GroupIdNotFound, GroupSubscribedToTopic
from siltstone.protocol.errors import ErrorCode, KafkaError
from siltstone.protocol.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteResponse,
    OffsetDeleteResponsePartition,
    OffsetDeleteResponseTopic,
)


async def delete(context: RequestContext, request: OffsetDeleteRequest) -> OffsetDeleteResponse:
    """Delete offsets of topics that no member reads; a missing offset is no error."""
    if not context.may(DELETE, GROUP, request.group_id):
        return OffsetDeleteResponse(error_code=errors.GroupAuthorizationFailed.code)
    share = LoopShare()
    journal = context.services.groups().journal
    answered: dict[str, list[OffsetDeleteResponsePartition]] = {}
    try:
        _find_group(context.services, request.group_id)
        for name, partitions in request.topics:
            rows = answered.setdefault(name, [])
            may_read = context.may(READ, TOPIC, name)
            for some in share.pieces(partitions):
                if may_read:
                    rows += _delete_some(context.services, request.group_id, name, some)
                    if due := journal.find_unwritten_of(request.group_id):
                        await share.wait_for(journal.flush(due))
                else:
                    denied = errors.TopicAuthorizationFailed.code
                    rows += [OffsetDeleteResponsePartition(each[0], denied) for each in some]
                await share.rest()
    except KafkaError as refusal:
        return OffsetDeleteResponse(error_code=refusal.code)
    return OffsetDeleteResponse(
        topics=[OffsetDeleteResponseTopic(*each) for each in answered.items()]
    )


def _delete_some(
    services: Services, group_id: str, name: str, partitions: Sequence[OffsetDeleteRequestPartition]
) -> list[OffsetDeleteResponsePartition]:
    """Delete offsets of the group as it is now; if the group refuses, all of the request fails."""
    if not partitions:
        return []
    group = _find_group(services, group_id)
    topic = services.topics.topics.get(name)
    count = 0 if topic is None else topic.partitions
    indexes = [index for (index,) in partitions]
    known = dict.fromkeys(index for index in indexes if 0 <= index < count)
    code = ErrorCode.none
    if group.is_subscribed_to(name):
        code = GroupSubscribedToTopic.code
    else:
        groups = services.groups()
        deleted = groups.delete_offsets(group, [(name, index) for index in known])
        groups.offsets.deleted_count += deleted
    unknown = errors.UnknownTopicOrPartition.code
    return [
        OffsetDeleteResponsePartition(index, code if index in known else unknown)
        for index in indexes
    ]


def _find_group(services: Services, group_id: str) -> Group:
    """Return the group whose offsets may be deleted."""
    group = services.groups().get(group_id, GroupIdNotFound)
    group.check_offset_delete()
    return group

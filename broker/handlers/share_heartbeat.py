"""ShareGroupHeartbeat (76), version 1: members join, stay in and leave a share group (KIP-932).

The API needs share.version 1. A partition is assigned by a heartbeat after the one that has made it
known, when its delivery state exists.

Differs from Kafka: the hash of subscribed topics in the group's record is another one. A member is
answered COORDINATOR_LOAD_IN_PROGRESS until there is room, if it would exceed
group.members.max.bytes, or if the members of its user would exceed half of that limit.
"""

from siltstone.broker.groups.share.heartbeat import HeartbeatRequest, check_request
from siltstone.broker.handlers import authorized
from siltstone.broker.process.loop_share import LoopShare
from siltstone.broker.security.rights import DESCRIBE, GROUP, READ, TOPIC
from siltstone.broker.services import RequestContext
from siltstone.protocol import errors
from siltstone.protocol.errors import KafkaError
from siltstone.protocol.java import client_host
from siltstone.protocol.messages.share_group_heartbeat import (
    Assignment,
    ShareGroupHeartbeatRequest,
    ShareGroupHeartbeatResponse,
    TopicPartitions,
)

_MAX_MEMBER_ID = 36


async def handle(
    context: RequestContext, request: ShareGroupHeartbeatRequest
) -> ShareGroupHeartbeatResponse:
    """Handle a heartbeat: admit, keep or remove a member, and answer with its assignment."""
    if not are_enabled(context):
        return ShareGroupHeartbeatResponse(error_code=errors.UnsupportedVersion.code)
    if not context.may(READ, GROUP, request.group_id):
        return ShareGroupHeartbeatResponse(error_code=errors.GroupAuthorizationFailed.code)
    if not 0 < len(request.member_id) <= _MAX_MEMBER_ID:
        return ShareGroupHeartbeatResponse(error_code=errors.InvalidRequest.code)
    share = LoopShare()
    names = request.subscribed_topic_names
    if names is not None:
        if context.rights is not None:
            for name in names:
                if not context.may(DESCRIBE, TOPIC, name):
                    code = errors.TopicAuthorizationFailed.code
                    return ShareGroupHeartbeatResponse(error_code=code)
                await share.rest()
        names = await share.sort_once(names)
    values = HeartbeatRequest(
        group_id=request.group_id,
        member_id=request.member_id,
        member_epoch=request.member_epoch,
        client_id=context.client_id or "",
        client_host=client_host(context.peer),
        rack_id=request.rack_id,
        subscribed_topic_names=None if names is None else tuple(names),
        user=authorized.user_of(context),
    )
    groups = context.services.groups()
    try:
        check_request(values)
        groups.check(request.group_id)
        result = context.services.share_groups().heartbeat(values)
        journal = groups.journal
        if due := journal.find_unwritten_of(request.group_id):
            await share.wait_for(journal.flush(due))
    except KafkaError as error:
        return ShareGroupHeartbeatResponse(error_code=error.code, error_message=error.own_message)
    assigned = result.assignment
    return ShareGroupHeartbeatResponse(
        member_id=result.member_id,
        member_epoch=result.member_epoch,
        heartbeat_interval_ms=result.heartbeat_interval_ms,
        assignment=None
        if assigned is None
        else Assignment(
            [TopicPartitions(topic.bytes, sorted(each)) for topic, each in assigned.items()]
        ),
    )


def are_enabled(context: RequestContext) -> bool:
    """Tell whether the level of share.version allows share groups."""
    return bool(context.services.features.level("share.version"))

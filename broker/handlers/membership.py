"""Heartbeat (12), versions 0-4, and LeaveGroup (13), versions 0-5: a member stays or leaves.

Heartbeat: v3 instance id (KIP-345). LeaveGroup: v3 several members, by member id or by instance id
alone · v5 reason.
"""

from collections.abc import Sequence

from siltstone.broker.process.loop_share import LoopShare
from siltstone.broker.security.rights import GROUP, READ
from siltstone.broker.services import RequestContext
from siltstone.protocol import errors
from siltstone.protocol.coordinator.group_errors import InvalidGroupId
from siltstone.protocol.errors import ErrorCode, KafkaError
from siltstone.protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from siltstone.protocol.messages.leave_group import (
    LeaveGroupRequest,
    LeaveGroupResponse,
    MemberIdentity,
    MemberResponse,
)

_FIRST_WITH_MEMBERS = 3
_ALIVE = HeartbeatResponse()


def heartbeat(context: RequestContext, request: HeartbeatRequest) -> HeartbeatResponse:
    """Keep a member alive, or tell it to join again."""
    if not context.may(READ, GROUP, request.group_id):
        return HeartbeatResponse(error_code=errors.GroupAuthorizationFailed.code)
    try:
        context.services.groups().heartbeat(request)
    except errors.CoordinatorLoadInProgress:
        pass  # no error, as in Kafka: otherwise the member would join again without need
    except KafkaError as error:
        return HeartbeatResponse(error_code=error.code)
    return _ALIVE


async def leave(context: RequestContext, request: LeaveGroupRequest) -> LeaveGroupResponse:
    """Remove members; before version 3 only one, whose error is the error of the answer."""
    if not context.may(READ, GROUP, request.group_id):
        return LeaveGroupResponse(error_code=errors.GroupAuthorizationFailed.code)
    leaving: Sequence[MemberIdentity] = request.members
    if context.version < _FIRST_WITH_MEMBERS:
        leaving = [MemberIdentity(request.member_id)]
    share = LoopShare()
    journal = context.services.groups().journal
    left: list[MemberResponse] = []
    error: int = ErrorCode.none
    try:
        for some in share.pieces(leaving):
            codes = _leave(context, request.group_id, some)
            left += [
                MemberResponse(*each[:2], code) for each, code in zip(some, codes, strict=True)
            ]
            if due := journal.find_unwritten_of(request.group_id):
                await share.wait_for(journal.flush(due))
            await share.rest()
    except KafkaError as refusal:
        error = refusal.code
    if context.version < _FIRST_WITH_MEMBERS and left and not error:
        error = left[0].error_code
    return LeaveGroupResponse(error_code=error, members=left)


def _leave(
    context: RequestContext, group_id: str, leaving: Sequence[MemberIdentity]
) -> Sequence[ErrorCode]:
    """Remove members of a group as it is now; return a code for each."""
    if not group_id:
        raise InvalidGroupId
    coordinator = context.services.groups()
    coordinator.check(group_id)
    group = coordinator.find(group_id)
    if group is None:
        return [ErrorCode.unknown_member_id] * len(leaving)
    return group.leave([(each.member_id, each.group_instance_id) for each in leaving])

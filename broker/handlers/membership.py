"""Heartbeat (12), versions 0-4, and LeaveGroup (13), versions 0-5: staying in a group or not.

Heartbeat: v3 instance id (KIP-345); it takes the frame itself, since nothing is more frequent.
LeaveGroup: v3 several members, by member id or by instance id alone · v5 reason.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kio.schema.leave_group.v5.response import LeaveGroupResponse, MemberResponse

from protocol.coordinator.group_errors import InvalidGroupId, UnknownMemberId
from protocol.errors import CoordinatorLoadInProgress, ErrorCode, KafkaError
from protocol.heartbeat import API_KEY, FIRST_FLEXIBLE, encode, parse
from protocol.kio_messages import NO_THROTTLE

if TYPE_CHECKING:
    from kio.schema.leave_group.v5.request import LeaveGroupRequest

    from broker.connection import Connection
    from broker.context import RequestContext

_FIRST_WITH_MEMBERS = 3


def heartbeat(
    connection: Connection,
    version: int,
    correlation_id: int,
    buffer: memoryview,
    position: int,
    end: int,
) -> bytes:
    """Keep a member alive, or tell it to join again."""
    coordinator = connection.rooms.groups
    if version >= FIRST_FLEXIBLE:
        answer = coordinator.beat_one(correlation_id, buffer, position, end)
        if answer is not None:
            return answer
    group_id, generation, member_id, instance_id = parse(version, buffer, position, end)
    error_code = 0
    try:
        if not group_id:
            raise InvalidGroupId
        coordinator.check(group_id)
        group = coordinator.find(group_id)
        if group is None:
            raise UnknownMemberId
        group.heartbeat(member_id, instance_id, generation)
    except CoordinatorLoadInProgress:
        pass  # Kafka's answer: the member would only join again without need
    except KafkaError as error:
        error_code = error.code.value
        connection.listener.dispatcher.stats.by_key[API_KEY].failed(error_code)
    return encode(version, correlation_id, error_code)


def leave(context: RequestContext, request: LeaveGroupRequest) -> LeaveGroupResponse:
    """Let members go; before version 3 one, whose error is that of the answer."""
    error = ErrorCode.none
    codes = [ErrorCode.unknown_member_id] * len(request.members)
    coordinator = context.rooms.groups
    try:
        if not request.group_id:
            raise InvalidGroupId
        coordinator.check(request.group_id)
        group = coordinator.find(request.group_id)
        if group is not None:
            codes = group.leave(
                [(each.member_id, each.group_instance_id) for each in request.members]
            )
    except KafkaError as refusal:
        error = refusal.code
        codes = []
    if context.version < _FIRST_WITH_MEMBERS and codes:
        error = codes[0]
    return LeaveGroupResponse(
        throttle_time=NO_THROTTLE,
        error_code=error,
        members=tuple(
            MemberResponse(
                member_id=each.member_id,
                group_instance_id=each.group_instance_id,
                error_code=code,
            )
            for each, code in zip(request.members, codes, strict=False)
        ),
    )

"""JoinGroup (11), versions 0-9, and SyncGroup (14), versions 0-5: how a group rebalances.

JoinGroup: v1 rebalance timeout · v4 member id required (KIP-394) · v5 instance id (KIP-345) · v7
protocol type · v8 reason · v9 skip assignment (KIP-814). SyncGroup: v3 instance id · v5 protocol
type and name. Both answer when the others of the group are there; the state machine holds the
answer meanwhile, and a connection that goes away takes nothing with it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kio.schema.join_group.v9.response import JoinGroupResponse, JoinGroupResponseMember
from kio.schema.sync_group.v5.response import SyncGroupResponse

from broker.groups.classic_messages import JoinRequest, JoinResult, SyncRequest, SyncResult
from broker.groups.client_host import client_host
from broker.groups.parked import Parked
from protocol.coordinator.group_errors import (
    GroupMaxSizeReached,
    InvalidGroupId,
    InvalidSessionTimeout,
    UnknownMemberId,
)
from protocol.errors import KafkaError
from protocol.messages import NO_THROTTLE, milliseconds

if TYPE_CHECKING:
    from collections.abc import Coroutine
    from typing import Any

    from kio.schema.join_group.v9.request import JoinGroupRequest
    from kio.schema.sync_group.v5.request import SyncGroupRequest

    from broker.context import RequestContext

_FIRST_THAT_KNOWS_ITS_ID = 4
_FIRST_WITH_NULL_PROTOCOL = 7
_FIRST_THAT_SKIPS = 9


def join(
    context: RequestContext, request: JoinGroupRequest
) -> JoinGroupResponse | Coroutine[Any, Any, JoinGroupResponse]:
    """Take a member into its group; answer when the group has gathered."""
    if not context.rooms.groups.log.is_created:
        return _join_first(context, request)
    parked = _begin_join(context, request)
    if parked.result is not None:
        return _joined(context, parked.result)
    return _join_later(context, parked)


async def _join_first(context: RequestContext, request: JoinGroupRequest) -> JoinGroupResponse:
    """Make the journal: this is the first group ever."""
    try:
        await context.rooms.groups.log.ensure_created()
    except KafkaError as error:
        return _joined(context, JoinResult(error.code, request.member_id))
    return await _join_later(context, _begin_join(context, request))


async def _join_later(context: RequestContext, parked: Parked[JoinResult]) -> JoinGroupResponse:
    return _joined(context, await parked.wait())


def _begin_join(context: RequestContext, request: JoinGroupRequest) -> Parked[JoinResult]:
    coordinator = context.rooms.groups
    parked: Parked[JoinResult] = Parked()
    try:
        values = _read(context, request)
        coordinator.check(request.group_id)
        group = coordinator.find_or_create_classic(request.group_id, request.member_id)
        group.join(values, parked)
    except GroupMaxSizeReached as error:
        parked(JoinResult(error.code, ""))
    except KafkaError as error:
        parked(JoinResult(error.code, request.member_id))
    return parked


def _read(context: RequestContext, request: JoinGroupRequest) -> JoinRequest:
    """Return what the request says, if it may say so.

    Raises:
        InvalidGroupId: The group has no name.
        InvalidSessionTimeout: The session is shorter or longer than the broker allows.
    """
    if not request.group_id:
        raise InvalidGroupId
    server = context.rooms.settings.server
    session_ms = milliseconds(request.session_timeout)
    if not server.group_min_session_timeout_ms <= session_ms <= server.group_max_session_timeout_ms:
        raise InvalidSessionTimeout
    rebalance_ms = milliseconds(request.rebalance_timeout)
    return JoinRequest(
        member_id=request.member_id,
        instance_id=request.group_instance_id,
        client_id=context.client_id or "",
        client_host=client_host(context.peer),
        protocol_type=request.protocol_type,
        protocols=tuple((each.name, each.metadata) for each in request.protocols),
        rebalance_timeout_ms=session_ms if context.version == 0 else rebalance_ms,
        session_timeout_ms=session_ms,
        requires_known_id=context.version >= _FIRST_THAT_KNOWS_ITS_ID,
        may_skip_assignment=context.version >= _FIRST_THAT_SKIPS,
    )


def _joined(context: RequestContext, result: JoinResult) -> JoinGroupResponse:
    protocol = result.protocol_name
    return JoinGroupResponse(
        throttle_time=NO_THROTTLE,
        error_code=result.error,
        generation_id=result.generation,
        protocol_type=result.protocol_type,
        protocol_name=protocol or "" if context.version < _FIRST_WITH_NULL_PROTOCOL else protocol,
        leader=result.leader,
        skip_assignment=result.skip_assignment,
        member_id=result.member_id,
        members=tuple(
            JoinGroupResponseMember(
                member_id=each.member_id,
                group_instance_id=each.instance_id,
                metadata=each.metadata,
            )
            for each in result.members
        ),
    )


def sync(
    context: RequestContext, request: SyncGroupRequest
) -> SyncGroupResponse | Coroutine[Any, Any, SyncGroupResponse]:
    """Take the leader's assignments, and give a member its own; answer when they are there."""
    coordinator = context.rooms.groups
    parked: Parked[SyncResult] = Parked()
    try:
        if not request.group_id:
            raise InvalidGroupId
        coordinator.check(request.group_id)
        group = coordinator.find(request.group_id)
        if group is None:
            raise UnknownMemberId
        group.sync(
            SyncRequest(
                member_id=request.member_id,
                instance_id=request.group_instance_id,
                generation=request.generation_id,
                protocol_type=request.protocol_type,
                protocol_name=request.protocol_name,
                assignments={each.member_id: each.assignment for each in request.assignments},
            ),
            parked,
        )
    except KafkaError as error:
        parked(SyncResult(error.code))
    return _synced(parked.result) if parked.result is not None else _sync_later(parked)


async def _sync_later(parked: Parked[SyncResult]) -> SyncGroupResponse:
    return _synced(await parked.wait())


def _synced(result: SyncResult) -> SyncGroupResponse:
    return SyncGroupResponse(
        throttle_time=NO_THROTTLE,
        error_code=result.error,
        protocol_type=result.protocol_type,
        protocol_name=result.protocol_name,
        assignment=result.assignment,
    )

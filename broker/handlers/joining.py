"""JoinGroup (11), versions 0-9, and SyncGroup (14), versions 0-5: how a group rebalances.

JoinGroup: v1 rebalance timeout · v4 member id required (KIP-394) · v5 instance id (KIP-345) · v7
protocol type · v8 reason · v9 skip assignment (KIP-814). SyncGroup: v3 instance id · v5 protocol
type and name. Both take the frame themselves, since all members of a group send them at once, and
answer when the others of the group are there; the state machine holds the answer meanwhile, and a
connection that goes away takes nothing with it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from broker.groups.classic_messages import JoinRequest, JoinResult, SyncRequest, SyncResult
from broker.groups.client_host import client_host
from broker.groups.parked import Parked
from protocol import join_group, sync_group
from protocol.coordinator.group_errors import (
    GroupMaxSizeReached,
    InconsistentGroupProtocol,
    InvalidGroupId,
    InvalidSessionTimeout,
    UnknownMemberId,
)
from protocol.errors import KafkaError, UnknownServerError
from protocol.join_group import JoinGroupResponse

if TYPE_CHECKING:
    from broker.answers import Answer, Waiting
    from broker.connection import Connection
    from broker.groups.coordinator import GroupCoordinator
    from protocol.join_group import JoinGroupRequest
    from protocol.sync_group import SyncGroupRequest

_FIRST_THAT_KNOWS_ITS_ID = 4
_FIRST_THAT_SKIPS = 9
_FIRST_WITH_PROTOCOL = 5  # of SyncGroup


def join(
    connection: Connection,
    version: int,
    correlation_id: int,
    buffer: memoryview,
    position: int,
    end: int,
) -> Answer | Waiting:
    """Take a member into its group; answer when the group has gathered."""
    request = join_group.parse(version, buffer, position, end)
    parked = _begin_join(connection, version, request)
    if parked.result is not None:
        return _joined(connection, version, correlation_id, parked.result)
    return _join_later(connection, version, correlation_id, parked)


async def _join_later(
    connection: Connection, version: int, correlation_id: int, parked: Parked[JoinResult]
) -> Answer:
    return _joined(connection, version, correlation_id, await parked.wait())


def _begin_join(
    connection: Connection, version: int, request: JoinGroupRequest
) -> Parked[JoinResult]:
    coordinator = connection.rooms.groups
    parked: Parked[JoinResult] = Parked()
    try:
        values = _read(connection, version, request)
        coordinator.check(request.group_id)
        group = coordinator.find_or_create_classic(request.group_id, request.member_id)
        group.join(values, parked)
    except (GroupMaxSizeReached, UnknownServerError) as error:
        parked(JoinResult(error.code, ""))
    except KafkaError as error:
        parked(JoinResult(error.code, request.member_id))
    return parked


def _read(connection: Connection, version: int, request: JoinGroupRequest) -> JoinRequest:
    """Return what the request says, if it may say so.

    Raises:
        InvalidGroupId: The group has no name.
        InvalidSessionTimeout: The session is shorter or longer than the broker allows.
    """
    if not request.group_id:
        raise InvalidGroupId
    server = connection.rooms.settings.server
    session_ms = request.session_timeout_ms
    if not server.group_min_session_timeout_ms <= session_ms <= server.group_max_session_timeout_ms:
        raise InvalidSessionTimeout
    return JoinRequest(
        member_id=request.member_id,
        instance_id=request.instance_id,
        client_id=connection.client_id or "",
        client_host=client_host(connection.peer),
        protocol_type=request.protocol_type,
        protocols=request.protocols,
        rebalance_timeout_ms=session_ms if version == 0 else request.rebalance_timeout_ms,
        session_timeout_ms=session_ms,
        requires_known_id=version >= _FIRST_THAT_KNOWS_ITS_ID,
        may_skip_assignment=version >= _FIRST_THAT_SKIPS,
    )


def _joined(connection: Connection, version: int, correlation_id: int, result: JoinResult) -> bytes:
    error_code = result.error.value
    if error_code:
        connection.listener.dispatcher.stats.by_key[join_group.API_KEY].failed(error_code)
    return join_group.encode(version, correlation_id, JoinGroupResponse(error_code, *result[1:]))


def sync(
    connection: Connection,
    version: int,
    correlation_id: int,
    buffer: memoryview,
    position: int,
    end: int,
) -> Answer | Waiting:
    """Take the leader's assignments, and give a member its own; answer when they are there."""
    request = sync_group.parse(version, buffer, position, end)
    coordinator = connection.rooms.groups
    parked: Parked[SyncResult] = Parked()
    try:
        _check_protocol(version, request)
        _begin_sync(coordinator, request, parked)
    except KafkaError as error:
        parked(SyncResult(error.code))
    if parked.result is not None:
        return _synced(connection, version, correlation_id, parked.result)
    return _sync_later(connection, version, correlation_id, parked)


def _check_protocol(version: int, request: SyncGroupRequest) -> None:
    """Refuse who does not say which protocol the group has chosen, and can.

    Raises:
        InconsistentGroupProtocol: So it is.
    """
    said = {request.protocol_type, request.protocol_name}
    if version >= _FIRST_WITH_PROTOCOL and None in said:
        raise InconsistentGroupProtocol


def _begin_sync(
    coordinator: GroupCoordinator, request: SyncGroupRequest, parked: Parked[SyncResult]
) -> None:
    if not request.group_id:
        raise InvalidGroupId
    coordinator.check(request.group_id)
    group = coordinator.find(request.group_id)
    if group is None:
        raise UnknownMemberId
    group.sync(
        SyncRequest(
            member_id=request.member_id,
            instance_id=request.instance_id,
            generation=request.generation,
            protocol_type=request.protocol_type,
            protocol_name=request.protocol_name,
            assignments=request.assignments,
        ),
        parked,
    )


async def _sync_later(
    connection: Connection, version: int, correlation_id: int, parked: Parked[SyncResult]
) -> Answer:
    return _synced(connection, version, correlation_id, await parked.wait())


def _synced(connection: Connection, version: int, correlation_id: int, result: SyncResult) -> bytes:
    error_code = result.error.value
    if error_code:
        connection.listener.dispatcher.stats.by_key[sync_group.API_KEY].failed(error_code)
    return sync_group.encode(
        version,
        correlation_id,
        error_code,
        result.protocol_type,
        result.protocol_name,
        result.assignment,
    )

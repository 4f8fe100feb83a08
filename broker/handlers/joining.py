"""JoinGroup (11), versions 0-9, and SyncGroup (14), versions 0-5: how a group rebalances.

JoinGroup: v1 rebalance timeout · v4 member id required (KIP-394) · v5 instance id (KIP-345) · v7
protocol type · v8 reason · v9 skip assignment (KIP-814). SyncGroup: v3 instance id · v5 protocol
type and name. Both requests are answered when the other members have sent theirs. The state machine
of the group holds the answer until then, so the group's state does not depend on the connection.

Differs from Kafka: a new group above groups.max.count is refused with GROUP_MAX_SIZE_REACHED,
whichever request would create it; so is a member that would make its group larger than 16 records
of __consumer_offsets of the largest size. A member is answered COORDINATOR_LOAD_IN_PROGRESS until
there is room, if it would exceed group.members.max.bytes, or if the members of its user would
exceed half of that limit; SyncGroup refuses an assignment above the limits with
COORDINATOR_NOT_AVAILABLE.
"""

import asyncio
from collections.abc import Coroutine
from typing import Any, Generic, TypeVar

from siltstone.broker.coordination.journal import CoordinatorLog
from siltstone.broker.groups.classic.messages import (
    JoinRequest,
    JoinResult,
    SyncRequest,
    SyncResult,
)
from siltstone.broker.groups.coordinator import GroupCoordinator
from siltstone.broker.handlers.authorized import user_of
from siltstone.broker.security.rights import GROUP, READ
from siltstone.broker.services import RequestContext
from siltstone.protocol.coordinator import group_errors
from siltstone.protocol.errors import GroupAuthorizationFailed, KafkaError, UnknownServerError
from siltstone.protocol.java import client_host
from siltstone.protocol.messages.join_group import JoinGroupRequest, JoinGroupResponse
from siltstone.protocol.messages.sync_group import SyncGroupRequest, SyncGroupResponse
from siltstone.storage.log.log import Log

T = TypeVar("T")


class Parked(Generic[T]):
    """The answer to a request that may have to wait for others.

    The object is called with the answer once, before or after `wait` is called (loop only). If the
    connection of the waiting request is closed by then, the answer is dropped.

    One record may answer several requests, and ``flush.messages`` of the journal may ask for an
    fsync of it before. So each of them notes by itself which log it has to wait for: ``due``. That
    may be in an fsync already, for the answer to another request.
    """

    __slots__ = ("_future", "_journal", "_partition", "due", "result")

    def __init__(self, journal: CoordinatorLog, group_id: str) -> None:
        self.result: T | None = None
        self.due: dict[Log, None] = {}
        self._journal = journal
        self._partition = journal.partition_for(group_id)
        self._future: asyncio.Future[T] | None = None

    @property
    def is_ready(self) -> bool:
        """Tell whether the answer is known and waits for no fsync."""
        return self.result is not None and not self.due

    def __call__(self, result: T) -> None:
        """Give the answer."""
        self.result = result
        self.due = self._journal.find_unwritten(self._partition)
        if self._future is not None and not self._future.done():
            self._future.set_result(result)

    async def wait(self) -> T:
        """Wait for the answer and its fsync, and return the answer.

        Raises:
            NotCoordinator: What it tells may not be on the disk.
        """
        result = self.result
        if result is None:
            self._future = asyncio.get_running_loop().create_future()
            result = await self._future
        if self.due:
            await self._journal.flush(self.due)
        return result


_FIRST_THAT_KNOWS_ITS_ID = 4
_FIRST_WITH_NO_PROTOCOL = 7  # before this version an empty name means none
_FIRST_THAT_SKIPS = 9
_FIRST_WITH_PROTOCOL = 5  # the version of SyncGroup


def join(
    context: RequestContext, request: JoinGroupRequest
) -> JoinGroupResponse | Coroutine[Any, Any, JoinGroupResponse]:
    """Add a member to its group; answer when all members have joined."""
    parked = _begin_join(context, request)
    if parked.result is not None and parked.is_ready:
        return _joined(context, parked.result)
    return _join_later(context, parked)


async def _join_later(context: RequestContext, parked: Parked[JoinResult]) -> JoinGroupResponse:
    try:
        result = await parked.wait()
    except KafkaError as error:
        result = JoinResult(error.code, "")
    return _joined(context, result)


def _begin_join(context: RequestContext, request: JoinGroupRequest) -> Parked[JoinResult]:
    coordinator = context.services.groups()
    parked: Parked[JoinResult] = Parked(coordinator.journal, request.group_id)
    if not context.may(READ, GROUP, request.group_id):
        parked(JoinResult(GroupAuthorizationFailed.code, ""))
        return parked
    try:
        values = _read(context, request)
        coordinator.check(request.group_id)
        group = coordinator.find_or_create_classic(request.group_id, request.member_id)
        group.join(values, parked)
    except (group_errors.GroupMaxSizeReached, UnknownServerError) as error:
        parked(JoinResult(error.code, ""))
    except KafkaError as error:
        parked(JoinResult(error.code, request.member_id))
    return parked


def _read(context: RequestContext, request: JoinGroupRequest) -> JoinRequest:
    """Convert a valid request to the coordinator's types."""
    if not request.group_id:
        raise group_errors.InvalidGroupId
    version = context.version
    server = context.services.settings.server
    session_ms = request.session_timeout_ms
    if not server.group_min_session_timeout_ms <= session_ms <= server.group_max_session_timeout_ms:
        raise group_errors.InvalidSessionTimeout
    return JoinRequest(
        member_id=request.member_id,
        instance_id=request.group_instance_id,
        client_id=context.client_id or "",
        client_host=client_host(context.peer),
        protocol_type=request.protocol_type,
        protocols=tuple(request.protocols),
        rebalance_timeout_ms=session_ms if version == 0 else request.rebalance_timeout_ms,
        session_timeout_ms=session_ms,
        requires_known_id=version >= _FIRST_THAT_KNOWS_ITS_ID,
        may_skip_assignment=version >= _FIRST_THAT_SKIPS,
        user=user_of(context),
    )


def _joined(context: RequestContext, result: JoinResult) -> JoinGroupResponse:
    protocol_name = result.protocol_name
    if protocol_name is None and context.version < _FIRST_WITH_NO_PROTOCOL:
        protocol_name = ""
    members: Any = result.members  # tuples as the answer has them
    return JoinGroupResponse(
        error_code=result.error,
        generation_id=result.generation,
        protocol_type=result.protocol_type,
        protocol_name=protocol_name,
        leader=result.leader,
        skip_assignment=result.skip_assignment,
        member_id=result.member_id,
        members=members,
    )


def sync(
    context: RequestContext, request: SyncGroupRequest
) -> SyncGroupResponse | Coroutine[Any, Any, SyncGroupResponse]:
    """Store the leader's assignments; answer a member with its own once they have come."""
    coordinator = context.services.groups()
    parked: Parked[SyncResult] = Parked(coordinator.journal, request.group_id)
    try:
        _check(context, request)
        _begin_sync(coordinator, request, parked)
    except KafkaError as error:
        parked(SyncResult(error.code))
    if parked.result is not None and parked.is_ready:
        return SyncGroupResponse(0, *parked.result)
    return _sync_later(parked)


def _check(context: RequestContext, request: SyncGroupRequest) -> None:
    """Refuse a request without the protocol fields of its version, or without the right."""
    said = {request.protocol_type, request.protocol_name}
    if context.version >= _FIRST_WITH_PROTOCOL and None in said:
        raise group_errors.InconsistentGroupProtocol
    if not context.may(READ, GROUP, request.group_id):
        raise GroupAuthorizationFailed


def _begin_sync(
    coordinator: GroupCoordinator, request: SyncGroupRequest, parked: Parked[SyncResult]
) -> None:
    coordinator.get(request.group_id, group_errors.UnknownMemberId).sync(
        SyncRequest(
            member_id=request.member_id,
            instance_id=request.group_instance_id,
            generation=request.generation_id,
            protocol_type=request.protocol_type,
            protocol_name=request.protocol_name,
            assignments=dict(request.assignments),  # a member's last assignment counts
        ),
        parked,
    )


async def _sync_later(parked: Parked[SyncResult]) -> SyncGroupResponse:
    try:
        result = await parked.wait()
    except KafkaError as error:
        result = SyncResult(error.code)
    return SyncGroupResponse(0, *result)

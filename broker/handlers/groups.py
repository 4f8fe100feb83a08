"""DescribeGroups (15), versions 0-6, ListGroups (16), 0-5, and DeleteGroups (42), 0-3.

DescribeGroups: v3 authorized operations (KIP-430) · v4 instance ids · v6 a code for a group that
does not exist (KIP-1043). ListGroups: v4 states (KIP-518) · v5 types (KIP-848). DeleteGroups: v3 a
message that only streams groups have. Groups of the other protocols are listed and deleted here,
and described elsewhere.

Differs from Kafka: a group that is named twice is described once.
"""

from collections.abc import Sequence
from functools import partial
from typing import Any

from siltstone.broker.coordination.journal import CoordinatorLog
from siltstone.broker.groups.classic.group import ClassicGroup
from siltstone.broker.groups.classic.members import Member
from siltstone.broker.groups.coordinator import GroupCoordinator
from siltstone.broker.groups.group import GroupState
from siltstone.broker.groups.share.all_groups import HostedShareGroup
from siltstone.broker.handlers import authorized
from siltstone.broker.process.loop_share import LoopShare
from siltstone.broker.security.rights import CLUSTER, DELETE, DESCRIBE, GROUP
from siltstone.broker.services import RequestContext
from siltstone.protocol import errors
from siltstone.protocol.coordinator.group_errors import GroupIdNotFound
from siltstone.protocol.errors import ErrorCode, KafkaError
from siltstone.protocol.messages import describe_groups
from siltstone.protocol.messages.delete_groups import (
    DeletableGroupResult,
    DeleteGroupsRequest,
    DeleteGroupsResponse,
)
from siltstone.protocol.messages.list_groups import ListGroupsRequest, ListGroupsResponse
from siltstone.storage.log.log import Log

_FIRST_WITH_NOT_FOUND = 6


async def describe(
    context: RequestContext, request: describe_groups.DescribeGroupsRequest
) -> describe_groups.DescribeGroupsResponse:
    """Describe classic groups and their members."""
    asked = request.include_authorized_operations
    describe_one = partial(_describe, context, context.services.groups(), asked)
    groups = await LoopShare().each(dict.fromkeys(request.groups), describe_one)
    return describe_groups.DescribeGroupsResponse(groups=groups)


def _describe(context: RequestContext, groups: GroupCoordinator, asked: bool, group_id: str) -> Any:
    if context.rights is not None and not context.may(DESCRIBE, GROUP, group_id):
        refusal = errors.GroupAuthorizationFailed()
        return _absent(group_id, refusal.code, refusal.message, authorized.NOT_ASKED, "")
    operations = authorized.of_group(context, group_id) if asked else authorized.NOT_ASKED
    try:
        groups.check(group_id)
        group = groups.find(group_id)
        if not isinstance(group, ClassicGroup):
            reason = "not found." if group is None else "is not a classic group."
            raise GroupIdNotFound(f"Group {group_id} {reason}")  # noqa: TRY301  # as those of `check`
    except GroupIdNotFound as error:
        if context.version < _FIRST_WITH_NOT_FOUND:
            return _absent(group_id, ErrorCode.none, None, operations, GroupState.DEAD)
        return _absent(group_id, error.code, error.message, authorized.NOT_ASKED, GroupState.DEAD)
    except KafkaError as error:
        return _absent(group_id, error.code, None, authorized.NOT_ASKED, "")
    state = group.state
    protocol = group.protocol_name if state is GroupState.STABLE else None
    members: Sequence[Any] = ()
    if group.members.by_id:
        members = [_member(each, protocol) for each in group.members]
    return 0, None, group_id, state, group.protocol_type, protocol or "", members, operations


def _absent(
    group_id: str, error: ErrorCode, message: str | None, operations: int, state: str
) -> describe_groups.DescribedGroup:
    return describe_groups.DescribedGroup(
        error_code=error,
        error_message=message,
        group_id=group_id,
        group_state=state,
        authorized_operations=operations,
    )


def _member(member: Member, protocol: str | None) -> describe_groups.DescribedGroupMember:
    return describe_groups.DescribedGroupMember(
        member_id=member.member_id,
        group_instance_id=member.instance_id,
        client_id=member.client_id,
        client_host=member.client_host,
        member_metadata=member.metadata_of(protocol),
        member_assignment=member.assignment,
    )


async def list_all(context: RequestContext, request: ListGroupsRequest) -> ListGroupsResponse:
    """List the groups of all kinds that match the filters; case does not matter."""
    groups = context.services.groups()
    if groups.journal.loading_count:
        return ListGroupsResponse(error_code=errors.CoordinatorLoadInProgress.code)
    sees_all = context.sees(DESCRIBE, CLUSTER)
    states = {state.lower() for state in request.states_filter}
    types = {kind.lower() for kind in request.types_filter}
    listed: list[Any] = []
    share = LoopShare()
    known = groups.groups
    for some in share.pieces(groups.list_ids()):
        for group_id in some:
            group = known.get(group_id) or groups.find(group_id)
            if (
                group is not None  # it may have been deleted meanwhile
                and (sees_all or context.sees(DESCRIBE, GROUP, group_id))
                and (not states or _word_of(group.state) in states)
                and (not types or group.type in types)
            ):
                listed.append((group_id, group.protocol_type, group.state, group.type))
        await share.rest()
    return ListGroupsResponse(groups=listed)


def _word_of(state: str) -> str:
    """Return a state as filters name it, in small letters."""
    return "not_ready" if state == "NotReady" else state.lower()


async def delete(context: RequestContext, request: DeleteGroupsRequest) -> DeleteGroupsResponse:
    """Delete groups without members, with all that they have committed."""
    share = LoopShare()
    journal = context.services.groups().journal
    results = []
    for group_id in dict.fromkeys(request.groups_names):
        code = await _delete(context, group_id, share)
        if due := journal.find_unwritten_of(group_id):
            code = await share.wait_for(_flush(journal, due, code))
        results.append(DeletableGroupResult(group_id, code))
        await share.rest()
    return DeleteGroupsResponse(results=results)


async def _flush(journal: CoordinatorLog, due: dict[Log, None], code: ErrorCode) -> ErrorCode:
    """Wait for the fsyncs that ``flush.messages`` asks for, and return the error, if any."""
    try:
        await journal.flush(due)
    except KafkaError as error:
        return code or error.code
    return code


async def _delete(context: RequestContext, group_id: str, share: LoopShare) -> ErrorCode:
    if not context.may(DELETE, GROUP, group_id):
        return errors.GroupAuthorizationFailed.code
    groups = context.services.groups()
    try:
        groups.check(group_id)
        group = groups.find(group_id)
        if group is None:
            raise GroupIdNotFound
        group.check_delete()
        if isinstance(group, HostedShareGroup):
            await share.wait_for(context.services.share_groups().empty(group))
            if groups.groups.get(group_id) is not group:
                raise GroupIdNotFound
            group.check_delete()
        groups.delete(group)
    except KafkaError as error:
        return error.code
    return ErrorCode.none

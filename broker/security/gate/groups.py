"""Guards of what is asked about groups, their members and their offsets."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from siltstone.broker.security.gate.rows import (
    CLUSTER,
    GROUP,
    MESSAGES,
    TOPIC,
    TRANSACTION,
    ByRow,
    Guard,
    Handler,
    Rows,
    then,
)
from siltstone.broker.security.requirements import REQUIREMENTS
from siltstone.protocol.errors import ErrorCode
from siltstone.protocol.messages.consumer_group_describe import (
    ConsumerGroupDescribeResponse,
)
from siltstone.protocol.messages.consumer_group_describe import (
    DescribedGroup as DescribedConsumerGroup,
)
from siltstone.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatResponse
from siltstone.protocol.messages.delete_groups import DeletableGroupResult, DeleteGroupsResponse
from siltstone.protocol.messages.describe_groups import DescribedGroup, DescribeGroupsResponse
from siltstone.protocol.messages.find_coordinator import Coordinator, FindCoordinatorResponse
from siltstone.protocol.messages.heartbeat import HeartbeatResponse
from siltstone.protocol.messages.join_group import JoinGroupResponse
from siltstone.protocol.messages.leave_group import LeaveGroupResponse
from siltstone.protocol.messages.offset_commit import (
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)
from siltstone.protocol.messages.offset_delete import (
    OffsetDeleteResponse,
    OffsetDeleteResponsePartition,
    OffsetDeleteResponseTopic,
)
from siltstone.protocol.messages.offset_fetch import (
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
    OffsetFetchResponsePartition,
    OffsetFetchResponsePartitions,
    OffsetFetchResponseTopic,
    OffsetFetchResponseTopics,
)
from siltstone.protocol.messages.sync_group import SyncGroupResponse
from siltstone.protocol.topic_key import FIRST_OFFSETS_WITH_TOPIC_ID

if TYPE_CHECKING:
    from collections.abc import Callable

    from siltstone.broker.net._dispatch_kernels import RequestContext
    from siltstone.broker.security.requirements import Need
    from siltstone.broker.security.rights import Rights

_FIRST_WITH_GROUPS: Final = 8
_FIRST_WITH_GROUP_ERROR: Final = 2
_FIRST_WITH_NULL_PROTOCOL: Final = 7
_FIRST_WITH_KEYS: Final = 4
_FIRST_WITH_PROTOCOL: Final = 5
_FIRST_WITH_SHARE_GROUPS: Final = 6
_INCONSISTENT: Final = int(ErrorCode.inconsistent_group_protocol)
_OF_GROUP, _OF_TRANSACTION, _OF_SHARE_GROUP = range(3)
_NO_OFFSET: Final = -1


def _of_group(need: Need, refuse: Callable[[RequestContext], Any]) -> Guard:
    """Return the guard of a request that names one group."""

    def guard(rights: Rights, context: RequestContext, request: Any, handler: Handler) -> Any:
        if rights.may(*need[:2], request.group_id):
            return handler(context, request)
        return refuse(context)

    return guard


join: Final = _of_group(
    REQUIREMENTS[11][0],
    lambda context: JoinGroupResponse(
        error_code=GROUP,
        protocol_name=None if context.version >= _FIRST_WITH_NULL_PROTOCOL else "",
    ),
)
heartbeat: Final = _of_group(REQUIREMENTS[12][0], lambda _: HeartbeatResponse(error_code=GROUP))
leave: Final = _of_group(REQUIREMENTS[13][0], lambda _: LeaveGroupResponse(error_code=GROUP))


def sync(rights: Rights, context: RequestContext, request: Any, handler: Handler) -> Any:
    """Give a member what it is assigned, in a group that may be read."""
    if rights.may(*REQUIREMENTS[14][0][:2], request.group_id):
        return handler(context, request)
    has_protocol = context.version < _FIRST_WITH_PROTOCOL or None not in (
        request.protocol_type,
        request.protocol_name,
    )
    return SyncGroupResponse(error_code=GROUP if has_protocol else _INCONSISTENT)


# Offsets


def _refuse_commit(code: int) -> Callable[[Any], OffsetCommitResponseTopic]:
    return lambda row: OffsetCommitResponseTopic(
        row.name,
        row.topic_id,
        [OffsetCommitResponsePartition(each[0], code) for each in row.partitions],
    )


_COMMITTING, _COMMITTED = REQUIREMENTS[8]
_COMMITS: Final = ByRow(
    _COMMITTED,
    Rows("topics", "topics", OffsetCommitResponse),
    _refuse_commit(TOPIC),
    first_by_id=FIRST_OFFSETS_WITH_TOPIC_ID,
)


def offset_commit(rights: Rights, context: RequestContext, request: Any, handler: Handler) -> Any:
    """Commit for a group that may be read, what is of topics that may be read."""
    if not rights.may(*_COMMITTING[:2], request.group_id):
        return _COMMITS.refuse_all(request, _refuse_commit(GROUP))
    return _COMMITS.guard(rights, context, request, handler)


_DELETING, _DELETED = REQUIREMENTS[47]
_DELETIONS: Final = ByRow(
    _DELETED,
    Rows("topics", "topics", OffsetDeleteResponse),
    lambda row: OffsetDeleteResponseTopic(
        row.name, [OffsetDeleteResponsePartition(each[0], TOPIC) for each in row.partitions]
    ),
)


def offset_delete(rights: Rights, context: RequestContext, request: Any, handler: Handler) -> Any:
    """Delete offsets of a group that may be deleted, of topics that may be read."""
    if not rights.may(*_DELETING[:2], request.group_id):
        return OffsetDeleteResponse(error_code=GROUP)
    refused = _DELETIONS.find_refused(rights, context, request)
    rows = _DELETIONS.rows
    count = len(request.topics)
    return then(  # though nothing may be left: whether the group is there comes first
        handler(context, rows.without(request, refused)),
        lambda answer: answer if answer.error_code else rows.join(answer, refused, count),
    )


_FETCHING, _FETCHED = REQUIREMENTS[9]
_GROUPS: Final = Rows("groups", "groups", OffsetFetchResponse)


def offset_fetch(rights: Rights, context: RequestContext, request: Any, handler: Handler) -> Any:
    """Tell offsets of groups and topics that may be described."""
    if context.version < _FIRST_WITH_GROUPS:
        return _fetch_offsets_of_one(rights, context, request, handler)
    return _fetch_offsets(rights, context, request, handler)


def _fetch_offsets(rights: Rights, context: RequestContext, request: Any, handler: Handler) -> Any:
    refused: dict[int, OffsetFetchResponseGroup] = {}
    wanted = []
    hidden: dict[str, list[OffsetFetchResponseTopics]] = {}
    for place, each in enumerate(request.groups):
        if not rights.may(*_FETCHING[:2], each.group_id):
            refused[place] = OffsetFetchResponseGroup(each.group_id, error_code=GROUP)
            wanted.append(each)
            continue
        group, rows = _split_group(rights, context, each)
        if rows:
            hidden.setdefault(group.group_id, []).extend(rows)
        wanted.append(group)
    all_topics = {each.group_id for each in wanted if each.topics is None}

    def finish(answer: Any) -> Any:
        groups = []
        for row in answer.groups:
            group = OffsetFetchResponseGroup(*row)
            if group.error_code:
                groups.append(group)
                continue
            topics = group.topics
            if group.group_id in all_topics:
                topics = [each for each in topics if _sees_offsets(rights, context, each)]
            topics = [*topics, *hidden.get(group.group_id, ())]
            groups.append(group._replace(topics=topics))
        return answer._replace(groups=groups)

    return then(_GROUPS.serve(context, request._replace(groups=wanted), handler, refused), finish)


def _split_group(
    rights: Rights, context: RequestContext, group: Any
) -> tuple[Any, list[OffsetFetchResponseTopics]]:
    served, refused = [], []
    for row in group.topics or ():
        if _sees_offsets(rights, context, row, rights.may):
            served.append(row)
        else:
            refused.append(
                OffsetFetchResponseTopics(
                    row.name,
                    row.topic_id,
                    [
                        OffsetFetchResponsePartitions(each, _NO_OFFSET, error_code=TOPIC)
                        for each in row.partition_indexes
                    ],
                )
            )
    return (group._replace(topics=served) if refused else group), refused


def _sees_offsets(
    rights: Rights,
    context: RequestContext,
    row: Any,
    may: Callable[[int, int, str], bool] | None = None,
) -> bool:
    """Return whether the topic of a row, by name or by id, may be described."""
    name = row[0]
    if context.version >= FIRST_OFFSETS_WITH_TOPIC_ID:
        topic = context.rooms.topics.by_id.get(row[1])
        if topic is None:
            return True
        name = topic.name
    return (may or rights.sees)(*_FETCHED[:2], name)


def _fetch_offsets_of_one(
    rights: Rights, context: RequestContext, request: Any, handler: Handler
) -> Any:
    """Do it for the one group of older versions."""
    named = request.topics
    if not rights.may(*_FETCHING[:2], request.group_id):
        if context.version >= _FIRST_WITH_GROUP_ERROR:
            return OffsetFetchResponse(error_code=GROUP)
        topics = [
            OffsetFetchResponseTopic(
                row.name,
                [
                    OffsetFetchResponsePartition(each, _NO_OFFSET, error_code=GROUP)
                    for each in row.partition_indexes
                ],
            )
            for row in named or ()
        ]
        return OffsetFetchResponse(topics=topics)
    if named is None:
        return then(
            handler(context, request),
            lambda answer: answer._replace(
                topics=[each for each in answer.topics if rights.sees(*_FETCHED[:2], each[0])]
            ),
        )
    served, refused = [], []
    for row in named:
        if rights.may(*_FETCHED[:2], row.name):
            served.append(row)
        else:
            rows = [
                OffsetFetchResponsePartition(each, _NO_OFFSET, error_code=TOPIC)
                for each in row.partition_indexes
            ]
            refused.append(OffsetFetchResponseTopic(row.name, rows))
    if not refused:
        return handler(context, request)
    return then(
        handler(context, request._replace(topics=served)),
        lambda answer: (
            answer if answer.error_code else answer._replace(topics=[*answer.topics, *refused])
        ),
    )


# Coordinators

_FINDS_GROUP, _FINDS_TRANSACTION, _FINDS_SHARE_GROUP = REQUIREMENTS[10]
_TO_FIND: Final = {
    _OF_GROUP: (_FINDS_GROUP, GROUP),
    _OF_TRANSACTION: (_FINDS_TRANSACTION, TRANSACTION),
}
_KEYS: Final = Rows("coordinator_keys", "coordinators", FindCoordinatorResponse)


def find_coordinator(
    rights: Rights, context: RequestContext, request: Any, handler: Handler
) -> Any:
    """Tell where the coordinator of a group or a transaction is that may be described."""
    has_keys = context.version >= _FIRST_WITH_KEYS
    keys = request.coordinator_keys if has_keys else (request.key,)
    refused: dict[int, Coordinator] = {}
    for place, key in enumerate(keys):
        if request.key_type == _OF_SHARE_GROUP and context.version >= _FIRST_WITH_SHARE_GROUPS:
            may, code = rights.may(*_FINDS_SHARE_GROUP[:2]), CLUSTER
        elif request.key_type in _TO_FIND:
            need, code = _TO_FIND[request.key_type]
            may = rights.may(*need[:2], key)
        else:
            break
        if not may:
            refused[place] = Coordinator(key, -1, "", -1, code, MESSAGES[code])
    if refused and not has_keys:
        code = refused[0].error_code
        return FindCoordinatorResponse(
            error_code=code, error_message=MESSAGES[code], node_id=-1, port=-1
        )
    return _KEYS.serve(context, request, handler, refused)


# Groups as a whole


def _describe(need: Need, rows: Rows, row: Callable[..., Any]) -> Guard:
    """Return a guard that fills in, too, what the client may do with each group.

    ``row`` is the class of what the answer says of a group.
    """

    def guard(rights: Rights, context: RequestContext, request: Any, handler: Handler) -> Any:
        names = list(dict.fromkeys(rows.of(request)))
        refused = {
            place: row(GROUP, MESSAGES[GROUP], name)
            for place, name in enumerate(names)
            if not rights.may(*need[:2], name)
        }

        def tell_operations(answer: Any) -> Any:
            groups = [row(*each) for each in answer.groups]
            return answer._replace(
                groups=[
                    each
                    if each.error_code
                    else each._replace(authorized_operations=rights.group_operations(each.group_id))
                    for each in groups
                ]
            )

        answer = rows.serve(context, request._replace(**{rows.asked: names}), handler, refused)
        return then(answer, tell_operations) if request.include_authorized_operations else answer

    return guard


describe: Final = _describe(
    REQUIREMENTS[15][0], Rows("groups", "groups", DescribeGroupsResponse), DescribedGroup
)

_DESCRIBES_CONSUMERS, _DESCRIBES_THEIR_TOPICS = REQUIREMENTS[69]
_CONSUMERS: Final = _describe(
    _DESCRIBES_CONSUMERS,
    Rows("group_ids", "groups", ConsumerGroupDescribeResponse),
    DescribedConsumerGroup,
)
_HIDDEN_TOPICS: Final = (
    "The group has described topic(s) that the client is not authorized to describe."
)


def consumer_describe(
    rights: Rights, context: RequestContext, request: Any, handler: Handler
) -> Any:
    """Describe consumer groups whose topics may be described, too."""
    return then(
        _CONSUMERS(rights, context, request, handler),
        lambda done: done._replace(groups=[_hide_topics(rights, each) for each in done.groups]),
    )


def _hide_topics(rights: Rights, row: Any) -> Any:
    group = DescribedConsumerGroup(*row)
    names = {
        each.topic_name
        for member in group.members
        for assignment in (member.assignment, member.target_assignment)
        for each in assignment.topic_partitions
    }
    names.update(name for member in group.members for name in member.subscribed_topic_names)
    if all(rights.sees(*_DESCRIBES_THEIR_TOPICS[:2], name) for name in names):
        return group
    return DescribedConsumerGroup(TOPIC, _HIDDEN_TOPICS, group.group_id)


_LISTS_ALL, _LISTS = REQUIREMENTS[16]


def list_all(rights: Rights, context: RequestContext, request: Any, handler: Handler) -> Any:
    """List the groups that may be described."""
    answer = handler(context, request)
    if rights.sees(*_LISTS_ALL[:2]):
        return answer
    return then(
        answer,
        lambda done: done._replace(
            groups=[each for each in done.groups if rights.sees(*_LISTS[:2], each[0])]
        ),
    )


_DELETES: Final = REQUIREMENTS[42][0]
_DELETED_GROUPS: Final = Rows("groups_names", "results", DeleteGroupsResponse)


def delete(rights: Rights, context: RequestContext, request: Any, handler: Handler) -> Any:
    """Delete groups that may be deleted."""
    names = list(dict.fromkeys(request.groups_names))
    refused = {
        place: DeletableGroupResult(name, GROUP)
        for place, name in enumerate(names)
        if not rights.may(*_DELETES[:2], name)
    }
    return _DELETED_GROUPS.serve(context, request._replace(groups_names=names), handler, refused)


_BEATS, _SUBSCRIBES, _ = REQUIREMENTS[68]


def consumer_heartbeat(
    rights: Rights, context: RequestContext, request: Any, handler: Handler
) -> Any:
    """Take a heartbeat for a group that may be read, from one who may describe its topics."""
    names = request.subscribed_topic_names or ()
    code = 0
    if not rights.may(*_BEATS[:2], request.group_id):
        code = GROUP
    elif not all(rights.may(*_SUBSCRIBES[:2], name) for name in names):
        code = TOPIC
    if not code:
        return handler(context, request)
    return ConsumerGroupHeartbeatResponse(error_code=code, error_message=MESSAGES[code])

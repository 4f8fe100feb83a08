"""DescribeShareGroupOffsets (90), versions 0-1, and Alter- and DeleteShareGroupOffsets (91, 92), 0.

DescribeShareGroupOffsets: v1 the lag of each partition (KIP-1226). Offsets are changed and deleted
only while the group has no members; to change them creates the group.
"""

from collections.abc import Mapping, Sequence
from typing import Any
from uuid import UUID

from siltstone.broker.handlers.share_heartbeat import are_enabled
from siltstone.broker.process.loop_share import LoopShare
from siltstone.broker.security.rights import DELETE, DESCRIBE, GROUP, READ, TOPIC
from siltstone.broker.services import RequestContext, Services
from siltstone.broker.share.key import ShareKey
from siltstone.broker.share.state import NOT_SET
from siltstone.broker.topics.topic import Topic
from siltstone.protocol import errors
from siltstone.protocol.coordinator.group_errors import InvalidGroupId
from siltstone.protocol.errors import KafkaError
from siltstone.protocol.messages import NO_ID
from siltstone.protocol.messages.alter_share_group_offsets import (
    AlterShareGroupOffsetsRequest,
    AlterShareGroupOffsetsResponse,
    AlterShareGroupOffsetsResponsePartition,
    AlterShareGroupOffsetsResponseTopic,
)
from siltstone.protocol.messages.delete_share_group_offsets import (
    DeleteShareGroupOffsetsRequest,
    DeleteShareGroupOffsetsResponse,
    DeleteShareGroupOffsetsResponseTopic,
)
from siltstone.protocol.messages.describe_share_group_offsets import (
    DescribeShareGroupOffsetsRequest,
    DescribeShareGroupOffsetsRequestGroup,
    DescribeShareGroupOffsetsResponse,
    DescribeShareGroupOffsetsResponseGroup,
    DescribeShareGroupOffsetsResponsePartition,
    DescribeShareGroupOffsetsResponseTopic,
)

_NOTHING_TO_DELETE = "There is no offset information to delete."


# The start of queues


async def describe(
    context: RequestContext, request: DescribeShareGroupOffsetsRequest
) -> DescribeShareGroupOffsetsResponse:
    """Answer where queues of groups begin, and how much is left to deliver."""
    share = LoopShare()
    groups = [await _describe(context, each, share) for each in request.groups]
    return DescribeShareGroupOffsetsResponse(groups=groups)


async def _describe(
    context: RequestContext, wanted: DescribeShareGroupOffsetsRequestGroup, share: LoopShare
) -> DescribeShareGroupOffsetsResponseGroup:
    group_id, topics = wanted
    await share.rest()
    if not are_enabled(context):
        code = errors.UnsupportedVersion.code
        return DescribeShareGroupOffsetsResponseGroup(group_id, error_code=code)
    if not context.may(DESCRIBE, GROUP, group_id):
        code = errors.GroupAuthorizationFailed.code
        return DescribeShareGroupOffsetsResponseGroup(group_id, error_code=code)
    services = context.services
    known = services.topics.topics
    found: list[DescribeShareGroupOffsetsResponseTopic] = []
    unknown: list[DescribeShareGroupOffsetsResponseTopic] = []
    refused: list[DescribeShareGroupOffsetsResponseTopic] = []
    try:
        named: Sequence[Any] = _list_all(context, group_id) if topics is None else topics
        for name, indexes in named:
            topic = known.get(name)
            await share.rest()
            if not context.may(DESCRIBE, TOPIC, name):
                error = errors.TopicAuthorizationFailed()
                rows = [
                    _row(each, error_code=error.code, error_message=error.message)
                    for each in indexes
                ]
                refused.append(DescribeShareGroupOffsetsResponseTopic(name, NO_ID, rows))
            elif topic is None:
                rows = [_row(each) for each in indexes]
                unknown.append(DescribeShareGroupOffsetsResponseTopic(name, NO_ID, rows))
            elif not group_id:
                raise errors.UnknownServerError  # as Kafka's persister refuses it
            else:
                rows = []
                for index in indexes:
                    rows.append(_find(services, group_id, topic, index))
                    await share.rest()
                found.append(DescribeShareGroupOffsetsResponseTopic(name, topic.key, rows))
    except KafkaError as failure:
        return DescribeShareGroupOffsetsResponseGroup(
            group_id, error_code=failure.code, error_message=failure.message
        )
    return DescribeShareGroupOffsetsResponseGroup(group_id, [*found, *unknown, *refused])


def _list_all(context: RequestContext, group_id: str) -> list[tuple[str, list[int]]]:
    """Return the partitions of a group that have a queue; topics that are hidden are left out."""
    services = context.services
    services.groups().check(group_id)
    machine = services.share_groups().find_machine(group_id)
    if machine is None:
        return []
    topics = (
        (services.topics.find_id(topic_id), each.partitions)
        for topic_id, each in machine.states.initialized.items()
    )
    return [
        (topic.name, sorted(partitions))
        for topic, partitions in topics
        if topic is not None and context.sees(DESCRIBE, TOPIC, topic.name)
    ]


def _find(
    services: Services, group_id: str, topic: Topic, index: int
) -> DescribeShareGroupOffsetsResponsePartition:
    """Return the start of a queue; one that does not exist, or cannot be read, has none."""
    try:
        summary = services.share_states().summary(ShareKey(group_id, topic.id, index))
    except KafkaError:
        return _row(index)
    log = topic.logs[index] if 0 <= index < len(topic.logs) else None
    lag = NOT_SET
    if log is not None and NOT_SET not in (summary.start_offset, summary.delivery_complete_count):
        lag = log.high_watermark - summary.start_offset - summary.delivery_complete_count
    return _row(
        index, start_offset=summary.start_offset, leader_epoch=summary.leader_epoch, lag=lag
    )


def _row(
    index: int, *, start_offset: int = NOT_SET, **fields: Any
) -> DescribeShareGroupOffsetsResponsePartition:
    return DescribeShareGroupOffsetsResponsePartition(index, start_offset, **fields)


# Changes


async def alter(
    context: RequestContext, request: AlterShareGroupOffsetsRequest
) -> AlterShareGroupOffsetsResponse:
    """Let queues of a group without members begin elsewhere."""
    refusal = _find_refusal(context, READ, request.group_id)
    if refusal is not None:
        return _refuse_alter(refusal)
    share = LoopShare()
    topics = {topic.topic_name: topic.partitions for topic in reversed(request.topics)}
    codes: dict[str, dict[int, KafkaError | None]] = {}
    starts: dict[tuple[UUID, int], int] = {}
    for name, partitions in reversed(topics.items()):
        topic = context.services.topics.topics.get(name)
        error = _find_topic_error(context, name)
        rows = codes[name] = {}
        await share.rest()
        for index, start in partitions:
            known = topic is not None and 0 <= index < topic.partitions
            rows[index] = error or (None if known else errors.UnknownTopicOrPartition())
            if topic is not None and rows[index] is None:
                starts[topic.id, index] = start
            await share.rest()
    groups = context.services.groups()
    try:
        if not request.group_id:
            raise InvalidGroupId
        groups.check(request.group_id)
        refused = await share.wait_for(
            context.services.share_groups().alter(request.group_id, starts)
        )
        if due := groups.journal.find_unwritten_of(request.group_id):
            await share.wait_for(groups.journal.flush(due))
    except KafkaError as failure:
        return _refuse_alter(failure)
    responses = []
    for name, rows in sorted(codes.items(), key=lambda each: _is_served(each[1])):
        topic = context.services.topics.topics.get(name)
        topic_id = None if topic is None else topic.id
        answered = [
            _altered(index, error if topic_id is None or error else refused.get((topic_id, index)))
            for index, error in rows.items()
        ]
        topic_key = NO_ID if topic_id is None else topic_id.bytes
        responses.append(AlterShareGroupOffsetsResponseTopic(name, topic_key, answered))
        await share.rest()
    return AlterShareGroupOffsetsResponse(responses=responses)


def _find_topic_error(context: RequestContext, name: str) -> KafkaError | None:
    if not context.may(READ, TOPIC, name):
        return errors.TopicAuthorizationFailed()
    return None if name in context.services.topics.topics else errors.UnknownTopicOrPartition()


def _is_served(rows: dict[int, KafkaError | None]) -> bool:
    return any(error is None for error in rows.values())


def _altered(index: int, error: KafkaError | None) -> AlterShareGroupOffsetsResponsePartition:
    if error is None:
        return AlterShareGroupOffsetsResponsePartition(index)
    return AlterShareGroupOffsetsResponsePartition(index, error.code, error.message)


def _refuse_alter(error: KafkaError) -> AlterShareGroupOffsetsResponse:
    return AlterShareGroupOffsetsResponse(error_code=error.code, error_message=error.message)


async def delete(
    context: RequestContext, request: DeleteShareGroupOffsetsRequest
) -> DeleteShareGroupOffsetsResponse:
    """Delete queues of a group without members; the next member begins them again."""
    refusal = _find_refusal(context, DELETE, request.group_id)
    if refusal is not None:
        return _refuse_delete(refusal)
    share = LoopShare()
    known = context.services.topics.topics
    hidden: list[DeleteShareGroupOffsetsResponseTopic] = []
    asked: list[str] = []
    for (name,) in request.topics:
        if context.may(READ, TOPIC, name):
            asked.append(name)
        else:
            hidden.append(_deleted(name, errors.TopicAuthorizationFailed()))
        await share.rest()
    groups = context.services.groups()
    topics = {name: known[name].id for name in asked if name in known}
    try:
        if not request.group_id:
            raise InvalidGroupId
        groups.check(request.group_id)
        found = await share.wait_for(
            context.services.share_groups().delete_topics(request.group_id, [*topics.values()])
        )
        if due := groups.journal.find_unwritten_of(request.group_id):
            await share.wait_for(groups.journal.flush(due))
    except KafkaError as failure:
        return _refuse_delete(failure)
    rows = [] if found is None else [_answer(name, topics.get(name), found) for name in asked]
    rows.sort(key=_has_failed)
    return DeleteShareGroupOffsetsResponse(responses=[*hidden, *rows])


def _answer(
    name: str, topic_id: UUID | None, found: Mapping[UUID, KafkaError | None]
) -> DeleteShareGroupOffsetsResponseTopic:
    if topic_id is None:
        return _deleted(name, errors.UnknownTopicOrPartition())
    if topic_id not in found:
        return _deleted(name, errors.UnknownTopicOrPartition(_NOTHING_TO_DELETE))
    return _deleted(name, found[topic_id], topic_id)


def _has_failed(row: DeleteShareGroupOffsetsResponseTopic) -> bool:
    return row.error_code != 0


def _deleted(
    name: str, error: KafkaError | None, topic_id: UUID | None = None
) -> DeleteShareGroupOffsetsResponseTopic:
    key = NO_ID if topic_id is None else topic_id.bytes
    if error is None:
        return DeleteShareGroupOffsetsResponseTopic(name, key)
    return DeleteShareGroupOffsetsResponseTopic(name, key, error.code, error.message)


def _refuse_delete(error: KafkaError) -> DeleteShareGroupOffsetsResponse:
    return DeleteShareGroupOffsetsResponse(error_code=error.code, error_message=error.message)


def _find_refusal(context: RequestContext, operation: int, group_id: str) -> KafkaError | None:
    if not are_enabled(context):
        return errors.UnsupportedVersion()
    if not context.may(operation, GROUP, group_id):
        return errors.GroupAuthorizationFailed()
    return None

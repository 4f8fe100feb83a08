"""DescribeTopicPartitions (75), version 0: topics in pages, sorted by name (KIP-966).

Admin clients use this API instead of Metadata if a broker has it. It never creates a topic.

Differs from Kafka: an empty name is refused alone, where Kafka fails the whole request with
UNKNOWN_SERVER_ERROR.
"""

from bisect import bisect_left
from collections.abc import Callable, Sequence
from operator import itemgetter
from typing import Any

from siltstone.broker.handlers import authorized
from siltstone.broker.process.loop_share import LoopShare
from siltstone.broker.security.rights import DESCRIBE, TOPIC
from siltstone.broker.services import RequestContext
from siltstone.broker.topics.topic import Form, Topic, keep
from siltstone.protocol import errors
from siltstone.protocol.errors import ErrorCode, KafkaError
from siltstone.protocol.messages.describe_topic_partitions import (
    RESPONSE,
    DescribeTopicPartitionsRequest,
    DescribeTopicPartitionsResponse,
    DescribeTopicPartitionsResponseTopic,
    ResponseCursor,
)
from siltstone.protocol.names import check_topic_name, is_internal
from siltstone.storage.log.log import Log

_KEY, _VERSION = 75, 0


async def describe(
    context: RequestContext, request: DescribeTopicPartitionsRequest
) -> DescribeTopicPartitionsResponse:
    """Describe a page of topics from the cursor on, and say where the next page begins."""
    share = LoopShare()
    registry = context.services.topics
    names: Sequence[str] = registry.sorted_names()
    if not request.topics and context.rights is not None:
        names, _ = await _split(names, context.rights.sees, share)
    if request.topics:
        names = await share.sort_once(await share.each(request.topics, itemgetter(0)))
    first, first_index = "", 0
    if request.cursor is not None:
        first, first_index = request.cursor
        if first_index < 0 or (request.topics and first not in names):
            return await _refuse_all(names, share)
    refused: list[Any] = []
    if request.topics and context.rights is not None:
        names = names[bisect_left(names, first) :]
        names, hidden = await _split(names, context.rights.may, share)
        refused = await share.each(hidden, _refuse_hidden)
    answer = await _describe_some(context, request, names, (first, first_index), share)
    return answer._replace(topics=[*answer.topics, *refused]) if refused else answer


async def _split(
    names: Sequence[str], sees: Callable[[int, int, str], bool], share: LoopShare
) -> tuple[list[str], list[str]]:
    """Return the names of topics that the client may describe, and the other names."""
    seen: list[str] = []
    hidden: list[str] = []
    for name in names:
        (seen if sees(DESCRIBE, TOPIC, name) else hidden).append(name)
        await share.rest()
    return seen, hidden


def _refuse_hidden(name: str) -> DescribeTopicPartitionsResponseTopic:
    return DescribeTopicPartitionsResponseTopic(errors.TopicAuthorizationFailed.code, name)


async def _describe_some(
    context: RequestContext,
    request: DescribeTopicPartitionsRequest,
    names: Sequence[str],
    begin: tuple[str, int],
    share: LoopShare,
) -> DescribeTopicPartitionsResponse:
    """Describe topics from a given topic on, and that topic from a given partition on."""
    registry = context.services.topics
    first, first_index = begin
    max_partitions = context.services.settings.server.max_request_partition_size_limit
    room = max(1, min(max_partitions, request.response_partition_limit))
    node_id = context.services.identity.node_id
    operations = authorized.of_topics(context)
    everybodys: Form = (_KEY, _VERSION, operations)
    described: list[Any] = []
    for place in range(bisect_left(names, first), len(names)):
        await share.rest()
        name = names[place]
        start = first_index if name == first else 0
        form = everybodys
        if operations == authorized.OF_THE_CLIENT:
            form = authorized.form_for(context, form, name)
        if not room:  # the cursor may name what does not exist
            return DescribeTopicPartitionsResponse(
                topics=described, next_cursor=ResponseCursor(name, start)
            )
        topic = registry.topics.get(name)
        if topic is None:
            described.append(_unknown(name, form[2]))
            continue
        partitions = topic.partitions
        if not start and partitions <= room:
            described.append(topic.answers.get(form) or _describe_and_keep(topic, node_id, form))
            room -= partitions
            continue
        end = min(partitions, start + room)
        described.append(_describe(topic, range(start, end), node_id, form[2]))
        room -= max(0, end - start)
        if end < partitions:
            return DescribeTopicPartitionsResponse(
                topics=described, next_cursor=ResponseCursor(name, end)
            )
    return DescribeTopicPartitionsResponse(topics=described)


async def _refuse_all(names: Sequence[str], share: LoopShare) -> DescribeTopicPartitionsResponse:
    """Refuse an invalid cursor by an error in each topic: the answer has no other error field."""
    refused = await share.each(
        names, lambda name: _refuse(name, errors.InvalidRequest.code, authorized.NOT_ASKED)
    )
    return DescribeTopicPartitionsResponse(topics=refused)


def _refuse(name: str, code: ErrorCode, operations: int) -> DescribeTopicPartitionsResponseTopic:
    return DescribeTopicPartitionsResponseTopic(
        error_code=code,
        name=name,
        is_internal=is_internal(name),
        topic_authorized_operations=operations,
    )


def _unknown(name: str, operations: int) -> DescribeTopicPartitionsResponseTopic:
    error: type[KafkaError] = errors.UnknownTopicOrPartition
    try:
        check_topic_name(name)
    except errors.InvalidTopic:
        error = errors.InvalidTopic
    return _refuse(name, error.code, operations)


def _describe_and_keep(topic: Topic, node_id: int, form: Form) -> Any:
    """Return all of a topic as bytes; as rows if it has errors, since these are counted."""
    described = _describe(topic, range(topic.partitions), node_id, form[2])
    if None in topic.logs:
        return described
    written = RESPONSE.write_part(0, described)
    keep(topic.answers, form, written)
    return written


def _describe(
    topic: Topic, indexes: range, node_id: int, operations: int
) -> DescribeTopicPartitionsResponseTopic:
    return DescribeTopicPartitionsResponseTopic(
        0,
        topic.name,
        topic.key,
        topic.is_internal,
        [_partition(index, topic.logs[index], node_id) for index in indexes],
        operations,
    )


def _partition(index: int, log: Log | None, node_id: int) -> Any:
    replicas = (node_id,)
    if log is None:
        return (ErrorCode.leader_not_available, index, -1, -1, replicas, (), (), (), replicas)
    return (0, index, node_id, log.leader_epoch, replicas, replicas, (), (), ())

"""DescribeTopicPartitions (75), version 0: topics in pages, sorted by name (KIP-966).

What admin clients ask instead of Metadata when it is offered. Never creates a topic.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kio.schema.describe_topic_partitions.v0.response import (
    Cursor,
    DescribeTopicPartitionsResponse,
    DescribeTopicPartitionsResponsePartition,
    DescribeTopicPartitionsResponseTopic,
)

from broker import authorized
from protocol.errors import (
    ErrorCode,
    InvalidRequest,
    InvalidTopic,
    KafkaError,
    UnknownTopicOrPartition,
)
from protocol.kio_messages import NO_THROTTLE
from protocol.names import check_topic_name, is_internal

if TYPE_CHECKING:
    from kio.schema.describe_topic_partitions.v0.request import DescribeTopicPartitionsRequest

    from broker.context import RequestContext
    from broker.topic import Topic
    from storage.log import Log


def describe(
    context: RequestContext, request: DescribeTopicPartitionsRequest
) -> DescribeTopicPartitionsResponse:
    """Describe topics from the cursor on, and say where the next page begins."""
    topics = context.rooms.topics.topics
    names = sorted({each.name for each in request.topics} or topics)
    first, first_index = "", 0
    if request.cursor is not None:
        first, first_index = request.cursor.topic_name, request.cursor.partition_index
        if first_index < 0 or (request.topics and first not in names):
            return _refuse_all(names)
    most = context.rooms.settings.server.max_request_partition_size_limit
    room = max(1, min(most, request.response_partition_limit))
    described = []
    for name in names:
        if name < first:
            continue
        start = first_index if name == first else 0
        topic = topics.get(name)
        if topic is None:
            described.append(_unknown(name))
            continue
        if not room:
            return _respond(described, Cursor(topic_name=name, partition_index=start))
        end = min(topic.partitions, start + room)
        described.append(_describe(topic, range(start, end), context.rooms.identity.node_id))
        room -= max(0, end - start)
        if end < topic.partitions:
            return _respond(described, Cursor(topic_name=name, partition_index=end))
    return _respond(described, None)


def _respond(
    topics: list[DescribeTopicPartitionsResponseTopic], cursor: Cursor | None
) -> DescribeTopicPartitionsResponse:
    return DescribeTopicPartitionsResponse(
        throttle_time=NO_THROTTLE, topics=tuple(topics), next_cursor=cursor
    )


def _refuse_all(names: list[str]) -> DescribeTopicPartitionsResponse:
    """Answer a cursor that points nowhere; only topics have room for an error."""
    refused = [_refuse(name, InvalidRequest.code, authorized.NOT_ASKED) for name in names]
    return _respond(refused, None)


def _refuse(
    name: str, code: ErrorCode, operations: int = authorized.TOPIC
) -> DescribeTopicPartitionsResponseTopic:
    return DescribeTopicPartitionsResponseTopic(
        error_code=code,
        name=name,
        topic_id=None,
        is_internal=is_internal(name),
        partitions=(),
        topic_authorized_operations=operations,
    )


def _unknown(name: str) -> DescribeTopicPartitionsResponseTopic:
    error: type[KafkaError] = UnknownTopicOrPartition
    try:
        check_topic_name(name)
    except InvalidTopic:
        error = InvalidTopic
    return _refuse(name, error.code)


def _describe(topic: Topic, indexes: range, node_id: int) -> DescribeTopicPartitionsResponseTopic:
    return DescribeTopicPartitionsResponseTopic(
        error_code=ErrorCode.none,
        name=topic.name,
        topic_id=topic.id,
        is_internal=topic.is_internal,
        partitions=tuple(_partition(index, topic.logs[index], node_id) for index in indexes),
        topic_authorized_operations=authorized.TOPIC,
    )


def _partition(
    index: int, log: Log | None, node_id: int
) -> DescribeTopicPartitionsResponsePartition:
    if log is None:
        return DescribeTopicPartitionsResponsePartition(
            error_code=ErrorCode.leader_not_available,
            partition_index=index,
            leader_id=-1,
            leader_epoch=-1,
            replica_nodes=(node_id,),
            isr_nodes=(),
            eligible_leader_replicas=(),
            last_known_elr=(),
            offline_replicas=(node_id,),
        )
    return DescribeTopicPartitionsResponsePartition(
        error_code=ErrorCode.none,
        partition_index=index,
        leader_id=node_id,
        leader_epoch=log.leader_epoch,
        replica_nodes=(node_id,),
        isr_nodes=(node_id,),
        eligible_leader_replicas=(),
        last_known_elr=(),
    )

"""Metadata (3), versions 0-13: this broker, and the topics asked for.

v1 null means all · v4 allow_auto_topic_creation · v5 offline replicas · v7 leader epochs · v8
authorized operations, until v10 of the cluster too · v10 topic ids (KIP-516) · v12 topics by id ·
v13 an error for the whole.

Differs from Kafka: a topic that is created because somebody asked for it is in that answer at once,
where Kafka first answers UNKNOWN_TOPIC_OR_PARTITION; a name that cannot be created because it
collides with another is told so; a partition whose log directory has failed keeps its leader, since
it can still be read; a partition whose folder the start found damaged is offline alone, where Kafka
takes its whole log directory offline, or does not start.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import fields, replace
from typing import TYPE_CHECKING, Any

from kio.schema.metadata.v13.response import (
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)

from broker import authorized
from broker.internal_topics import preset_for
from broker.work_off import work_off
from protocol.errors import (
    ErrorCode,
    InvalidRequest,
    InvalidTopic,
    KafkaError,
    TopicAlreadyExists,
    UnknownTopicId,
    UnknownTopicOrPartition,
)
from protocol.kio_messages import NO_THROTTLE
from protocol.metadata import ClusterMetadataRequest, ClusterMetadataResponse
from protocol.names import check_topic_name, is_internal

if TYPE_CHECKING:
    from collections.abc import Coroutine
    from uuid import UUID

    from kio.schema.metadata.v13.request import MetadataRequest

    from broker.context import RequestContext
    from broker.topic import Topic
    from storage.log import Log

_FIRST_BY_ID = 12
_WIDTH = 8
_NO_LEADER = -1
_NO_EPOCH = -1


def handle(
    context: RequestContext, request: MetadataRequest
) -> MetadataResponse | Coroutine[Any, Any, MetadataResponse]:
    """Describe the topics asked for at once; return a coroutine if some are to be created."""
    topics = context.rooms.topics.topics
    if request.topics is None:
        return _respond(context, request, [_describe(context, topic) for topic in topics.values()])
    by_id = any(each.topic_id is not None for each in request.topics)
    if (by_id and context.version < _FIRST_BY_ID) or (
        not by_id and any(each.name is None for each in request.topics)
    ):
        return _refuse_all(context, request)
    if by_id:  # Kafka looks at ids only, once there is one
        ids = dict.fromkeys(each.topic_id for each in request.topics if each.topic_id is not None)
        return _respond(context, request, [_describe_id(context, each) for each in ids])
    names = list(dict.fromkeys(each.name for each in request.topics if each.name is not None))
    server = context.rooms.settings.server
    may_create = request.allow_auto_topic_creation and server.auto_create_topics_enable
    if may_create and any(name not in topics for name in names):
        return _create_and_describe(context, request, names)
    return _respond(context, request, [_describe_name(context, name) for name in names])


async def _create_and_describe(
    context: RequestContext, request: MetadataRequest, names: list[str]
) -> MetadataResponse:
    refused: dict[str, MetadataResponseTopic] = {}

    async def create(name: str) -> None:
        try:
            await _create(context, name)
        except KafkaError as error:
            refused[name] = _refuse(error.code, name, None)

    missing = [name for name in names if name not in context.rooms.topics.topics]
    await work_off(missing, create, _WIDTH)
    described = [refused.get(name) or _describe_name(context, name) for name in names]
    return _respond(context, request, described)


def _respond(
    context: RequestContext, request: MetadataRequest, topics: list[MetadataResponseTopic]
) -> MetadataResponse:
    identity = context.rooms.identity
    host, port = context.advertised
    if request.include_topic_authorized_operations:
        topics = [_with_operations(each) for each in topics]
    answer = MetadataResponse(
        throttle_time=NO_THROTTLE,
        brokers=(
            MetadataResponseBroker(
                node_id=identity.node_id, host=host, port=port, rack=identity.rack
            ),
        ),
        cluster_id=identity.cluster_id,
        controller_id=identity.node_id,
        topics=tuple(topics),
        error_code=ErrorCode.none,
    )
    if isinstance(request, ClusterMetadataRequest):
        return _with_cluster_operations(answer, request)
    return answer


def _refuse_all(context: RequestContext, request: MetadataRequest) -> MetadataResponse:
    """Answer a request in which a topic is neither named nor, in this version, known by its id."""
    code = InvalidRequest.code
    topics = [_refuse(code, each.name or "", each.topic_id) for each in request.topics or ()]
    return replace(_respond(context, request, topics), error_code=code)


def _describe_name(context: RequestContext, name: str) -> MetadataResponseTopic:
    topic = context.rooms.topics.topics.get(name)
    if topic is not None:
        return _describe(context, topic)
    try:
        check_topic_name(name)
    except InvalidTopic as error:
        return _refuse(error.code, name, None)
    return _refuse(UnknownTopicOrPartition.code, name, None)


async def _create(context: RequestContext, name: str) -> None:
    """Make a topic because a client wants to use it; that somebody else was first is fine.

    Raises:
        InvalidTopic: No topic can have this name beside those that exist.
        KafkaStorageError: The disk did not take it.
    """
    topics = context.rooms.topics
    check_topic_name(name)
    topics.check_collision(name)
    preset = preset_for(name, context.rooms.settings.server)
    with suppress(TopicAlreadyExists):
        await topics.create(name, preset.partitions, preset.overrides)


def _describe_id(context: RequestContext, topic_id: UUID) -> MetadataResponseTopic:
    topic = context.rooms.topics.by_id.get(topic_id.bytes)
    if topic is None:
        return _refuse(UnknownTopicId.code, None, topic_id)
    return _describe(context, topic)


def _describe(context: RequestContext, topic: Topic) -> MetadataResponseTopic:
    """Return the topic's part of answers, which is made once."""
    if topic.description is None:
        node_id = context.rooms.identity.node_id
        topic.description = MetadataResponseTopic(
            error_code=ErrorCode.none,
            name=topic.name,
            topic_id=topic.id,
            is_internal=topic.is_internal,
            partitions=tuple(
                _partition(index, log, node_id) for index, log in enumerate(topic.logs)
            ),
        )
    description: MetadataResponseTopic = topic.description
    return description


def _partition(index: int, log: Log | None, node_id: int) -> MetadataResponsePartition:
    if log is None:
        return MetadataResponsePartition(
            error_code=ErrorCode.leader_not_available,
            partition_index=index,
            leader_id=_NO_LEADER,
            leader_epoch=_NO_EPOCH,
            replica_nodes=(node_id,),
            isr_nodes=(),
            offline_replicas=(node_id,),
        )
    return MetadataResponsePartition(
        error_code=ErrorCode.none,
        partition_index=index,
        leader_id=node_id,
        leader_epoch=log.leader_epoch,
        replica_nodes=(node_id,),
        isr_nodes=(node_id,),
    )


def _refuse(code: ErrorCode, name: str | None, topic_id: UUID | None) -> MetadataResponseTopic:
    return MetadataResponseTopic(
        error_code=code,
        name=name,
        topic_id=topic_id,
        is_internal=name is not None and is_internal(name),
        partitions=(),
    )


def _with_operations(topic: MetadataResponseTopic) -> MetadataResponseTopic:
    if topic.error_code is not ErrorCode.none:
        return topic
    return replace(topic, topic_authorized_operations=authorized.TOPIC)


def _with_cluster_operations(
    answer: MetadataResponse, request: ClusterMetadataRequest
) -> ClusterMetadataResponse:
    asked = request.include_cluster_authorized_operations
    return ClusterMetadataResponse(
        **{field.name: getattr(answer, field.name) for field in fields(answer)},
        cluster_authorized_operations=authorized.CLUSTER if asked else authorized.NOT_ASKED,
    )

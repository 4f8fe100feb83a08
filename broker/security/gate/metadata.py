"""Guards of Metadata, DescribeTopicPartitions and DescribeCluster.

A topic that the client may not describe is refused if it was named, whether it is there or not, and
left out where all topics were asked for.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from siltstone.broker.security.gate.rows import TOPIC, Handler, then
from siltstone.broker.security.requirements import REQUIREMENTS
from siltstone.protocol.messages import NO_ID
from siltstone.protocol.messages.describe_topic_partitions import (
    DescribeTopicPartitionsResponse,
    DescribeTopicPartitionsResponseTopic,
    TopicRequest,
)
from siltstone.protocol.messages.metadata import MetadataRequestTopic, MetadataResponseTopic
from siltstone.protocol.names import is_internal
from siltstone.protocol.topic_key import FIRST_METADATA_BY_ID

if TYPE_CHECKING:
    from siltstone.broker.net._dispatch_kernels import RequestContext
    from siltstone.broker.security.rights import Rights
    from siltstone.protocol.messages.describe_topic_partitions import (
        DescribeTopicPartitionsRequest,
    )
    from siltstone.protocol.messages.metadata import MetadataRequest

_FIRST_WITH_NULL: Final = 1
_NOWHERE: Final = (MetadataRequestTopic(name=""),)
_DESCRIBE, _CREATE_ALL, _CREATE = REQUIREMENTS[3]
_DESCRIBE_PAGE: Final = REQUIREMENTS[75][0]


def metadata(
    rights: Rights, context: RequestContext, request: MetadataRequest, handler: Handler
) -> Any:
    """Describe what may be described, and have created what may be created."""
    wanted = request.topics
    refused: list[MetadataResponseTopic] = []
    if wanted is None or (context.version < _FIRST_WITH_NULL and not wanted):
        names = [each for each in context.rooms.topics.topics if rights.sees(*_DESCRIBE[:2], each)]
        request = request._replace(
            topics=[MetadataRequestTopic(name=each) for each in names] or _NOWHERE,
            allow_auto_topic_creation=False,
        )
        is_empty = not names
    else:
        served, refused = _sort_out(rights, context, request)
        is_empty = not served
        if refused:
            request = request._replace(topics=served or _NOWHERE)
    if is_empty:
        request = request._replace(allow_auto_topic_creation=False)

    def finish(answer: Any) -> Any:
        topics = [] if is_empty else answer.topics
        if refused:
            topics = [*topics, *refused]
        if request.include_cluster_authorized_operations:
            operations = rights.cluster_operations()
            answer = answer._replace(cluster_authorized_operations=operations)
        return answer._replace(topics=topics)

    return then(handler(context, request), finish)


def _sort_out(
    rights: Rights, context: RequestContext, request: MetadataRequest
) -> tuple[list[MetadataRequestTopic], list[MetadataResponseTopic]]:
    """Return what is to be served of the topics that are named, and what is refused."""
    wanted = request.topics or ()
    registry = context.rooms.topics
    served: list[MetadataRequestTopic] = []
    refused: list[MetadataResponseTopic] = []
    by_id = any(each.topic_id != NO_ID for each in wanted)
    takes_ids = context.version >= FIRST_METADATA_BY_ID
    may_create = (
        request.allow_auto_topic_creation
        and context.rooms.settings.server.auto_create_topics_enable
        and not rights.sees(*_CREATE_ALL[:2])
    )
    for each in wanted:
        if by_id:
            if takes_ids and each.topic_id == NO_ID:
                continue  # once there is an id, names count for nothing
            topic = registry.by_id.get(each.topic_id) if takes_ids else None
            if topic is None or rights.may(*_DESCRIBE[:2], topic.name):
                served.append(each)
            else:
                refused.append(MetadataResponseTopic(TOPIC, None, each.topic_id))
        elif each.name is None:
            served.append(each)
        elif not rights.may(*_DESCRIBE[:2], each.name):
            refused.append(MetadataResponseTopic(TOPIC, each.name))
        elif (
            may_create
            and each.name not in registry.topics
            and not rights.may(*_CREATE[:2], each.name)
        ):
            refused.append(
                MetadataResponseTopic(TOPIC, each.name, is_internal=is_internal(each.name))
            )
        else:
            served.append(each)
    return served, refused


def topic_partitions(
    rights: Rights,
    context: RequestContext,
    request: DescribeTopicPartitionsRequest,
    handler: Handler,
) -> Any:
    """Describe a page of the topics that may be described."""
    refused: list[DescribeTopicPartitionsResponseTopic] = []
    first = "" if request.cursor is None else request.cursor.topic_name
    if request.topics:
        named = [each for each in request.topics if each.name >= first]
        served = [each for each in named if rights.may(*_DESCRIBE_PAGE[:2], each.name)]
        seen = {each.name for each in served}
        refused = [
            DescribeTopicPartitionsResponseTopic(TOPIC, name)
            for name in dict.fromkeys(each.name for each in named)
            if name not in seen
        ]
        if request.cursor is not None and first not in {each.name for each in named}:
            return handler(context, request)  # a cursor that points nowhere, which is refused
    else:
        names = context.rooms.topics.sorted_names()
        served = [
            TopicRequest(name)
            for name in names
            if name >= first and rights.sees(*_DESCRIBE_PAGE[:2], name)
        ]
        seen = {each.name for each in served}
    if not served:
        return DescribeTopicPartitionsResponse(topics=refused)
    request = request._replace(topics=served)
    if request.cursor is not None and first not in seen:
        request = request._replace(cursor=None)
    return then(
        handler(context, request),
        lambda answer: answer._replace(topics=[*answer.topics, *refused]) if refused else answer,
    )

"""DeleteTopics (20), versions 1-6: by name, and by id from v6 on.

v5 messages · v6 topic ids (KIP-516). Fetches that wait for a deleted topic are answered.

Differs from Kafka: topics of the broker's own cannot be deleted.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from kio.schema.delete_topics.v6.response import DeletableTopicResult, DeleteTopicsResponse

from broker.work_off import work_off
from protocol.errors import (
    ErrorCode,
    InvalidRequest,
    InvalidTopic,
    KafkaError,
    TopicDeletionDisabled,
    UnknownTopicId,
    UnknownTopicOrPartition,
)
from protocol.kio_messages import NO_THROTTLE

if TYPE_CHECKING:
    from uuid import UUID

    from kio.schema.delete_topics.v6.request import DeleteTopicsRequest, DeleteTopicState

    from broker.context import RequestContext
    from broker.topic import Topic

_FIRST_WITH_DELETION_DISABLED = 3
_WIDTH = 16


async def handle(context: RequestContext, request: DeleteTopicsRequest) -> DeleteTopicsResponse:
    """Take topics away, by name or by id."""
    wanted = list(dict.fromkeys((each.name, each.topic_id) for each in request.topics))
    counts = Counter(_target(context, each) for each in request.topics)
    results: dict[tuple[str | None, UUID | None], DeletableTopicResult] = {}

    async def remove(key: tuple[str | None, UUID | None]) -> None:
        name, topic_id = key
        try:
            topic = _find_doomed(context, name, topic_id, counts)
            await context.rooms.topics.delete(topic)
        except KafkaError as error:
            results[key] = DeletableTopicResult(
                name=name, topic_id=topic_id, error_code=error.code, error_message=error.message
            )
        else:
            results[key] = DeletableTopicResult(
                name=topic.name, topic_id=topic.id, error_code=ErrorCode.none
            )

    await work_off(wanted, remove, _WIDTH)
    return DeleteTopicsResponse(
        throttle_time=NO_THROTTLE, responses=tuple(results[key] for key in wanted)
    )


def _target(context: RequestContext, wanted: DeleteTopicState) -> str | UUID | None:
    """Return what tells that two entries mean the same topic: its id, or else what was given."""
    topic = context.rooms.topics.topics.get(wanted.name) if wanted.name is not None else None
    if topic is not None and wanted.topic_id is None:
        return topic.id
    return wanted.topic_id or wanted.name


def _find_doomed(
    context: RequestContext,
    name: str | None,
    topic_id: UUID | None,
    counts: Counter[str | UUID | None],
) -> Topic:
    rooms = context.rooms
    if not rooms.settings.server.delete_topic_enable:
        if context.version < _FIRST_WITH_DELETION_DISABLED:
            raise InvalidRequest("topics can not be deleted: delete.topic.enable is false")
        raise TopicDeletionDisabled
    if (name is None) == (topic_id is None):
        raise InvalidRequest("name a topic or give its id, one of the two")
    if name is not None:
        topic = rooms.topics.topics.get(name)
        target: str | UUID | None = name if topic is None else topic.id
        unknown: KafkaError = UnknownTopicOrPartition(f"there is no topic {name}")
    else:
        topic = rooms.topics.by_id.get(topic_id.bytes) if topic_id is not None else None
        target = topic_id
        unknown = UnknownTopicId(f"there is no topic with the id {topic_id}")
    if counts[target] > 1:
        raise InvalidRequest(f"topic {name or topic_id} is in the request twice")
    if topic is None:
        raise unknown
    if topic.is_internal:
        raise InvalidTopic(f"topic {topic.name} is the broker's own and can not be deleted")
    return topic

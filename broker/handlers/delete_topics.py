"""DeleteTopics (20), versions 1-6: by name, and by id from v6 on.

v5 messages · v6 topic ids (KIP-516). Fetches that wait for a deleted topic are answered.

Differs from Kafka: the broker's own topics cannot be deleted.
"""

from collections import Counter
from collections.abc import Sequence
from uuid import UUID

from siltstone.broker.handlers.authorized import weave
from siltstone.broker.process.loop_share import LoopShare, work_off
from siltstone.broker.security.rights import CLUSTER, DELETE, DESCRIBE, TOPIC
from siltstone.broker.services import RequestContext
from siltstone.broker.topics.topic import Topic
from siltstone.protocol import errors
from siltstone.protocol.errors import KafkaError
from siltstone.protocol.messages import NO_ID
from siltstone.protocol.messages.delete_topics import (
    DeletableTopicResult,
    DeleteTopicsRequest,
    DeleteTopicsResponse,
    DeleteTopicState,
)
from siltstone.protocol.names import FIRST_DELETE_BY_ID

_FIRST_WITH_DELETION_DISABLED = 3


async def handle(context: RequestContext, request: DeleteTopicsRequest) -> DeleteTopicsResponse:
    """Delete topics, by name or by id."""
    share = LoopShare()
    entries = request.topics
    if context.version < FIRST_DELETE_BY_ID:
        entries = await share.each(request.topic_names, DeleteTopicState)
    count = len(entries)
    refused: dict[int, DeletableTopicResult] = {}
    may_delete_all = context.sees(DELETE, CLUSTER)
    if not may_delete_all:
        refused = await _find_refused(context, entries, share)
        entries = [each for place, each in enumerate(entries) if place not in refused]
    counts: Counter[str | bytes | None] = Counter()
    by_target: dict[str | bytes | None, DeleteTopicState] = {}
    for each in entries:
        await share.rest()
        target = _target(context, each)
        counts[target] += 1
        first = by_target.setdefault(target, each)
        if first != each:  # the request has both its name and its id: one answer
            key = each.topic_id if first.topic_id == NO_ID else first.topic_id
            by_target[target] = DeleteTopicState(first.name or each.name, key)
    wanted = list(by_target.values())
    results: dict[DeleteTopicState, DeletableTopicResult] = {}

    async def remove(each: DeleteTopicState) -> None:
        try:
            topic = _find_doomed(context, each, counts)
            refusal = None if may_delete_all else _find_refusal(context, each)
            if refusal is not None:  # no topic had that name when rights were checked
                results[each] = refusal
                return
            context.take_partitions(topic.partitions)
            await context.services.topics.delete(topic)
        except KafkaError as error:
            results[each] = DeletableTopicResult(
                each.name, each.topic_id, error.code, error.message
            )
        else:
            results[each] = DeletableTopicResult(topic.name, topic.key)

    await work_off(wanted, remove)
    responses = weave([results[each] for each in wanted], refused, count)
    return DeleteTopicsResponse(responses=responses)


async def _find_refused(
    context: RequestContext, entries: Sequence[DeleteTopicState], share: LoopShare
) -> dict[int, DeletableTopicResult]:
    """Return the refusals of topics that the client may not delete, by their places.

    A topic that is named twice is refused elsewhere, without a check of rights, as in Kafka.
    """
    counts = await share.count(entries)
    refused: dict[int, DeletableTopicResult] = {}
    for place, each in enumerate(entries):
        if counts[each] == 1:
            refusal = _find_refusal(context, each)
            if refusal is not None:
                refused[place] = refusal
        await share.rest()
    return refused


def _find_refusal(context: RequestContext, wanted: DeleteTopicState) -> DeletableTopicResult | None:
    """Return the refusal of a topic; it lacks the name if the client may not know the name."""
    topics = context.services.topics
    name, key = wanted
    if (name is None) == (key == NO_ID):
        return None  # an invalid row is refused elsewhere
    if name is not None:
        # For a missing topic the right to delete is not needed: the answer is that it is unknown.
        may = name not in topics.topics or context.may(DELETE, TOPIC, name)
        may = may and context.may(DESCRIBE, TOPIC, name)
    else:
        topic = topics.by_id.get(key)
        may = topic is None or context.may(DELETE, TOPIC, topic.name)
        if topic is not None and not may and context.sees(DESCRIBE, TOPIC, topic.name):
            name = topic.name
    if may:
        return None
    refusal = errors.TopicAuthorizationFailed()
    return DeletableTopicResult(name, key, refusal.code, refusal.message)


def _target(context: RequestContext, wanted: DeleteTopicState) -> str | bytes | None:
    """Return the topic's id, or the given name if no topic has it: equal values mean one topic."""
    if wanted.topic_id != NO_ID:
        return wanted.topic_id
    topic = context.services.topics.topics.get(wanted.name) if wanted.name is not None else None
    return wanted.name if topic is None else topic.key


def _find_doomed(
    context: RequestContext, wanted: DeleteTopicState, counts: Counter[str | bytes | None]
) -> Topic:
    services = context.services
    if not services.settings.server.delete_topic_enable:
        if context.version < _FIRST_WITH_DELETION_DISABLED:
            raise errors.InvalidRequest("topics cannot be deleted: delete.topic.enable is false")
        raise errors.TopicDeletionDisabled
    name, key = wanted
    if (name is None) == (key == NO_ID):
        raise errors.InvalidRequest("name a topic or give its id, one of the two")
    if name is not None:
        topic = services.topics.topics.get(name)
        unknown: KafkaError = errors.UnknownTopicOrPartition(f"there is no topic {name}")
    else:
        topic = services.topics.by_id.get(key)
        unknown = errors.UnknownTopicId(f"there is no topic with the id {UUID(bytes=key)}")
    if counts[_target(context, wanted)] > 1:
        raise errors.InvalidRequest(f"topic {name or UUID(bytes=key)} is in the request twice")
    if topic is None:
        raise unknown
    if topic.is_internal:
        raise errors.InvalidTopic(f"topic {topic.name} is the broker's own and cannot be deleted")
    return topic

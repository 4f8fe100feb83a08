"""Metadata (3), versions 0-13: this broker, and the requested topics.

v1 null means all · v4 allow_auto_topic_creation · v5 offline replicas · v7 leader epochs · v8
authorized operations, until v10 for the cluster, too · v10 topic ids (KIP-516) · v12 topics by id ·
v13 an error for the whole answer.

Differs from Kafka: if a request creates a topic, its answer already describes the topic, where
Kafka first answers UNKNOWN_TOPIC_OR_PARTITION; if a name collides with another topic's, the answer
says so; a partition whose log directory has failed keeps its leader, since it can still be read; if
the start finds a damaged partition folder, only this partition is offline, where Kafka takes the
whole log directory offline, or does not start.
"""

from collections.abc import Coroutine, Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import Any

from siltstone.broker.handlers import authorized
from siltstone.broker.process.loop_share import LoopShare, work_off
from siltstone.broker.security.rights import CLUSTER, CREATE, DESCRIBE, TOPIC
from siltstone.broker.services import RequestContext
from siltstone.broker.topics.assignments import check_total
from siltstone.broker.topics.internal import preset_for
from siltstone.broker.topics.topic import Form, Topic, keep
from siltstone.protocol import errors
from siltstone.protocol.errors import ErrorCode, KafkaError
from siltstone.protocol.messages import NO_ID
from siltstone.protocol.messages.metadata import (
    RESPONSE,
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponseTopic,
)
from siltstone.protocol.names import FIRST_METADATA_BY_ID, check_topic_name, is_internal
from siltstone.storage.log.log import Log

_FIRST_WITH_NULL = 1
_WIDTH = 8
_NO_LEADER = -1
_NO_EPOCH = -1


def handle(
    context: RequestContext, request: MetadataRequest
) -> Coroutine[Any, Any, MetadataResponse]:
    """Describe topics, and create those that are missing.

    A topic that the client may not describe is refused if it was named, whether it exists or not,
    and left out if the request was for all topics.
    """
    return _handle(context, request) if context.rights is None else _handle_seen(context, request)


async def _handle_seen(context: RequestContext, request: MetadataRequest) -> MetadataResponse:
    """Describe and create what the client's rights allow, without the cache of all topics."""
    wanted = request.topics
    refused: list[Any] = []
    share = LoopShare()
    is_all = wanted is None or (context.version < _FIRST_WITH_NULL and not wanted)
    if wanted is None or is_all:
        seen = []
        for name in tuple(context.services.topics.topics):
            if context.sees(DESCRIBE, TOPIC, name):
                seen.append(MetadataRequestTopic(name=name))
            await share.rest()
        request = request._replace(allow_auto_topic_creation=False)
    else:
        if any(each.topic_id != NO_ID for each in wanted):
            find_refusal, wanted = _find_refusal_by_id, _only_ids(context, wanted)
        else:
            may_create = not _may_create(context, request) or context.sees(CREATE, CLUSTER)
            find_refusal = partial(_find_refusal_by_name, may_create=may_create)
        seen = []
        for each in wanted:
            refusal = find_refusal(context, each)
            if refusal is None:
                seen.append(each)
            else:
                refused.append(refusal)
            await share.rest()
    if not seen:
        return _respond(context, request, refused)
    answer = await _handle(context, request._replace(topics=seen))
    if is_all:  # without those that were deleted meanwhile
        there = [each for each in answer.topics if not _is_unknown(each)]
        return answer._replace(topics=there)
    return answer._replace(topics=[*answer.topics, *refused]) if refused else answer


def _is_unknown(described: Any) -> bool:
    is_row = isinstance(described, MetadataResponseTopic)
    return is_row and described.error_code == errors.UnknownTopicOrPartition.code


def _only_ids(
    context: RequestContext, wanted: Sequence[MetadataRequestTopic]
) -> Sequence[MetadataRequestTopic]:
    """Return the rows to answer: if one has an id, in a version with ids, only rows with ids."""
    if context.version < FIRST_METADATA_BY_ID:
        return wanted
    return [each for each in wanted if each.topic_id != NO_ID]


def _find_refusal_by_id(
    context: RequestContext, wanted: MetadataRequestTopic
) -> MetadataResponseTopic | None:
    """Return the refusal of a topic by its id; the answer does not reveal the name."""
    topic = None
    if context.version >= FIRST_METADATA_BY_ID:
        topic = context.services.topics.by_id.get(wanted.topic_id)
    if topic is None or context.may(DESCRIBE, TOPIC, topic.name):
        return None
    return MetadataResponseTopic(errors.TopicAuthorizationFailed.code, None, wanted.topic_id)


def _find_refusal_by_name(
    context: RequestContext, wanted: MetadataRequestTopic, *, may_create: bool
) -> MetadataResponseTopic | None:
    """Return the refusal of a topic by its name, if the client may not describe or create it."""
    name = wanted.name
    if name is None:
        return None  # an invalid row is refused elsewhere
    if not context.may(DESCRIBE, TOPIC, name):
        return MetadataResponseTopic(errors.TopicAuthorizationFailed.code, name)
    if may_create or name in context.services.topics.topics or context.may(CREATE, TOPIC, name):
        return None
    return _refuse(errors.TopicAuthorizationFailed.code, name)


async def _handle(context: RequestContext, request: MetadataRequest) -> MetadataResponse:
    registry = context.services.topics
    share = LoopShare()
    asked = request.include_topic_authorized_operations
    operations = authorized.of_topics(context) if asked else authorized.NOT_ASKED
    form = (3, context.version, operations)
    wanted = request.topics
    if wanted is None or (context.version < _FIRST_WITH_NULL and not wanted):
        return _respond(context, request, await _describe_all(context, form, share))
    by_id, keys = await _sort_out(context, wanted, share)
    if keys is None:
        code = errors.InvalidRequest.code
        refused = await share.each(
            wanted, lambda each: _refuse(code, each.name or "", each.topic_id)
        )
        return _respond(context, request, refused, code)
    if (
        not by_id
        and not all(map(registry.topics.__contains__, keys))
        and _may_create(context, request)
    ):
        return await _create_and_describe(context, request, keys, form, share)
    described: list[Any] = []
    for some in share.pieces(keys):
        described += _describe_some(context, form, some, by_id=by_id)
        await share.rest()
    return _respond(context, request, described)


def _may_create(context: RequestContext, request: MetadataRequest) -> bool:
    may: bool = context.services.settings.server.auto_create_topics_enable
    return request.allow_auto_topic_creation and may


def _describe_some(
    context: RequestContext, form: Form, keys: Sequence[Any], *, by_id: bool
) -> Sequence[Any]:
    """Return the parts of some topics; most of them are cached."""
    registry = context.services.topics
    known: Mapping[Any, Topic] = registry.by_id if by_id else registry.topics
    describe = _describe_id if by_id else _describe_name
    return [
        (topic.answers.get(form) if (topic := known.get(key)) is not None else None)
        or describe(context, form, key)
        for key in keys
    ]


async def _sort_out(
    context: RequestContext, wanted: Sequence[MetadataRequestTopic], share: LoopShare
) -> tuple[bool, list[Any] | None]:
    """Return whether the request names topics by id, and their ids or names.

    None if a row has neither a name nor, in this version, a usable id.
    """
    ids: dict[bytes, None] = {}
    names: dict[str | None, None] = {}
    for some in share.pieces(wanted):
        for topic_id, name in some:
            if topic_id != NO_ID:  # if one row has an id, Kafka looks only at ids
                ids[topic_id] = None
            names[name] = None
        await share.rest()
    if ids:
        return True, list(ids) if context.version >= FIRST_METADATA_BY_ID else None
    return False, None if None in names else list(names)


async def _create_and_describe(
    context: RequestContext,
    request: MetadataRequest,
    names: list[str],
    form: Form,
    share: LoopShare,
) -> MetadataResponse:
    refused: dict[str, MetadataResponseTopic] = {}
    server = context.services.settings.server
    known = context.services.topics.topics
    missing: list[str] = []
    total = 0
    for name in names:
        if name not in known:
            missing.append(name)
            total += preset_for(name, server).partitions
        await share.rest()

    async def create(name: str) -> None:
        try:
            # A topic that existed when the rights were checked may have been deleted.
            if not (context.sees(CREATE, CLUSTER) or context.may(CREATE, TOPIC, name)):
                raise errors.TopicAuthorizationFailed
            check_total(total)
            await _create(context, name)
        except KafkaError as error:
            refused[name] = _refuse_name(context, form, error.code, name)

    await work_off(missing, create, _WIDTH)
    described = await share.each(
        names, lambda name: refused.get(name) or _describe_name(context, form, name)
    )
    return _respond(context, request, described)


def _respond(
    context: RequestContext,
    request: MetadataRequest,
    topics: Sequence[Any],
    error_code: ErrorCode = ErrorCode.none,
) -> MetadataResponse:
    identity = context.services.identity
    host, port = context.advertised
    asked = request.include_cluster_authorized_operations
    operations = authorized.of_cluster(context) if asked else authorized.NOT_ASKED
    return MetadataResponse(
        brokers=[MetadataResponseBroker(identity.node_id, host, port, identity.rack)],
        cluster_id=context.services.logs.cluster_id,
        controller_id=identity.node_id,
        topics=topics,
        cluster_authorized_operations=operations,
        error_code=error_code,
    )


def _describe_name(context: RequestContext, form: Form, name: str) -> Any:
    topic = context.services.topics.topics.get(name)
    if topic is not None:
        return _describe_kept(context, topic, form)
    try:
        check_topic_name(name)
    except errors.InvalidTopic as error:
        return _refuse_name(context, form, error.code, name)
    return _refuse_name(context, form, errors.UnknownTopicOrPartition.code, name)


def _refuse_name(context: RequestContext, form: Form, code: ErrorCode, name: str) -> Any:
    """Return an error with the operations that the client would have for this name."""
    if form[2] == authorized.OF_THE_CLIENT:
        form = authorized.form_for(context, form, name)
    return _refuse(code, name)._replace(topic_authorized_operations=form[2])


async def _create(context: RequestContext, name: str) -> None:
    """Create a topic because a client wants to use it; it is no error if it exists by now."""
    topics = context.services.topics
    check_topic_name(name)
    topics.check_collision(name)
    preset = preset_for(name, context.services.settings.server)
    with suppress(errors.TopicAlreadyExists):
        await topics.create(name, preset.partitions, preset.overrides)


def _describe_id(context: RequestContext, form: Form, topic_id: bytes) -> Any:
    topic = context.services.topics.by_id.get(topic_id)
    if topic is None:
        return _refuse(errors.UnknownTopicId.code, None, topic_id)
    return _describe_kept(context, topic, form)


def _describe_kept(context: RequestContext, topic: Topic, form: Form) -> Any:
    if form[2] == authorized.OF_THE_CLIENT:
        form = authorized.form_for(context, form, topic.name)
    return topic.answers.get(form) or _describe(context, topic, form)


async def _describe_all(context: RequestContext, form: Form, share: LoopShare) -> Sequence[Any]:
    """Return the parts of all topics, a list that is kept until topics change."""
    registry = context.services.topics
    if form not in registry.listings:
        for topic in list(registry.topics.values()):
            if form not in topic.answers:
                _describe(context, topic, form)
                await share.rest()
    listed = registry.listings.get(form)
    if listed is None:  # topics may have changed meanwhile
        listed = [
            topic.answers.get(form) or _describe(context, topic, form)
            for topic in registry.topics.values()
        ]
        keep(registry.listings, form, listed)
    return listed


def _describe(context: RequestContext, topic: Topic, form: Form) -> Any:
    """Return the topic's part as bytes; as rows if it has errors, since these are counted."""
    _, version, operations = form
    node_id = context.services.identity.node_id
    described = MetadataResponseTopic(
        0,
        topic.name,
        topic.key,
        topic.is_internal,
        [_partition(index, log, node_id) for index, log in enumerate(topic.logs)],
        operations,
    )
    if None in topic.logs:
        return described
    written = RESPONSE.write_part(version, described)
    keep(topic.answers, form, written)
    return written


def _partition(index: int, log: Log | None, node_id: int) -> Any:
    replicas = (node_id,)
    if log is None:
        code = ErrorCode.leader_not_available
        return (code, index, _NO_LEADER, _NO_EPOCH, replicas, (), replicas)
    return (0, index, node_id, log.leader_epoch, replicas, replicas, ())


def _refuse(code: ErrorCode, name: str | None, topic_id: bytes = NO_ID) -> MetadataResponseTopic:
    return MetadataResponseTopic(
        code, name, topic_id, is_internal=name is not None and is_internal(name)
    )

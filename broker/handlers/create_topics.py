"""CreateTopics (19), versions 2-7.

v4 defaults by -1 (KIP-464) · v5 settings in the answer (KIP-525) · v6 quotas · v7 topic ids.
A replication factor above 1 is refused, as Kafka refuses it with one broker.

Differs from Kafka: segment.bytes below 1 MiB is accepted with a warning; a topic is in Metadata for
everybody when the answer is sent, not a moment later; the settings of topics are in the answer for
up to 500 of them, since they are a hundred times as long as the request; more than topics.max.count
topics, or more than partitions.max.count partitions in all, are refused with POLICY_VIOLATION.
"""

from collections.abc import Sequence
from functools import lru_cache
from operator import itemgetter
from typing import Any

from siltstone.broker.process.loop_share import LoopShare, work_off
from siltstone.broker.security.rights import CLUSTER, CREATE, DESCRIBE_CONFIGS, TOPIC
from siltstone.broker.services import RequestContext
from siltstone.broker.topics import assignments
from siltstone.config.describe import describe_topic
from siltstone.config.layers import Layers
from siltstone.protocol import errors
from siltstone.protocol.errors import KafkaError
from siltstone.protocol.messages.create_topics import (
    RESPONSE,
    CreatableTopic,
    CreatableTopicConfigs,
    CreatableTopicResult,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from siltstone.protocol.names import CLUSTER_METADATA_TOPIC, check_topic_name
from siltstone.storage.randomness import random_id

_MAX_DESCRIBED = 500
_MAX_KEPT = 16

_name_of = itemgetter(0)


async def handle(context: RequestContext, request: CreateTopicsRequest) -> CreateTopicsResponse:
    """Create topics, or only validate the request."""
    share = LoopShare()
    counts = await share.count(request.topics, _name_of)
    results: dict[str, CreatableTopicResult] = {}
    default = context.services.settings.server.num_partitions
    total = 0
    may_create_all = context.sees(CREATE, CLUSTER)
    for each in request.topics:
        # Kafka refuses a name that occurs twice, whatever rights a client has.
        if may_create_all or counts[each.name] > 1 or context.may(CREATE, TOPIC, each.name):
            total += _count(each, default)
        else:
            results[each.name] = CreatableTopicResult(
                name=each.name,
                error_code=errors.TopicAuthorizationFailed.code,
                error_message="Authorization failed.",
            )
        await share.rest()
    served = {each.name: each for each in request.topics if each.name not in results}
    describes = len(served) <= _MAX_DESCRIBED

    async def make(wanted: CreatableTopic) -> None:
        try:
            assignments.check_total(total)
            if counts[wanted.name] > 1:
                raise errors.InvalidRequest(f"topic {wanted.name} is in the request twice")
            results[wanted.name] = await create(
                context, wanted, validate_only=request.validate_only, describes=describes
            )
        except KafkaError as error:
            results[wanted.name] = CreatableTopicResult(
                name=wanted.name, error_code=error.code, error_message=error.message
            )

    await work_off(served.values(), make)
    return CreateTopicsResponse(topics=[results[name] for name in counts])


def _count(wanted: CreatableTopic, default: int) -> int:
    """Return how many partitions a topic asks for; an invalid number counts as 0."""
    if wanted.assignments:
        return len(wanted.assignments)
    return default if wanted.num_partitions == -1 else max(wanted.num_partitions, 0)


async def create(
    context: RequestContext,
    wanted: CreatableTopic,
    *,
    validate_only: bool = False,
    describes: bool = False,
) -> CreatableTopicResult:
    """Create a topic that the client may create, or only check that it can be.

    Raises:
        KafkaError: The topic cannot be created.
    """
    topics = context.services.topics
    name = wanted.name
    if name == CLUSTER_METADATA_TOPIC:
        raise errors.InvalidRequest(f"topic {name} is Kafka's own and has no place here")
    check_topic_name(name)
    topics.check_collision(name)
    if name in topics.topics:
        raise errors.TopicAlreadyExists(f"topic {name} already exists")
    overrides = _check_configs(context, wanted)
    partitions = _check_partitions(context, wanted)
    context.take_partitions(partitions)
    if validate_only:
        topics.check_count(name, partitions)
        topics.check_room(name, partitions)
        context.services.settings.check_size(name, {}, overrides)
        topic_id = random_id()
    else:
        topic_id = (await topics.create(name, partitions, overrides)).id
    if not context.sees(DESCRIBE_CONFIGS, TOPIC, name):
        return CreatableTopicResult(
            name=name,
            topic_id=topic_id.bytes,
            error_message=None,
            topic_config_error_code=errors.TopicAuthorizationFailed.code,
        )
    configs: Sequence[Any] = ()
    if describes:
        layers = context.services.settings.layers
        configs = _write_configs(layers, tuple(overrides.items()), context.version)
    return CreatableTopicResult(
        name=name,
        topic_id=topic_id.bytes,
        error_message=None,
        num_partitions=partitions,
        replication_factor=1,
        configs=configs,
    )


@lru_cache(maxsize=_MAX_KEPT)
def _write_configs(
    layers: Layers, own: tuple[tuple[str, str], ...], version: int
) -> tuple[bytes, ...]:
    """Return the settings of a topic as bytes; topics with the same settings share the bytes."""
    return tuple(
        RESPONSE.write_part(
            version,
            CreatableTopicConfigs(row.name, row.value, row.read_only, row.source, row.sensitive),
        )
        for row in describe_topic(layers, dict(own))
    )


def _check_configs(context: RequestContext, wanted: CreatableTopic) -> dict[str, str]:
    """Return the topic's own settings."""
    overrides = {}
    for config in wanted.configs:
        if config.value is None:
            raise errors.InvalidConfig(
                f"{config.name} has no value; leave it out to have the default"
            )
        overrides[config.name] = config.value
    context.services.settings.check_topic(wanted.name, overrides)
    return overrides


def _check_partitions(context: RequestContext, wanted: CreatableTopic) -> int:
    """Return how many partitions the topic gets."""
    if wanted.assignments:
        if wanted.replication_factor != -1 or wanted.num_partitions != -1:
            raise errors.InvalidRequest(
                f"topic {wanted.name} has an assignment, so the numbers of partitions and of "
                "replicas must be -1"
            )
        assignments.check_indexes([each.partition_index for each in wanted.assignments])
        for each in wanted.assignments:
            assignments.check_replicas(each.broker_ids, context.services.identity.node_id)
        return len(wanted.assignments)
    assignments.check_replication_factor(wanted.replication_factor)
    if wanted.num_partitions == 0 or wanted.num_partitions < -1:
        raise errors.InvalidPartitions(
            f"{wanted.num_partitions} partitions cannot be; ask for at least 1, or for -1 to have "
            "the default"
        )
    default = context.services.settings.server.num_partitions
    return default if wanted.num_partitions == -1 else wanted.num_partitions

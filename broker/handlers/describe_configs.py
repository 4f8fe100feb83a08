"""DescribeConfigs (32), versions 1-4, and ListConfigResources (74), versions 0-1.

DescribeConfigs: v1 synonyms (KIP-226) · v3 types and documentation (KIP-569) · v4 compact encoding.
ListConfigResources: v0 client metrics only (KIP-714) · v1 every type (KIP-1142).

Differs from Kafka: DescribeConfigs leaves out settings of brokers and groups that have no effect
here, unless somebody has set them, and includes the settings that only this broker has; broker
settings that cannot change while the broker runs are read-only; advertised.listeners is read-only,
too, as in Kafka, although it can be altered here; a resource that is named twice is described once,
for its last place in the request; the documentation of a setting is in this broker's own words.
"""

from collections.abc import Iterable, Mapping
from functools import lru_cache
from itertools import repeat
from operator import itemgetter
from typing import Any

from siltstone.broker.handlers.authorized import find_refusal
from siltstone.broker.process import logs
from siltstone.broker.process.loop_share import LoopShare
from siltstone.broker.security.rights import CLUSTER, DESCRIBE_CONFIGS
from siltstone.broker.services import RequestContext
from siltstone.broker.topics.settings.resources import (
    ALL_BROKERS,
    ResourceType,
    check_broker,
    check_type,
)
from siltstone.broker.topics.settings.stored import keep_valid
from siltstone.config.checks import ADVERTISED
from siltstone.config.client_metrics import describe_client_metrics
from siltstone.config.describe import describe_broker, describe_cluster_default, describe_topic
from siltstone.config.group_settings import describe_group
from siltstone.config.layers import Layers
from siltstone.protocol.errors import (
    ClusterAuthorizationFailed,
    InvalidRequest,
    KafkaError,
    UnknownTopicOrPartition,
    UnsupportedVersion,
)
from siltstone.protocol.messages.describe_configs import (
    RESPONSE,
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResourceResult,
    DescribeConfigsResponse,
    DescribeConfigsResult,
)
from siltstone.protocol.messages.list_config_resources import (
    ListConfigResourcesRequest,
    ListConfigResourcesResponse,
)
from siltstone.protocol.names import check_topic_name

Refusal = tuple[int, str]

_LOGGER_SOURCE = 6
_FIRST_WITH_TYPES = 1
_MAX_KEPT = 32


async def describe(
    context: RequestContext, request: DescribeConfigsRequest
) -> DescribeConfigsResponse:
    """Describe settings; an unknown type of resource fails the whole request, as in Kafka."""

    def answer(each: tuple[DescribeConfigsResource, Refusal | None]) -> DescribeConfigsResult:
        resource, refusal = each
        kind, name, keys = resource
        if refusal is not None:
            return DescribeConfigsResult(*refusal, kind, name)
        try:
            rows = _describe(context, request, resource)
        except KafkaError as error:
            return DescribeConfigsResult(error.code, error.message, kind, name)
        configs: list[Any] = list(rows.values())
        if keys:
            wanted = set(keys)
            configs = [row for each, row in rows.items() if each in wanted]
        return DescribeConfigsResult(0, "", kind, name, configs)

    share = LoopShare()
    judged = await _judge(context, request, share)
    return DescribeConfigsResponse(results=await share.each(judged, answer))


async def _judge(
    context: RequestContext, request: DescribeConfigsRequest, share: LoopShare
) -> Iterable[tuple[DescribeConfigsResource, Refusal | None]]:
    """Return the resources, each with its refusal, or None if it may be described.

    A resource that is named twice is returned once, unless the client has no right to it.
    """
    unknown: Refusal | None = None
    for kind in await share.count(request.resources, itemgetter(0)):
        try:
            check_type(kind)
        except InvalidRequest as error:
            unknown = unknown or (error.code, error.message)
        await share.rest()
    judged: dict[Any, tuple[DescribeConfigsResource, Refusal | None]] = {}
    for place, resource in enumerate(request.resources):
        kind, name, _ = resource
        refusal = unknown
        if refusal is None and context.rights is not None:
            found = find_refusal(context, DESCRIBE_CONFIGS, kind, name)
            refusal = None if found is None else (found.code, found.message)
        judged[(kind, name) if refusal is unknown else place] = resource, refusal
        await share.rest()
    return judged.values()


def _describe(
    context: RequestContext, request: DescribeConfigsRequest, resource: DescribeConfigsResource
) -> Mapping[str, Any]:
    """Return the settings of a resource by their names."""
    name = resource.resource_name
    settings = context.services.settings
    node_id = context.services.identity.node_id
    own: Mapping[str, str] = {}
    kind = check_type(resource.resource_type)
    match kind:
        case ResourceType.TOPIC:
            check_topic_name(name)
            topic = context.services.topics.topics.get(name)
            if topic is None:
                raise UnknownTopicOrPartition(f"there is no topic {name}")
            own = topic.overrides
        case ResourceType.BROKER if name == ALL_BROKERS:
            pass
        case ResourceType.BROKER:
            check_broker(name, node_id)
        case ResourceType.BROKER_LOGGER:
            check_broker(name, node_id)
            return {each: _logger(each, level) for each, level in logs.levels().items()}
        case ResourceType.GROUP if name:
            own = settings.group_overrides.get(name, {})
        case ResourceType.CLIENT_METRICS if name:
            own = settings.client_metrics.get(name, {})
        case ResourceType.CLIENT_METRICS | ResourceType.GROUP:
            raise InvalidRequest("a group or a client metrics subscription has a name")
    return _write_rows(
        settings.layers,
        kind,
        kind is ResourceType.BROKER and name == ALL_BROKERS,
        frozenset(own.items()),
        context.version,
        request.include_synonyms,
        request.include_documentation,
    )


@lru_cache(maxsize=_MAX_KEPT)
def _write_rows(
    layers: Layers,
    kind: ResourceType,
    of_cluster: bool,
    own: frozenset[tuple[str, str]],
    version: int,
    with_synonyms: bool,
    with_documentation: bool,
) -> dict[str, bytes]:
    """Return the settings of a resource by name, each as bytes of an answer in a version.

    The bytes are kept for later requests: topics with the same settings share them.
    """
    if of_cluster:
        rows = describe_cluster_default(layers)
    elif kind is ResourceType.BROKER:
        rows = describe_broker(layers)
    elif kind is ResourceType.GROUP:
        rows = describe_group(layers, dict(own))
    elif kind is ResourceType.CLIENT_METRICS:
        rows = describe_client_metrics(dict(own))
    else:
        rows = describe_topic(layers, keep_valid(dict(own), layers.topic))
    written = {}
    for row in rows:
        synonyms: Any = row.synonyms if with_synonyms else ()
        described = DescribeConfigsResourceResult(
            row.name,
            row.value,
            row.read_only or row.name == ADVERTISED,
            row.source,
            row.sensitive,
            synonyms,
            row.type.value,
            row.documentation if with_documentation else None,
        )
        written[row.name] = RESPONSE.write_part(version, described)
    return written


def _logger(name: str, level: str) -> DescribeConfigsResourceResult:
    return DescribeConfigsResourceResult(
        name=name, value=level, config_source=_LOGGER_SOURCE, documentation=""
    )


def list_resources(
    context: RequestContext, request: ListConfigResourcesRequest
) -> ListConfigResourcesResponse:
    """List the resources that have settings; a request without a type means every type."""
    if not context.may(DESCRIBE_CONFIGS, CLUSTER):
        return ListConfigResourcesResponse(error_code=ClusterAuthorizationFailed.code)
    broker = (str(context.services.identity.node_id),)
    names = {
        ResourceType.TOPIC: tuple(context.services.topics.topics),
        ResourceType.BROKER: broker,
        ResourceType.BROKER_LOGGER: broker,
        ResourceType.CLIENT_METRICS: tuple(context.services.settings.client_metrics),
        ResourceType.GROUP: tuple(context.services.settings.group_overrides),
    }
    wanted: set[int] = set(request.resource_types) or set(names)
    if context.version < _FIRST_WITH_TYPES:
        wanted = {ResourceType.CLIENT_METRICS}
    if not wanted <= set(names):
        return ListConfigResourcesResponse(error_code=UnsupportedVersion.code)
    listed: list[Any] = []
    for kind, of_kind in names.items():
        if kind in wanted:
            listed.extend(zip(of_kind, repeat(kind)))
    return ListConfigResourcesResponse(config_resources=listed)

"""DescribeConfigs (32), versions 1-4, and ListConfigResources (74), versions 0-1.

DescribeConfigs: v1 synonyms (KIP-226) · v3 types and documentation (KIP-569) · v4 compact encoding.
ListConfigResources: v0 client metrics only (KIP-714) · v1 every type (KIP-1142).

Differs from Kafka: DescribeConfigs leaves out broker settings that are not obeyed, unless they were
given; client metrics have no settings and are described without any.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kio.schema.describe_configs.v4.response import (
    DescribeConfigsResourceResult,
    DescribeConfigsResponse,
    DescribeConfigsResult,
    DescribeConfigsSynonym,
)
from kio.schema.list_config_resources.v1.response import (
    ConfigResource,
    ListConfigResourcesResponse,
)

from broker import loggers
from broker.config_resources import ALL_BROKERS, ResourceType, check_broker, check_type
from config.describe import describe_broker, describe_cluster_default, describe_topic
from config.groups import describe_group
from protocol.errors import (
    ErrorCode,
    InvalidRequest,
    KafkaError,
    UnknownTopicOrPartition,
    UnsupportedVersion,
)
from protocol.kio_messages import NO_THROTTLE
from protocol.names import check_topic_name

if TYPE_CHECKING:
    from kio.schema.describe_configs.v4.request import (
        DescribeConfigsRequest,
        DescribeConfigsResource,
    )
    from kio.schema.list_config_resources.v1.request import ListConfigResourcesRequest

    from broker.context import RequestContext
    from config.describe import ConfigRow

_LOGGER_SOURCE = 6
_UNKNOWN_KIND = 0


def describe(context: RequestContext, request: DescribeConfigsRequest) -> DescribeConfigsResponse:
    """Describe settings; a resource of an unknown type fails them all, as in Kafka."""
    results = []
    refusal = _find_refusal(request)
    for resource in request.resources:
        try:
            if refusal is not None:
                raise refusal
            configs = _describe(context, request, resource)
        except KafkaError as error:
            results.append(_result(resource, error.code, error.message, []))
        else:
            wanted = set(resource.configuration_keys or ())
            kept = [each for each in configs if not wanted or each.name in wanted]
            results.append(_result(resource, ErrorCode.none, None, kept))
    return DescribeConfigsResponse(throttle_time=NO_THROTTLE, results=tuple(results))


def _find_refusal(request: DescribeConfigsRequest) -> KafkaError | None:
    try:
        for resource in request.resources:
            check_type(resource.resource_type)
    except InvalidRequest as error:
        return error
    return None


def _describe(
    context: RequestContext, request: DescribeConfigsRequest, resource: DescribeConfigsResource
) -> list[DescribeConfigsResourceResult]:
    name = resource.resource_name
    layers = context.rooms.settings.layers
    node_id = context.rooms.identity.node_id
    rows: list[ConfigRow] = []
    match check_type(resource.resource_type):
        case ResourceType.TOPIC:
            check_topic_name(name)
            topic = context.rooms.topics.topics.get(name)
            if topic is None:
                raise UnknownTopicOrPartition(f"there is no topic {name}")
            rows = describe_topic(layers, topic.overrides)
        case ResourceType.BROKER if name == ALL_BROKERS:
            rows = describe_cluster_default(layers)
        case ResourceType.BROKER:
            check_broker(name, node_id)
            rows = describe_broker(layers)
        case ResourceType.BROKER_LOGGER:
            check_broker(name, node_id)
            return [_logger(each, level) for each, level in loggers.levels().items()]
        case ResourceType.GROUP if name:
            rows = describe_group(layers, context.rooms.settings.group_overrides.get(name, {}))
        case ResourceType.CLIENT_METRICS | ResourceType.GROUP:
            if not name:
                raise InvalidRequest("a group or a client metrics subscription has a name")
    return [_config(request, row) for row in rows]


def _config(request: DescribeConfigsRequest, row: ConfigRow) -> DescribeConfigsResourceResult:
    synonyms = row.synonyms if request.include_synonyms else ()
    return DescribeConfigsResourceResult(
        name=row.name,
        value=row.value,
        read_only=row.read_only,
        config_source=row.source.value,
        is_sensitive=row.sensitive,
        synonyms=tuple(
            DescribeConfigsSynonym(name=each.name, value=each.value, source=each.source.value)
            for each in synonyms
        ),
        config_type=row.type.value,
        documentation=row.documentation if request.include_documentation else None,
    )


def _logger(name: str, level: str) -> DescribeConfigsResourceResult:
    return DescribeConfigsResourceResult(
        name=name,
        value=level,
        read_only=False,
        config_source=_LOGGER_SOURCE,
        is_sensitive=False,
        synonyms=(),
        config_type=_UNKNOWN_KIND,
        documentation=None,
    )


def _result(
    resource: DescribeConfigsResource,
    code: ErrorCode,
    message: str | None,
    configs: list[DescribeConfigsResourceResult],
) -> DescribeConfigsResult:
    return DescribeConfigsResult(
        error_code=code,
        error_message=message,
        resource_type=resource.resource_type,
        resource_name=resource.resource_name,
        configs=tuple(configs),
    )


def list_resources(
    context: RequestContext, request: ListConfigResourcesRequest
) -> ListConfigResourcesResponse:
    """Name what settings can be described for; no type at all means every one."""
    broker = (str(context.rooms.identity.node_id),)
    names = {
        ResourceType.TOPIC: tuple(context.rooms.topics.topics),
        ResourceType.BROKER: broker,
        ResourceType.BROKER_LOGGER: broker,
        ResourceType.CLIENT_METRICS: (),
        ResourceType.GROUP: tuple(context.rooms.settings.group_overrides),
    }
    wanted = set(request.resource_types) or set(names)
    if not wanted <= set(names):
        return ListConfigResourcesResponse(
            throttle_time=NO_THROTTLE, error_code=UnsupportedVersion.code, config_resources=()
        )
    return ListConfigResourcesResponse(
        throttle_time=NO_THROTTLE,
        error_code=ErrorCode.none,
        config_resources=tuple(
            ConfigResource(resource_name=name, resource_type=kind.value)
            for kind, listed in names.items()
            if kind in wanted
            for name in listed
        ),
    )

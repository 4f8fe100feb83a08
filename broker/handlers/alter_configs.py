"""IncrementalAlterConfigs (44), versions 0-1, and AlterConfigs (33), versions 0-2.

IncrementalAlterConfigs changes single settings (KIP-339), AlterConfigs replaces all settings that
were set for a resource. When a change is answered, it is in force and stored in the catalogue.

Differs from Kafka: settings that Kafka does not document are refused;
expressions that choose clients for metrics are RE2's, not Java's; broker settings that Kafka
does not know are refused, and so are settings that promise a protection which does not exist here;
a resource that is named twice in AlterConfigs is refused, where Kafka never answers;
advertised.listeners can be altered while this broker runs, where Kafka needs a restart; a change
that would exceed configs.max.bytes or client.metrics.max.count is refused with POLICY_VIOLATION.
"""

from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from operator import itemgetter
from typing import Any

from siltstone.broker.handlers.authorized import find_refusal
from siltstone.broker.process import logs
from siltstone.broker.process.loop_share import LoopShare, work_off
from siltstone.broker.security.rights import ALTER_CONFIGS
from siltstone.broker.services import RequestContext
from siltstone.broker.telemetry import check_subscription
from siltstone.broker.topics import eligible_leaders
from siltstone.broker.topics.settings.config_changes import (
    Change,
    Operation,
    apply_changes,
    check_changes,
)
from siltstone.broker.topics.settings.resources import (
    ALL_BROKERS,
    ResourceType,
    check_broker,
    check_type,
)
from siltstone.config.describe import describe_broker, describe_topic
from siltstone.config.group_settings import describe_group
from siltstone.config.layers import Layers
from siltstone.protocol.errors import ErrorCode, InvalidRequest, KafkaError, UnknownTopicOrPartition
from siltstone.protocol.messages.alter_configs import (
    AlterConfigsRequest,
    AlterConfigsResourceResponse,
    AlterConfigsResponse,
)
from siltstone.protocol.messages.incremental_alter_configs import (
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)
from siltstone.protocol.names import check_topic_name

_MAX_SETTINGS = 1_000
_NOT_REPLACED = frozenset({ResourceType.BROKER_LOGGER})


async def alter_incrementally(
    context: RequestContext, request: IncrementalAlterConfigsRequest
) -> IncrementalAlterConfigsResponse:
    """Change single settings of resources."""

    async def alter(resource: Any) -> None:
        changes = check_changes(
            (each.name, each.config_operation, each.value) for each in resource.configs
        )
        await _Change(context, resource, request.validate_only).apply(changes, replaces=False)

    return IncrementalAlterConfigsResponse(
        responses=await _for_each(context, request.resources, alter)
    )


async def alter(context: RequestContext, request: AlterConfigsRequest) -> AlterConfigsResponse:
    """Replace all settings that were set for the resources."""

    async def replace(resource: Any) -> None:
        if resource.resource_type == ResourceType.BROKER_LOGGER:
            raise InvalidRequest("levels of loggers are changed by IncrementalAlterConfigs only")
        changes = check_changes((each.name, Operation.SET, each.value) for each in resource.configs)
        await _Change(context, resource, request.validate_only).apply(changes, replaces=True)

    return AlterConfigsResponse(
        responses=await _for_each(context, request.resources, replace, _NOT_REPLACED)
    )


async def _for_each(
    context: RequestContext,
    resources: Sequence[Any],
    change: Callable[[Any], Awaitable[None]],
    never: Collection[int] = (),
) -> list[Any]:
    """Change every resource and return the results in order, in the form that both APIs share.

    Resources of the types in ``never`` are refused by ``change``, so no rights are checked.
    """
    share = LoopShare()
    counts = await share.count(resources, itemgetter(0, 1))
    outcomes: list[Any] = [None] * len(resources)

    async def work(numbered: tuple[int, Any]) -> None:
        index, resource = numbered
        code, message = ErrorCode.none, None
        try:
            kind, name, _ = resource
            if counts[kind, name] > 1:
                raise InvalidRequest(f"{name!r} is in the request twice")
            if kind not in never:
                refusal = find_refusal(context, ALTER_CONFIGS, kind, name)
                if refusal is not None:
                    raise refusal
            if len(resource.configs) > _MAX_SETTINGS:
                raise InvalidRequest(
                    f"{len(resource.configs)} settings of {resource.resource_name!r} are more than "
                    f"anything has; at most {_MAX_SETTINGS} can be changed at once"
                )
            await change(resource)
        except KafkaError as error:
            code, message = error.code, error.message
        outcomes[index] = AlterConfigsResourceResponse(
            code, message, resource.resource_type, resource.resource_name
        )

    await work_off(list(enumerate(resources)), work)
    return outcomes


class _Change:
    """The change of one resource; it begins with the settings that earlier changes left."""

    def __init__(self, context: RequestContext, resource: Any, validate_only: bool) -> None:
        self.services = context.services
        self.kind = resource.resource_type
        self.name: str = resource.resource_name
        self.validate_only = validate_only

    async def apply(self, changes: list[Change], *, replaces: bool) -> None:
        """Put the changes in force and store them, or only check them."""
        # The order of refusals is Kafka's: first the type, then the resource, then the values.
        match check_type(self.kind):
            case ResourceType.TOPIC:
                await self._alter_topic(changes, replaces)
            case ResourceType.BROKER:
                await self._alter_broker(changes, replaces)
            case ResourceType.BROKER_LOGGER:
                self._alter_loggers(changes)
            case ResourceType.GROUP:
                await self._alter_group(changes, replaces)
            case ResourceType.CLIENT_METRICS:
                await self._alter_client_metrics(changes, replaces)

    async def _alter_topic(self, changes: list[Change], replaces: bool) -> None:
        topic = self.services.topics.topics.get(self.name)

        def edit(own: Mapping[str, str]) -> Mapping[str, str]:
            layers = self.services.settings.layers
            values = apply_changes(
                {} if replaces else own, changes, lambda: describe_topic(layers, own)
            )
            if not self.name:
                raise InvalidRequest(
                    "settings of all topics are those of the brokers; name a topic"
                )
            check_topic_name(self.name)
            self.services.settings.check_topic(self.name, values)
            return values

        if topic is None:
            edit({})
            raise UnknownTopicOrPartition(f"there is no topic {self.name}")
        if self.validate_only:
            edit(topic.overrides)
        else:
            await self.services.topics.edit(topic, edit)

    async def _alter_broker(self, changes: list[Change], replaces: bool) -> None:
        settings = self.services.settings
        is_cluster = self.name == ALL_BROKERS
        if not is_cluster:
            check_broker(self.name, self.services.identity.node_id)

        def edit(layers: Layers) -> Layers:
            own = layers.cluster if is_cluster else layers.broker
            values = apply_changes(
                {} if replaces else own, changes, lambda: describe_broker(layers)
            )
            settings.check_dynamic(values, cluster=is_cluster)
            if is_cluster:
                eligible_leaders.check_cluster(self.services.features, own, values)
            else:
                eligible_leaders.check_broker(
                    self.services.features, [each.name for each in changes]
                )
            if values == own:
                return layers
            return layers.with_dynamic(**{"cluster" if is_cluster else "broker": values})

        if self.validate_only:
            await settings.check(edit)
        else:
            await settings.edit(edit)

    async def _alter_group(self, changes: list[Change], replaces: bool) -> None:
        settings = self.services.settings

        def edit(own: Mapping[str, str]) -> Mapping[str, str]:
            values = apply_changes(
                {} if replaces else own, changes, lambda: describe_group(settings.layers, own)
            )
            if not self.name:
                raise InvalidRequest("settings of all groups are those of the broker; name a group")
            settings.check_group(values)
            return values

        if self.validate_only:
            edit(settings.group_overrides.get(self.name, {}))
        else:
            await settings.edit_group(self.name, edit)

    async def _alter_client_metrics(self, changes: list[Change], replaces: bool) -> None:
        settings = self.services.settings

        def edit(own: Mapping[str, str]) -> Mapping[str, str]:
            # Kafka has no types for these settings, so no value is a list that a client can append
            # to.
            values = apply_changes({} if replaces else own, changes, tuple)
            if not self.name:
                raise InvalidRequest("a subscription to metrics of clients has a name")
            check_subscription(values)
            return values

        if self.validate_only:
            edit(settings.client_metrics.get(self.name, {}))
        else:
            await settings.edit_client_metrics(self.name, edit)

    def _alter_loggers(self, changes: list[Change]) -> None:
        check_broker(self.name, self.services.identity.node_id)
        for name, operation, _ in changes:
            if operation not in {Operation.SET, Operation.DELETE}:
                raise InvalidRequest(f"a level can be set or deleted; {name} is no list")
        for validate_only in (True, self.validate_only):  # all of them or none
            for name, operation, value in changes:
                # kafka-configs sends an empty value with DELETE; the value is ignored.
                level = None if operation is Operation.DELETE else value
                logs.set_level(name, level, validate_only=validate_only)

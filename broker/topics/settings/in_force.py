"""The settings in force: those given at the start, overridden by changes while the broker runs.

The catalogue keeps dynamic values, so they survive a restart (Kafka: DynamicBrokerConfig).
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import contextmanager
from itertools import chain
from typing import Final, TypeAlias

from siltstone.broker.process.client_limits import Limit, Limits
from siltstone.broker.process.tasks import OneByOne
from siltstone.broker.topics.catalog_writer import CatalogWriter
from siltstone.broker.topics.settings.stored import keep_valid, with_stored
from siltstone.config.consumer_groups import GroupConfig
from siltstone.config.errors import ConfigError
from siltstone.config.group_settings import check_group, effective_group
from siltstone.config.layers import Layers
from siltstone.config.reloading import find_differences
from siltstone.config.server import ServerConfig
from siltstone.config.topic import TopicConfig
from siltstone.protocol.errors import InvalidConfig, InvalidRequest, KafkaError, KafkaStorageError
from siltstone.storage.directory.catalog import CatalogState

Own: TypeAlias = Mapping[str, str]
Edit: TypeAlias = Callable[[Own], Own]
"""Makes other settings of something of those that it has; raises if it may not have them."""

_logger = logging.getLogger(__name__)

_CONFIGS_KEPT: Final = 1000
_KEPT_BYTES: Final = 10_000
_SETTING_BYTES: Final = 100
"""The facts of a setting besides its name and its value."""


class BrokerSettings:
    """The layers of settings now in force, and how they change (loop only).

    Changes of one broker, group or subscription are made one after the other, so that each begins
    with the result of the change before: otherwise a change could be lost, or a refused change
    could be kept with the next one. A change of the broker's settings is in force at once and
    durable when `alter` returns; if the disk does not take the change, it is undone. Each change
    makes new layers, so derived values can be cached by layers. ``limits`` has the settings that
    limit what the broker keeps for clients.
    """

    def __init__(self, layers: Layers, catalog: CatalogWriter) -> None:
        self._catalog = catalog
        self._callbacks: list[Callable[[], Awaitable[None]]] = []
        self._checks: list[Callable[[Layers], Awaitable[None]]] = []
        self._topic_configs: dict[frozenset[tuple[str, str]], TopicConfig] = {}
        self._counted: CatalogState | None = None
        self._config_bytes = 0  # in the catalogue's state that was last counted
        self._coming_bytes = 0  # in settings that are being written
        self._coming: set[str] = set()  # subscriptions that are being written
        self._changes = OneByOne("settings", KafkaError)
        self._telling = asyncio.Lock()
        self.layers = with_stored(layers, catalog.state)
        self.limits = Limits(lambda: self.server)

    @property
    def server(self) -> ServerConfig:
        """Return the settings of the broker that are in force now."""
        return self.layers.server()

    def on_change(self, callback: Callable[[], Awaitable[None]]) -> None:
        """Register ``callback``, which is awaited after each change."""
        self._callbacks.append(callback)

    def before_change(self, check: Callable[[Layers], Awaitable[None]]) -> None:
        """Register ``check``, awaited before dynamic values change; a ConfigError refuses them."""
        self._checks.append(check)

    def topic_config(self, overrides: Mapping[str, str]) -> TopicConfig:
        """Return the settings of a topic with these own values; equal ones often share one object.

        A stored value that is no longer valid is left out with a line in the log.
        """
        key = frozenset(overrides.items())
        config = self._topic_configs.get(key)
        if config is None:
            config = self.layers.topic(keep_valid(overrides, self.layers.topic))
            if len(self._topic_configs) >= _CONFIGS_KEPT:  # most belong to no topic any more
                self._topic_configs.clear()
            if _size_of("", overrides) <= _KEPT_BYTES:
                self._topic_configs[key] = config
        return config

    def stored_topic_config(self, topic: str) -> TopicConfig:
        """Return the settings of a topic in the catalogue; any thread may call this at a start."""
        entry = self._catalog.state.topics.get(topic)
        return self.topic_config({} if entry is None else entry.overrides)

    @property
    def group_overrides(self) -> Mapping[str, Mapping[str, str]]:
        """The settings that groups have of their own; another object after each change."""
        return self._catalog.state.group_configs

    def group_config(self, group_id: str) -> GroupConfig:
        """Return the settings of a group: its own, within the bounds in force, and the broker's."""
        return effective_group(self.server, self.group_overrides.get(group_id, {}))

    async def alter_group(self, group_id: str, values: Own) -> None:
        """Replace a group's own settings, in the same way as `edit_group`."""
        await self.edit_group(group_id, lambda _: values)

    async def edit_group(self, group_id: str, edit: Edit) -> None:
        """Change a group's own settings; the group need not exist.

        If ``edit`` raises, the error is passed on and nothing has changed.

        Raises:
            InvalidConfig: A value is wrong; the message has every fault, and nothing has changed.
            PolicyViolation: There would be too many bytes of settings; nothing has changed.
            KafkaStorageError: The catalogue could not be written; nothing has changed.
        """
        await self._changes.make(self._edit_group(group_id, edit), ("group", group_id))

    async def _edit_group(self, group_id: str, edit: Edit) -> None:
        own = self.group_overrides.get(group_id, {})
        values = edit(own)
        if values == own:
            return
        self.check_group(values)

        def change(state: CatalogState) -> None:
            state.group_configs = _replaced(
                state.group_configs, self.group_overrides, group_id, values
            )

        with self.claim(group_id, own, values):
            await self._catalog.commit(change)

    def check_group(self, values: Mapping[str, str]) -> None:
        """Check all of a group's own settings together.

        Raises:
            InvalidConfig: A value is wrong; the message has every fault.
        """
        try:
            check_group(self.server, values)
        except ConfigError as error:
            raise InvalidConfig(str(error)) from error

    @property
    def client_metrics(self) -> Mapping[str, Mapping[str, str]]:
        """The subscriptions to metrics of clients; another object after each change."""
        return self._catalog.state.client_metrics

    async def alter_client_metrics(self, name: str, values: Own) -> None:
        """Replace the settings of a subscription, in the same way as `edit_client_metrics`."""
        await self.edit_client_metrics(name, lambda _: values)

    async def edit_client_metrics(self, name: str, edit: Edit) -> None:
        """Change the settings of a subscription; a subscription without settings is deleted.

        If ``edit`` raises, the error is passed on and nothing has changed.

        Raises:
            PolicyViolation: There would be too many subscriptions, or too many bytes of settings;
                nothing has changed.
            KafkaStorageError: The catalogue could not be written; nothing has changed.
        """
        await self._changes.make(self._edit_client_metrics(name, edit), ("metrics", name))

    async def _edit_client_metrics(self, name: str, edit: Edit) -> None:
        known = self.client_metrics
        own = known.get(name, {})
        values = edit(own)
        if values == own:
            return
        if values and name not in known:
            self.limits.check(Limit.SUBSCRIPTIONS, len(known.keys() | self._coming | {name}))

        def change(state: CatalogState) -> None:
            state.client_metrics = _replaced(
                state.client_metrics, self.client_metrics, name, values
            )

        with self.claim(name, own, values):
            self._coming.add(name)
            try:
                await self._catalog.commit(change)
            finally:
                self._coming.discard(name)

    def check_size(self, name: str, before: Mapping[str, str], after: Mapping[str, str]) -> int:
        """Return how many bytes more a change of settings takes; refuse the change if too many.

        Raises:
            PolicyViolation: configs.max.bytes would be exceeded.
        """
        more = max(0, _size_of(name, after) - _size_of(name, before))
        if more:
            self.limits.check(Limit.CONFIG_BYTES, self._count_bytes() + self._coming_bytes + more)
        return more

    @contextmanager
    def claim(
        self, name: str, before: Mapping[str, str], after: Mapping[str, str]
    ) -> Iterator[None]:
        """Count settings that are about to be written.

        Raises:
            PolicyViolation: There is no room for the settings.
        """
        more = self.check_size(name, before, after)
        self._coming_bytes += more
        try:
            yield
        finally:
            self._coming_bytes -= more

    def _count_bytes(self) -> int:
        """Return how many bytes all settings of topics, groups and subscriptions take."""
        state = self._catalog.state
        if self._counted is not state:
            self._counted = state
            owners = chain(state.group_configs.items(), state.client_metrics.items())
            self._config_bytes = sum(_size_of(*each) for each in owners) + sum(
                _size_of(name, topic.overrides)
                for name, topic in state.topics.items()
                if topic.overrides
            )
        return self._config_bytes

    def check_topic(self, topic: str, overrides: Mapping[str, str]) -> None:
        """Check all of a topic's own settings together; log those that have no effect here.

        Raises:
            InvalidConfig: A value is wrong; the message has every fault.
        """
        try:
            warnings = self.layers.check_topic(overrides)
        except ConfigError as error:
            raise InvalidConfig(str(error)) from error
        for warning in warnings:
            _logger.warning("setting of topic %s: %s", topic, warning)

    def check_dynamic(self, values: Mapping[str, str], *, cluster: bool) -> None:
        """Check all dynamic values of this broker, or of the cluster, together.

        Raises:
            InvalidRequest: A value is wrong; the message has every fault. (Kafka's code for
                settings of brokers.)
        """
        try:
            warnings = self.layers.check_dynamic(values, cluster=cluster)
        except ConfigError as error:
            raise InvalidRequest(str(error)) from error
        for warning in warnings:
            _logger.warning("dynamic setting: %s", warning)

    def assume(self, *, cluster: Own, broker: Own) -> None:
        """Set dynamic values that follow from other values; no callback is called.

        These values are written with the next change; until then a start derives them again. Once
        clients may alter settings, call this through `between`.
        """
        self._replace(self.layers.with_dynamic(cluster=cluster, broker=broker))

    async def between(self, call: Callable[[], None]) -> None:
        """Call ``call`` while no change of a broker's dynamic values is under way."""

        async def make() -> None:
            call()

        await self._changes.make(make(), "broker")

    async def alter(self, *, cluster: Own | None = None, broker: Own | None = None) -> None:
        """Replace the dynamic values of the cluster or of this broker, in the same way as `edit`.

        None keeps the present values.
        """
        await self.edit(lambda layers: layers.with_dynamic(cluster=cluster, broker=broker))

    async def edit(self, edit: Callable[[Layers], Layers]) -> None:
        """Change dynamic values: ``edit`` gets the layers in force and returns the layers after.

        If ``edit`` raises, the error is passed on and nothing has changed. The change is completed
        even if the client disconnects.

        Raises:
            ConfigError: A value does not parse or is out of range; nothing has changed.
            KafkaStorageError: The catalogue could not be written; the change is undone.
        """
        await self._changes.make(self._edit(edit), "broker")

    async def close(self) -> None:
        """Wait until every change that was begun has ended."""
        await self._changes.finish()

    async def reload(self, layers: Layers) -> None:
        """Put layers in force whose static values were read again; dynamic values stay the same.

        The differences are logged, as for any change.
        """
        await self._put_in_force(layers)

    async def check(self, edit: Callable[[Layers], Layers]) -> Layers:
        """Return the result of an edit of the settings in force, without changing them.

        Raises:
            InvalidRequest: The result names something that cannot be used, such as a file.
        """
        while True:
            before = self.layers
            after = edit(before)
            try:
                for check in self._checks:
                    await check(after)
            except ConfigError as error:
                raise InvalidRequest(str(error)) from error
            if self.layers is before:  # otherwise the static values were read again meanwhile
                return after

    async def _edit(self, edit: Callable[[Layers], Layers]) -> None:
        after = await self.check(edit)
        before = self.layers
        if after is before:
            return

        def change(state: CatalogState) -> None:
            state.cluster_configs = after.cluster
            state.broker_configs = after.broker

        await self._put_in_force(after)
        try:
            await self._catalog.commit(change)
        except KafkaStorageError:
            if self.layers is not after:  # the static values were read again meanwhile
                dynamic = {"cluster": before.cluster, "broker": before.broker}
                before = self.layers.with_dynamic(**dynamic)
            await self._put_in_force(before)
            raise

    async def _put_in_force(self, layers: Layers) -> None:
        before = self.layers
        self._replace(layers)
        _tell_differences(before, layers)
        async with self._telling:  # the callbacks of a later change run later
            for callback in self._callbacks:
                await callback()

    def _replace(self, layers: Layers) -> None:
        self.layers = layers
        self._topic_configs = {}


def _size_of(name: str, own: Mapping[str, str]) -> int:
    """Return how many bytes own settings take, with their owner's name; 0 without settings."""
    return sum(_SETTING_BYTES + len(each) + len(own[each]) for each in own) + len(name) * bool(own)


def _replaced(
    draft: Mapping[str, Mapping[str, str]],
    known: Mapping[str, Mapping[str, str]],
    name: str,
    own: Mapping[str, str],
) -> Mapping[str, Mapping[str, str]]:
    """Return all settings, with those of one name replaced; copy the mapping once a write."""
    copied = dict(draft) if draft is known or not isinstance(draft, dict) else draft
    copied.pop(name, None)
    if own:
        copied[name] = dict(own)
    return copied


def _tell_differences(before: Layers, after: Layers) -> None:
    for name, old, new, source in find_differences(before, after):
        _logger.info("setting changed name=%s old=%s new=%s source=%r", name, old, new, source)

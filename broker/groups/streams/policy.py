"""The surroundings of a streams group for a transition: settings, topics, the time."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from siltstone.broker.groups.topic_image import TopicImage
from siltstone.broker.topics.features import Features
from siltstone.broker.topics.settings.in_force import BrokerSettings

TASK_OFFSET_INTERVAL_MS: Final = 60_000
ACCEPTABLE_RECOVERY_LAG: Final = 10_000
"""Told to members; Kafka has settings for both that it does not document."""
STANDBY_REPLICAS: Final = "num.standby.replicas"
RACK_TAGS: Final = "rack.aware.assignment.tags"


@dataclass(frozen=True, slots=True, kw_only=True)
class Policy:
    """The settings of one group; ``configs`` are those that change its assignment."""

    session_timeout_ms: int = 45_000
    heartbeat_interval_ms: int = 5000
    assignment_interval_ms: int = 1000
    initial_rebalance_delay_ms: int = 3000
    max_size: int = (1 << 31) - 1
    configs: Mapping[str, str] = field(default_factory=lambda: {STANDBY_REPLICAS: "0"})

    @property
    def standby_replicas(self) -> int:
        """How many standby tasks a stateful task has."""
        return int(self.configs[STANDBY_REPLICAS])

    @property
    def rack_tags(self) -> list[str]:
        """The client tags that every member should have."""
        return [each.strip() for each in self.configs.get(RACK_TAGS, "").split(",") if each.strip()]


def is_enabled(settings: BrokerSettings, features: Features) -> bool:
    """Tell whether the protocol of Kafka Streams is on."""
    protocols = settings.server.group_coordinator_rebalance_protocols
    return "streams" in protocols and bool(features.level("streams.version"))


class World(NamedTuple):
    """The settings and topics of one moment; ``now_ms`` is the time of day."""

    policy: Policy
    image: TopicImage
    now_ms: int


class GroupPolicies:
    """The settings by group, computed at the first request and again after a change (loop only)."""

    def __init__(self, settings: BrokerSettings) -> None:
        self._settings = settings
        self._made_for: object = None
        self._default = Policy()
        self._own: dict[str, Policy] = {}

    def of(self, group_id: str) -> Policy:
        """Return the settings of a group."""
        settings = self._settings
        edition = settings.layers, settings.group_overrides
        if self._made_for != edition:
            self._made_for = edition
            self._default = self._make("")
            self._own = {name: self._make(name) for name in settings.group_overrides}
        return self._own.get(group_id, self._default)

    def _make(self, group_id: str) -> Policy:
        own = self._settings.group_config(group_id)
        configs = {STANDBY_REPLICAS: str(own.streams_num_standby_replicas)}
        if own.streams_rack_aware_assignment_tags:
            configs[RACK_TAGS] = ",".join(own.streams_rack_aware_assignment_tags)
        return Policy(
            session_timeout_ms=own.streams_session_timeout_ms,
            heartbeat_interval_ms=own.streams_heartbeat_interval_ms,
            assignment_interval_ms=own.streams_assignment_interval_ms,
            initial_rebalance_delay_ms=own.streams_initial_rebalance_delay_ms,
            max_size=self._settings.server.group_streams_max_size,
            configs=configs,
        )

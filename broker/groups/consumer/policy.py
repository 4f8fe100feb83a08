"""The surroundings of a consumer group for a transition: settings, topics, the time."""

from dataclasses import dataclass
from typing import NamedTuple

from siltstone.broker.groups.consumer.regexes import Regexes
from siltstone.broker.groups.topic_image import TopicImage
from siltstone.broker.topics.settings.in_force import BrokerSettings


@dataclass(frozen=True, slots=True, kw_only=True)
class Policy:
    """The settings of one group; the first of ``assignors`` is the default."""

    session_timeout_ms: int = 45_000
    heartbeat_interval_ms: int = 5000
    assignment_interval_ms: int = 1000
    regex_refresh_interval_ms: int = 600_000
    max_size: int = (1 << 31) - 1
    classic_max_size: int = (1 << 31) - 1
    assignors: tuple[str, ...] = ("uniform", "range")
    may_upgrade: bool = True
    may_downgrade: bool = True

    @property
    def may_mix(self) -> bool:
        """Whether members of the classic and the consumer protocol may be in one group."""
        return self.may_upgrade or self.may_downgrade


class World(NamedTuple):
    """The settings and topics of one moment; ``now_ms`` is the time of day."""

    policy: Policy
    image: TopicImage
    regexes: Regexes
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
        server = self._settings.server
        own = self._settings.group_config(group_id)
        return Policy(
            session_timeout_ms=own.consumer_session_timeout_ms,
            heartbeat_interval_ms=own.consumer_heartbeat_interval_ms,
            assignment_interval_ms=own.consumer_assignment_interval_ms,
            regex_refresh_interval_ms=server.group_consumer_regex_refresh_interval_ms,
            max_size=server.group_consumer_max_size,
            classic_max_size=server.group_max_size,
            assignors=server.group_consumer_assignors,
            may_upgrade=server.migration_policy.may_upgrade,
            may_downgrade=server.migration_policy.may_downgrade,
        )

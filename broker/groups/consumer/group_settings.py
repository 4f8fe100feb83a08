"""The settings that each consumer group obeys: its own, and the broker's for the rest."""

from __future__ import annotations

from typing import TYPE_CHECKING

from siltstone.broker.groups.consumer.policy import Policy

if TYPE_CHECKING:
    from siltstone.broker.topics.settings.in_force import BrokerSettings


class GroupPolicies:
    """The settings by group, made when first asked for and after a change (loop only)."""

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

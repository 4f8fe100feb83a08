"""The settings of a share group, and the world that a transition sees."""

from dataclasses import dataclass
from typing import Final, NamedTuple

from siltstone.broker.groups.topic_image import TopicImage
from siltstone.broker.topics.settings.in_force import BrokerSettings

_LEAST_RETRY_MS: Final = 5000
"""The default of offsets.commit.timeout.ms, a setting that this broker does not obey."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Policy:
    """The settings of one group."""

    session_timeout_ms: int = 45_000
    heartbeat_interval_ms: int = 5000
    assignment_interval_ms: int = 1000
    initialize_retry_ms: int = 30_000
    max_size: int = 200

    @classmethod
    def of(cls, settings: BrokerSettings, group_id: str) -> "Policy":
        """Return the settings of a group as they are now."""
        server = settings.server
        own = settings.group_config(group_id)
        return cls(
            session_timeout_ms=own.share_session_timeout_ms,
            heartbeat_interval_ms=own.share_heartbeat_interval_ms,
            assignment_interval_ms=own.share_assignment_interval_ms,
            initialize_retry_ms=max(
                server.group_share_initialize_retry_interval_ms, _LEAST_RETRY_MS
            ),
            max_size=server.group_share_max_size,
        )


class World(NamedTuple):
    """The settings and topics of one moment; ``now_ms`` is the time of day."""

    policy: Policy
    image: TopicImage
    now_ms: int

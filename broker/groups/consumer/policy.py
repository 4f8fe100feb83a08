"""What a transition of a consumer group needs besides the group: settings, topics, the time."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from siltstone.broker.groups.consumer.deadlines import Deadlines
    from siltstone.broker.groups.consumer.regexes import Regexes
    from siltstone.broker.groups.topic_image import TopicImage


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
        """Whether members of both protocols may be in one group."""
        return self.may_upgrade or self.may_downgrade


class World(NamedTuple):
    """The settings, topics and deadlines of one moment; ``now_ms`` is the time of day."""

    policy: Policy
    image: TopicImage
    regexes: Regexes
    deadlines: Deadlines
    now_ms: int

"""The settings that a single consumer group may have (KIP-848), and their allowed words.

These settings are dynamic only, as in Kafka, and the group need not exist (Kafka: GroupConfig). The
broker's settings for all groups are in `config.server`.
"""

from dataclasses import dataclass
from enum import Enum

from siltstone.config.keys import Check, at_least, key

ASSIGNORS = ("uniform", "range")
PROTOCOLS = ("classic", "consumer", "share", "streams")
KNOWN_ASSIGNORS = Check(
    lambda names: bool(names) and set(names) <= set(ASSIGNORS),
    f"a list of {', '.join(ASSIGNORS)}; Kafka's plug-ins cannot be loaded",
)


class MigrationPolicy(Enum):
    """The direction in which a group with members may change its protocol."""

    DISABLED = "disabled"
    DOWNGRADE = "downgrade"
    UPGRADE = "upgrade"
    BIDIRECTIONAL = "bidirectional"

    @property
    def may_upgrade(self) -> bool:
        """Whether a classic group becomes a consumer group."""
        return self in {MigrationPolicy.UPGRADE, MigrationPolicy.BIDIRECTIONAL}

    @property
    def may_downgrade(self) -> bool:
        """Whether a consumer group becomes a classic group."""
        return self in {MigrationPolicy.DOWNGRADE, MigrationPolicy.BIDIRECTIONAL}


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupConfig:
    """The settings that a group may set itself; the broker's settings give the others."""

    # fmt: off
    consumer_session_timeout_ms: int = key(45_000,
        "How long a member of this group may be silent before it is fenced.",
        check=at_least(1), server="group.consumer.session.timeout.ms")
    consumer_heartbeat_interval_ms: int = key(5000,
        "How often the members of this group are told to heartbeat.",
        check=at_least(1), server="group.consumer.heartbeat.interval.ms")
    consumer_assignment_interval_ms: int = key(1000,
        "How long a target assignment of this group is kept at least.",
        check=at_least(0), server="group.consumer.assignment.interval.ms")
    # fmt: on

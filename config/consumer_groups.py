"""The settings of consumer groups (KIP-848): of the broker, and those that a group may have itself.

A group's own are dynamic only, as in Kafka: it need not exist to have them (Kafka: GroupConfig).
"""

from dataclasses import dataclass
from enum import Enum

from siltstone.config.keys import Check, at_least, key, one_of_any_case, some_of
from siltstone.config.transactions import TransactionConfig

ASSIGNORS = ("uniform", "range")
PROTOCOLS = ("classic", "consumer", "share", "streams")
_INTEGER_MAX = (1 << 31) - 1
_KNOWN_ASSIGNORS = Check(
    lambda names: bool(names) and set(names) <= set(ASSIGNORS) and len(set(names)) == len(names),
    f"a list of {', '.join(ASSIGNORS)}, each at most once; Kafka's plug-ins cannot be loaded",
)


class MigrationPolicy(Enum):
    """Which way a group with members may go from one protocol to the other."""

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
class ConsumerGroupConfig(TransactionConfig):
    """What groups of the consumer protocol obey; a part of `config.server`."""

    group_coordinator_rebalance_protocols: tuple[str, ...] = key(
        ("classic", "consumer", "streams"),
        "The protocols that members of groups may speak. Classic always is served; consumer is "
        "where it is named here; the others are not served.",
        check=some_of(*PROTOCOLS),
    )
    group_consumer_session_timeout_ms: int = key(
        45_000,
        "How long a member of a consumer group may be silent before it is fenced.",
        check=at_least(1),
    )
    group_consumer_min_session_timeout_ms: int = key(
        45_000, "The least that consumer.session.timeout.ms of a group may be.", check=at_least(1)
    )
    group_consumer_max_session_timeout_ms: int = key(
        60_000, "The most that consumer.session.timeout.ms of a group may be.", check=at_least(1)
    )
    group_consumer_heartbeat_interval_ms: int = key(
        5000, "How often the members of a consumer group are told to heartbeat.", check=at_least(1)
    )
    group_consumer_min_heartbeat_interval_ms: int = key(
        5000, "The least that consumer.heartbeat.interval.ms of a group may be.", check=at_least(1)
    )
    group_consumer_max_heartbeat_interval_ms: int = key(
        15_000, "The most that consumer.heartbeat.interval.ms of a group may be.", check=at_least(1)
    )
    group_consumer_assignment_interval_ms: int = key(
        1000,
        "How long a target assignment is kept at least, so that members that come together are "
        "assigned together (KIP-1263). 0: not at all.",
        check=at_least(0),
    )
    group_consumer_min_assignment_interval_ms: int = key(
        0, "The least that consumer.assignment.interval.ms of a group may be.", check=at_least(0)
    )
    group_consumer_max_assignment_interval_ms: int = key(
        15_000,
        "The most that consumer.assignment.interval.ms of a group may be.",
        check=at_least(0),
    )
    group_consumer_regex_refresh_interval_ms: int = key(
        600_000,
        "How often the regular expressions of a consumer group are matched against the topics "
        "anew, if no topic has come meanwhile.",
        check=at_least(10_000),
    )
    group_consumer_max_size: int = key(
        _INTEGER_MAX, "The most members of a consumer group.", check=at_least(1)
    )
    group_consumer_assignors: tuple[str, ...] = key(
        ASSIGNORS,
        "The assignors that members may ask for; the first is taken where none of them does.",
        check=_KNOWN_ASSIGNORS,
    )
    group_consumer_migration_policy: str = key(
        MigrationPolicy.BIDIRECTIONAL.value,
        "Which way a group with members may go from one protocol to the other while it is in use.",
        check=one_of_any_case(*(policy.value for policy in MigrationPolicy)),
    )

    @property
    def migration_policy(self) -> MigrationPolicy:
        """Which way groups may go."""
        return MigrationPolicy(self.group_consumer_migration_policy.lower())


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupConfig:
    """What one group may have of its own; the broker settings give what it has not."""

    consumer_session_timeout_ms: int = key(
        45_000,
        "How long a member of this group may be silent before it is fenced.",
        check=at_least(1),
        server="group.consumer.session.timeout.ms",
    )
    consumer_heartbeat_interval_ms: int = key(
        5000,
        "How often the members of this group are told to heartbeat.",
        check=at_least(1),
        server="group.consumer.heartbeat.interval.ms",
    )
    consumer_assignment_interval_ms: int = key(
        1000,
        "How long a target assignment of this group is kept at least.",
        check=at_least(0),
        server="group.consumer.assignment.interval.ms",
    )

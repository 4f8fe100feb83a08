"""The settings that a single group may have (KIP-848, KIP-932), and their allowed words.

These settings are dynamic only, as in Kafka, and the group need not exist (Kafka: GroupConfig). The
broker's settings for all groups are in `config.server`.
"""

from dataclasses import dataclass
from enum import Enum

from siltstone.config.keys import Check, Kind, Setting, at_least, key, one_of, settings_of
from siltstone.config.share_groups import LATEST, OFFSET_RESET

ASSIGNORS = ("uniform", "range")
SHARE_ASSIGNORS = ("simple",)
PROTOCOLS = ("classic", "consumer", "share", "streams")
KNOWN_ASSIGNORS = Check(
    lambda names: bool(names) and set(names) <= set(ASSIGNORS),
    f"a list of {', '.join(ASSIGNORS)}; Kafka's plug-ins cannot be loaded",
)

KNOWN_SHARE_ASSIGNORS = Check(
    lambda names: names == SHARE_ASSIGNORS, "simple; Kafka's plug-ins cannot be loaded"
)
NO_OWN_TOPIC = Check(
    lambda name: not name.startswith("__"), "a name that does not begin with two underscores"
)
READ_UNCOMMITTED = "read_uncommitted"
READ_COMMITTED = "read_committed"
STREAMS_ASSIGNORS = ("sticky",)
KNOWN_STREAMS_ASSIGNORS = Check(
    lambda names: names == STREAMS_ASSIGNORS, "sticky; Kafka's plug-ins cannot be loaded"
)
KNOWN_STREAMS_ASSIGNOR = Check(
    lambda name: name in {None, *STREAMS_ASSIGNORS}, "sticky; Kafka's plug-ins cannot be loaded"
)
RACK_TAGS = Check(
    lambda tags: len(tags) == len(set(tags)) and all(tags), "a list of different, not empty keys"
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
    share_session_timeout_ms: int = key(45_000,
        "How long a member of this share group may be silent before it is fenced.",
        check=at_least(1), server="group.share.session.timeout.ms")
    share_heartbeat_interval_ms: int = key(5000,
        "How often the members of this share group are told to heartbeat.",
        check=at_least(1), server="group.share.heartbeat.interval.ms")
    share_assignment_interval_ms: int = key(1000,
        "How long a target assignment of this share group is kept at least.",
        check=at_least(0), server="group.share.assignment.interval.ms")
    share_record_lock_duration_ms: int = key(30_000,
        "How long a record belongs to the member of this share group that acquired it.",
        check=at_least(1000), server="group.share.record.lock.duration.ms")
    share_delivery_count_limit: int = key(5,
        "How often a record is delivered to this share group at most.",
        check=at_least(2), server="group.share.delivery.count.limit")
    share_partition_max_record_locks: int = key(2000,
        "How many records of a partition may be in flight in this share group.",
        check=at_least(100), server="group.share.partition.max.record.locks")
    share_auto_offset_reset: str = key(LATEST,
        "Where this share group begins in a partition that it has not read yet: earliest, latest, "
        "or by_duration: and a duration of ISO 8601 before now.",
        check=OFFSET_RESET)
    share_isolation_level: str = key(READ_UNCOMMITTED,
        "Whether this share group gets records of transactions that were aborted.",
        check=one_of(READ_COMMITTED, READ_UNCOMMITTED))
    share_renew_acknowledge_enable: bool = key(True,
        "Whether members of this share group may renew the locks of their records.")
    errors_deadletterqueue_topic_name: str = key("",
        "The topic that gets the records which this share group has given up. Empty: none.",
        check=NO_OWN_TOPIC)
    errors_deadletterqueue_copy_record_enable: bool = key(False,
        "Whether that topic gets the keys and values of the records, too, not only headers that "
        "say which they are.")
    streams_session_timeout_ms: int = key(45_000,
        "How long a member of this streams group may be silent before it is fenced.",
        check=at_least(1), server="group.streams.session.timeout.ms")
    streams_heartbeat_interval_ms: int = key(5000,
        "How often the members of this streams group are told to heartbeat.",
        check=at_least(1), server="group.streams.heartbeat.interval.ms")
    streams_num_standby_replicas: int = key(0,
        "How many standby tasks each stateful task of this streams group has.",
        check=at_least(0), server="group.streams.num.standby.replicas")
    streams_initial_rebalance_delay_ms: int = key(3000,
        "How long the first assignment of this streams group waits for more members.",
        check=at_least(0), server="group.streams.initial.rebalance.delay.ms")
    streams_assignment_interval_ms: int = key(1000,
        "How long a target assignment of this streams group is kept at least.",
        check=at_least(0), server="group.streams.assignment.interval.ms")
    streams_assignor_name: str | None = key(None,
        "The assignor of this streams group, one of group.streams.assignors.",
        kind=Kind.STRING, check=KNOWN_STREAMS_ASSIGNOR)
    streams_rack_aware_assignment_tags: tuple[str, ...] = key((),
        "The client tags that every member of this streams group is asked for.",
        check=RACK_TAGS, server="group.streams.rack.aware.assignment.tags")
    # fmt: on


GROUP: dict[str, Setting] = settings_of(GroupConfig)

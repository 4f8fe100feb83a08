"""The settings of the group coordinator (Kafka: GroupCoordinatorConfig)."""

from dataclasses import dataclass

from siltstone.config.consumer_groups import ConsumerGroupConfig
from siltstone.config.keys import Kind, at_least, key


@dataclass(frozen=True, slots=True, kw_only=True)
class CoordinatorConfig(ConsumerGroupConfig):
    """What groups, committed offsets and transactions obey; a part of `config.server`."""

    group_min_session_timeout_ms: int = key(
        6000, "The shortest session that a member of a classic group may ask for."
    )
    group_max_session_timeout_ms: int = key(
        1_800_000, "The longest session that a member of a classic group may ask for."
    )
    group_initial_rebalance_delay_ms: int = key(
        3000,
        "How long an empty group waits for more members after the first; each that comes extends "
        "it, up to the rebalance timeout.",
    )
    group_max_size: int = key(
        (1 << 31) - 1, "The most members of a classic group.", check=at_least(1)
    )
    offset_metadata_max_bytes: int = key(
        4096, "The most characters of metadata that come with a committed offset."
    )
    offsets_retention_minutes: int = key(
        10_080,
        "How long committed offsets are kept after the group lost its last member, or, in a group "
        "without members of its own, after the commit.",
        check=at_least(1),
    )
    offsets_retention_check_interval_ms: int = key(
        600_000, "How often expired offsets are looked for.", kind=Kind.LONG, check=at_least(1)
    )
    offsets_topic_num_partitions: int = key(
        50,
        "How many partitions __consumer_offsets gets when it is made; not changed later.",
        check=at_least(1),
    )
    offsets_topic_segment_bytes: int = key(
        104_857_600, "segment.bytes of __consumer_offsets when it is made.", check=at_least(1)
    )

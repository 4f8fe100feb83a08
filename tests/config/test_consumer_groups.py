"""The settings of consumer groups, and what they forbid each other."""

import pytest

from siltstone.config.checks import start_faults
from siltstone.config.consumer_groups import MigrationPolicy
from siltstone.config.errors import ConfigError
from siltstone.config.layers import Given, Layers
from siltstone.config.server import ServerConfig


def read(name: str, value: str) -> ServerConfig:
    """Return the settings with one of them given."""
    return Layers(static={name: Given(value, "test")}).server()


@pytest.mark.parametrize(
    ("settings", "named"),
    [
        ({"session_timeout_ms": 44_999}, "group.consumer.session.timeout.ms"),
        ({"session_timeout_ms": 60_001}, "group.consumer.session.timeout.ms"),
        ({"heartbeat_interval_ms": 4999}, "group.consumer.heartbeat.interval.ms"),
        ({"assignment_interval_ms": 15_001}, "group.consumer.assignment.interval.ms"),
        ({"min_session_timeout_ms": 1, "session_timeout_ms": 5000},
         "group.consumer.heartbeat.interval.ms"),
    ],
)  # fmt: skip
def test_values_out_of_their_bounds_stop_a_start(settings: dict[str, int], named: str) -> None:
    """As in Kafka: the bounds of groups hold for the broker's own values, too."""
    config = ServerConfig(**{f"group_consumer_{name}": value for name, value in settings.items()})  # type: ignore[arg-type]

    assert [name for name, _ in start_faults(config)] == [named]


@pytest.mark.parametrize(
    ("settings", "named"),
    [
        ({"session_timeout_ms": 44_999}, "group.share.session.timeout.ms"),
        ({"record_lock_duration_ms": 60_001}, "group.share.record.lock.duration.ms"),
        ({"delivery_count_limit": 5, "max_delivery_count_limit": 4},
         "group.share.delivery.count.limit"),
        ({"partition_max_record_locks": 4001}, "group.share.partition.max.record.locks"),
        ({"max_size": 300, "max_share_sessions": 299}, "group.share.max.share.sessions"),
    ],
)  # fmt: skip
def test_values_of_share_groups_out_of_their_bounds_stop_a_start(
    settings: dict[str, int], named: str
) -> None:
    """As in Kafka (ShareGroupConfig.validate)."""
    config = ServerConfig(**{f"group_share_{name}": value for name, value in settings.items()})  # type: ignore[arg-type]

    assert [name for name, _ in start_faults(config)] == [named]


def test_short_times_are_possible_with_low_floors() -> None:
    """Test suites run with heartbeats of 100 ms."""
    config = ServerConfig(
        group_consumer_min_session_timeout_ms=1000,
        group_consumer_session_timeout_ms=1000,
        group_consumer_min_heartbeat_interval_ms=100,
        group_consumer_heartbeat_interval_ms=100,
        group_consumer_assignment_interval_ms=0,
    )

    assert start_faults(config) == []


@pytest.mark.parametrize("policy", MigrationPolicy)
def test_the_migration_policy_is_read_whatever_its_case(policy: MigrationPolicy) -> None:
    """Kafka takes capitals, too."""
    config = read("group.consumer.migration.policy", policy.value.upper())

    assert config.migration_policy is policy


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("group.consumer.assignors", "sticky"),
        ("group.consumer.assignors", ""),
        ("group.consumer.migration.policy", "sideways"),
        ("group.coordinator.rebalance.protocols", "modern"),
        ("group.consumer.max.size", "0"),
        ("group.share.assignors", "sticky"),
        ("group.share.max.size", "1001"),
        ("share.coordinator.snapshot.update.records.per.snapshot", "501"),
    ],
)
def test_what_is_refused(name: str, value: str) -> None:
    """Assignors that do not exist, policies and protocols that nobody knows."""
    with pytest.raises(ConfigError, match=name):
        read(name, value)

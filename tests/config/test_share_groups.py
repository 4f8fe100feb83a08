"""The settings of one share group: the words, the broker's bounds, and where a queue begins."""

import pytest

from siltstone.config.errors import ConfigError
from siltstone.config.group_settings import check_group, effective_group
from siltstone.config.server import ServerConfig
from siltstone.config.share_groups import parse_offset_reset


@pytest.mark.parametrize(
    ("text", "word", "duration_ms"),
    [
        ("earliest", "earliest", 0),
        ("LATEST", "latest", 0),
        ("by_duration:PT1H", "by_duration", 3_600_000),
        ("by_duration:P1DT2H3M4.567S", "by_duration", 93_784_567),
        ("by_duration:P2D", "by_duration", 172_800_000),
    ],
)
def test_where_a_queue_begins(text: str, word: str, duration_ms: int) -> None:
    """Durations are read as Java's Duration.parse reads them."""
    assert parse_offset_reset(text) == (word, duration_ms)


@pytest.mark.parametrize(
    "text",
    ["", "none", "by_duration", "by_duration:", "by_duration:PT", "by_duration:P", "by_duration:1H",
     "by_duration:PT-1H", "by_duration:-PT1H", "by_duration:P1DT", "by_duration:P1M",
     "earliest:PT1H"],
)  # fmt: skip
def test_texts_without_a_meaning(text: str) -> None:
    """Kafka refuses negative durations, too."""
    with pytest.raises(ValueError):  # noqa: PT011 - the words are those of the setting's check
        parse_offset_reset(text)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("share.session.timeout.ms", "44999"),
        ("share.record.lock.duration.ms", "60001"),
        ("share.delivery.count.limit", "11"),
        ("share.partition.max.record.locks", "99"),
        ("share.auto.offset.reset", "by_duration:PT-1S"),
        ("share.isolation.level", "READ_COMMITTED"),
        ("share.renew.acknowledge.enable", "perhaps"),
        ("errors.deadletterqueue.topic.name", "__letters"),
        ("share.surprise", "1"),
    ],
)
def test_values_that_a_group_may_not_have(name: str, value: str) -> None:
    """The broker's bounds hold when a value is set."""
    with pytest.raises(ConfigError, match=name):
        check_group(ServerConfig(), {name: value})


def test_bounds_that_changed_later_limit_what_is_used() -> None:
    """A value that was set under other bounds is brought within those in force."""
    own = {"share.record.lock.duration.ms": "60000", "share.delivery.count.limit": "9"}
    server = ServerConfig(
        group_share_max_record_lock_duration_ms=30_000, group_share_max_delivery_count_limit=5
    )

    group = effective_group(server, own)

    assert group.share_record_lock_duration_ms == 30_000
    assert group.share_delivery_count_limit == 5
    assert group.share_auto_offset_reset == "latest"


def test_a_session_must_be_longer_than_a_heartbeat() -> None:
    """As for consumer groups."""
    server = ServerConfig(group_share_min_session_timeout_ms=5000)

    with pytest.raises(ConfigError, match=r"share\.session\.timeout\.ms must exceed"):
        check_group(server, {"share.session.timeout.ms": "5000"})

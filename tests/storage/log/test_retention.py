"""Which segments retention dooms: the rules of docs/log.md, without files."""

from typing import Any, NamedTuple

import pytest

from siltstone.config.topic import TopicConfig
from siltstone.storage.log.retention import find_doomed

NOW = 1_000_000


class Facts(NamedTuple):
    """A segment as retention sees it."""

    base_offset: int
    size: int
    largest_timestamp: int


def _segments(*ages_ms: int, size: int = 100) -> list[Any]:
    return [Facts(10 * index, size, NOW - age_ms) for index, age_ms in enumerate(ages_ms)]


def _count(segments: list[Any], config: TopicConfig, log_start_offset: int = 0) -> int:
    doomed = find_doomed(segments, config, now_ms=NOW, log_start_offset=log_start_offset)
    return sum(each.segments for each in doomed)


@pytest.mark.parametrize(
    ("ages_ms", "count"),
    [((101, 101, 50), 2), ((100, 500), 0), ((101, 50, 101), 1), ((101, 102, 103), 3)],
    ids=["oldest", "equal stays", "a younger one blocks", "the active one too"],
)
def test_retention_by_time(ages_ms: tuple[int, ...], count: int) -> None:
    """A segment goes when its newest record is older than retention.ms, and nothing older stays."""
    assert _count(_segments(*ages_ms), TopicConfig(retention_ms=100)) == count


def test_a_future_timestamp_blocks(tmp_path: object) -> None:
    """A segment with a record from the future stays, and all that follow with it."""
    assert _count(_segments(-5_000, 900, 900), TopicConfig(retention_ms=100)) == 0


@pytest.mark.parametrize(
    ("limit", "count"), [(300, 0), (299, 0), (200, 1), (150, 1), (0, 3), (-1, 0)]
)
def test_retention_by_size(limit: int, count: int) -> None:
    """Never less than retention.bytes stays; a negative one is no limit."""
    config = TopicConfig(retention_ms=-1, retention_bytes=limit)

    assert _count(_segments(0, 0, 0), config) == count


def test_an_empty_active_segment_stays() -> None:
    """There is nothing to gain from deleting it."""
    segments = [*_segments(500, 500), Facts(20, 0, NOW - 500)]

    assert _count(segments, TopicConfig(retention_ms=100)) == 2


def test_log_start_offset_frees_segments_below() -> None:
    """Segments that end at or below it go, even without delete in the policy; the last never."""
    config = TopicConfig(cleanup_policy=("compact",), retention_ms=0)

    assert _count(_segments(500, 500, 500), config, log_start_offset=20) == 2
    assert _count(_segments(500, 500, 500), config, log_start_offset=19) == 1
    assert _count(_segments(500, 500, 500), config, log_start_offset=30) == 2


def test_log_start_offset_at_an_empty_active_segment() -> None:
    """The segment before an empty active one is not the last one."""
    segments = [*_segments(0), Facts(10, 0, NOW)]

    assert _count(segments, TopicConfig(retention_ms=-1), log_start_offset=10) == 1


def test_rules_follow_each_other() -> None:
    """Start offset, size and time each take what the one before left, and say so."""
    segments = _segments(50, 50, 500, 50, 50)

    doomed = find_doomed(
        segments,
        TopicConfig(retention_ms=100, retention_bytes=300),
        now_ms=NOW,
        log_start_offset=10,
    )

    assert [(each.segments, each.reason) for each in doomed] == [
        (1, "log start offset 10"),
        (1, "retention.bytes=300"),
        (1, "retention.ms=100"),
    ]

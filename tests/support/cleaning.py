"""Logs as the cleaner's selection sees them, without a file."""

from dataclasses import dataclass
from typing import Any

from siltstone.cleaner.selection import LogSnapshot
from siltstone.config.topic import TopicConfig
from siltstone.storage.topic_partition import TopicPartition

NOW = 1_700_000_000_000
DAY = 86_400_000


@dataclass
class FakeSegment:
    """A segment of ten offsets."""

    base_offset: int
    size: int = 100
    largest_timestamp: int = NOW - DAY
    first_batch_timestamp: int = NOW - DAY


def snapshot(
    *segments: Any,
    checkpoint: int | None = None,
    log_start_offset: int = 0,
    last_stable_offset: int | None = None,
    partition: int = 0,
    **config: Any,
) -> LogSnapshot:
    """Return a log of these segments, the last of which is the active one, ten offsets long."""
    end_offset = segments[-1].base_offset + 10
    return LogSnapshot(
        topic_partition=TopicPartition("orders", partition),
        config=TopicConfig(cleanup_policy=("compact",), **config),
        log_start_offset=log_start_offset,
        log_end_offset=end_offset,
        last_stable_offset=end_offset if last_stable_offset is None else last_stable_offset,
        segments=segments,
        checkpoint=checkpoint,
    )


def four(**fields: int) -> list[Any]:
    """Return segments 0, 10, 20 and the active 30."""
    return [FakeSegment(base, **fields) for base in (0, 10, 20, 30)]

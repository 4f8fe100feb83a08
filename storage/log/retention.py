"""Decides which segments of a log to delete (Kafka: ``UnifiedLog.deletableSegments``).

Each rule walks from the oldest segment on and stops at the first segment that has to stay, so it
deletes a prefix of the log. By size and time the active segment may go, too: a topic without new
records becomes empty after ``retention.ms``; its log rolls just before. No file is changed here.
"""

from collections.abc import Sequence
from typing import NamedTuple

from siltstone.config.topic import TopicConfig
from siltstone.storage.segment.readable import ReadableSegment


class Doomed(NamedTuple):
    """How many of the oldest segments are deleted by the rule that ``reason`` names."""

    segments: int
    reason: str


def find_doomed(
    segments: Sequence[ReadableSegment], config: TopicConfig, *, now_ms: int, log_start_offset: int
) -> list[Doomed]:
    """Return how many segments each rule deletes after the segments of the rules before it.

    The order is Kafka's: log start offset (KAFKA-12177), then size, then time. Without ``delete``
    in the policy only the log start offset counts. With one replica the high watermark is the log
    end offset, so every segment except an empty last one is below it (KAFKA-5634).
    """
    doomed = [Doomed(_below(segments, log_start_offset), f"log start offset {log_start_offset}")]
    if config.is_deleted:
        rest = segments[doomed[0].segments :]
        if not rest[-1].size:
            rest = rest[:-1]
        over_size = _over_size(rest, config.retention_bytes)
        doomed.append(Doomed(over_size, f"retention.bytes={config.retention_bytes}"))
        over_age = _over_age(rest[over_size:], config.retention_ms, now_ms)
        doomed.append(Doomed(over_age, f"retention.ms={config.retention_ms}"))
    return [each for each in doomed if each.segments]


def _below(segments: Sequence[ReadableSegment], log_start_offset: int) -> int:
    """Count the segments that end at or below the log start offset; never the last one."""
    count = 0
    while count + 1 < len(segments) and segments[count + 1].base_offset <= log_start_offset:
        count += 1
    return count


def _over_size(segments: Sequence[ReadableSegment], retention_bytes: int) -> int:
    """Count the oldest segments to delete so that ``retention_bytes`` are left; 0 if negative."""
    if retention_bytes < 0:
        return 0
    excess = sum(segment.size for segment in segments) - retention_bytes
    count = 0
    while count < len(segments) and excess >= segments[count].size:
        excess -= segments[count].size
        count += 1
    return count


def _over_age(segments: Sequence[ReadableSegment], retention_ms: int, now_ms: int) -> int:
    """Count the oldest segments whose records are all past ``retention_ms``; 0 if negative."""
    if retention_ms < 0:
        return 0
    count = 0
    while count < len(segments) and now_ms - segments[count].largest_timestamp > retention_ms:
        count += 1
    return count

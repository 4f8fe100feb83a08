"""The offsets of the logs in a directory, as its checkpoints have them."""

from collections.abc import Callable, Iterable
from typing import TypeAlias

from siltstone.storage.directory.log_directory import LogDirectory
from siltstone.storage.log.log import Log
from siltstone.storage.moving.future_log import FutureLog
from siltstone.storage.topic_partition import TopicPartition

AnyLog: TypeAlias = Log | FutureLog
"""As in Kafka, an unfinished copy is in the checkpoints of its new directory."""


def recovery_points(directory: LogDirectory, logs: Iterable[AnyLog]) -> dict[TopicPartition, int]:
    """Collect the recovery points of the logs in a directory, as they are noted."""
    return _collect(directory, logs, noted_recovery_point)


def noted_recovery_point(log: AnyLog) -> int:
    """Return the recovery point as a start may go by it, after a roll too.

    That of a segment that has not ended stays below the segment's end. The start scans it from its
    base anyway; and if it ends there before the file is written again, its last index entries, and
    a cut of torn bytes behind it, are not on the disk yet.
    """
    active = log.segments[-1]  # first: a roll lowers the recovery point before it shows its segment
    recovery_point = log.recovery_point
    return recovery_point - (recovery_point > active.base_offset)


def log_starts(directory: LogDirectory, logs: Iterable[AnyLog]) -> dict[TopicPartition, int]:
    """Collect the log start offsets that the first segments on the disk do not tell.

    Above the recovery point a power failure may bring deleted segments back, torn. Then the log
    would end below its start, and offsets would be given out again.
    """
    return _collect(directory, logs, _own_start)


def high_watermarks(directory: LogDirectory, logs: Iterable[AnyLog]) -> dict[TopicPartition, int]:
    """Collect the high watermarks of the logs in a directory."""
    return _collect(directory, logs, lambda log: log.high_watermark)


def _collect(
    directory: LogDirectory, logs: Iterable[AnyLog], offset_of: Callable[[AnyLog], int | None]
) -> dict[TopicPartition, int]:
    """Return the offsets; a log that moves meanwhile belongs to the other directory."""
    offsets: dict[TopicPartition, int] = {}
    for log in logs:
        if log.directory is directory:
            offset = offset_of(log)
            if offset is not None and log.directory is directory:
                offsets[log.topic_partition] = offset
    return offsets


def _own_start(log: AnyLog) -> int | None:
    start = log.log_start_offset
    sure = min(log.segments[0].base_offset, log.recovery_point)
    return start if start > sure else None

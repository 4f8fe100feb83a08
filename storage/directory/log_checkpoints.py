"""The offset checkpoints of one log directory (docs/on-disk-format.md).

Recovery points are written after the data below them was fsynced, so after a crash they are too low
at worst.
"""

import threading
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import TypeAlias

from siltstone.storage import files
from siltstone.storage.directory.checkpoint import OffsetCheckpoint
from siltstone.storage.directory.log_directory import LogDirectory
from siltstone.storage.log.log import Log
from siltstone.storage.moving.future_log import FutureLog
from siltstone.storage.topic_partition import TopicPartition

AnyLog: TypeAlias = Log | FutureLog
"""As in Kafka, an unfinished copy is in the checkpoints of its new directory."""


Collect: TypeAlias = Callable[[], Mapping[TopicPartition, int]]
"""Returns the offsets as they are now."""


class LogCheckpoints:
    """The three files of a log directory. Any thread writes, one at a time.

    The writing thread collects the offsets, so that the file has those of the last call: offsets
    collected before cannot bring a deleted partition back.
    """

    __slots__ = ("_high_watermarks", "_lock", "_log_starts", "_recovery_points", "_written")

    def __init__(self, directory: Path) -> None:
        self._lock = threading.Lock()
        self._recovery_points = OffsetCheckpoint(directory, files.RECOVERY_POINTS)
        self._log_starts = OffsetCheckpoint(directory, files.LOG_START_OFFSETS)
        self._high_watermarks = OffsetCheckpoint(directory, files.HIGH_WATERMARKS)
        self._written: dict[Path, Mapping[TopicPartition, int]] = {}  # guarded by: _lock

    def read_recovery_points(self) -> dict[TopicPartition, int]:
        """Return the offset below which each partition is on the disk."""
        return self._read(self._recovery_points)

    def read_log_starts(self) -> dict[TopicPartition, int]:
        """Return the log start offsets that are not their first segment's."""
        return self._read(self._log_starts)

    def names(self, topic_partition: TopicPartition) -> bool:
        """Tell whether a partition has a recovery point or a log start offset in a file."""
        files = (self._recovery_points.path, self._log_starts.path)
        with self._lock:
            return any(topic_partition in self._written.get(path, ()) for path in files)

    def write_recovery_points(self, collect: Collect) -> None:
        """Replace the file if anything in it has changed. Blocks."""
        self._write(self._recovery_points, collect)

    def write_log_starts(self, collect: Collect) -> None:
        """Replace the file if anything in it has changed. Blocks."""
        self._write(self._log_starts, collect)

    def write_high_watermarks(self, collect: Collect) -> None:
        """Replace the file if anything in it has changed. Blocks.

        Only Kafka's broker reads it: here the log end offset is the high watermark.
        """
        self._write(self._high_watermarks, collect)

    def _read(self, checkpoint: OffsetCheckpoint) -> dict[TopicPartition, int]:
        offsets = checkpoint.read_or_empty()
        with self._lock:
            self._written[checkpoint.path] = dict(offsets)
        return offsets

    def _write(self, checkpoint: OffsetCheckpoint, collect: Collect) -> None:
        with self._lock:
            offsets = collect()
            if self._written.get(checkpoint.path) != offsets:
                checkpoint.write(offsets)
                self._written[checkpoint.path] = offsets


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

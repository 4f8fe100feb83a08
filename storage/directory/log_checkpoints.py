"""The offset checkpoints of one log directory (docs/on-disk-format.md).

A recovery point is written after the data below it was fsynced, so after a crash it may be too low
but never too high.
"""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TypeAlias

from siltstone.storage import files, threads
from siltstone.storage.directory.checkpoint import OffsetCheckpoint
from siltstone.storage.topic_partition import TopicPartition

Collect: TypeAlias = Callable[[], Mapping[TopicPartition, int]]
"""Returns the offsets as they are now."""


class LogCheckpoints:
    """The three files of a log directory. Any thread may write, one at a time.

    The writing thread collects the offsets itself while it holds the lock. So a file always has the
    offsets of the last call, and older offsets cannot bring a deleted partition back.
    """

    __slots__ = ("_high_watermarks", "_lock", "_log_starts", "_recovery_points", "_written")

    def __init__(self, directory: Path) -> None:
        self._lock = threads.Lock()
        self._recovery_points = OffsetCheckpoint(directory, files.RECOVERY_POINTS)
        self._log_starts = OffsetCheckpoint(directory, files.LOG_START_OFFSETS)
        self._high_watermarks = OffsetCheckpoint(directory, files.HIGH_WATERMARKS)
        self._written: dict[Path, Mapping[TopicPartition, int]] = {}  # guarded by: _lock

    def read_recovery_points(self) -> dict[TopicPartition, int]:
        """Return the offset below which each partition is on the disk."""
        return self._read(self._recovery_points)

    def read_log_starts(self) -> dict[TopicPartition, int]:
        """Return the log start offsets that differ from the base of the first segment."""
        return self._read(self._log_starts)

    def names(self, topic_partition: TopicPartition) -> bool:
        """Tell whether a file has a recovery point or a log start offset of a partition."""
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

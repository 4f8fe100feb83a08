"""The offset checkpoints of one log directory (docs/on-disk-format.md).

Recovery points are written after the data below them was fsynced, so after a crash they are too low
at worst. The event loop collects the offsets; the background thread writes them, if they changed.
"""

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TypeAlias

from siltstone.storage import files
from siltstone.storage.directory.checkpoint import OffsetCheckpoint
from siltstone.storage.log.log import Log
from siltstone.storage.moving.future_log import FutureLog
from siltstone.storage.topic_partition import TopicPartition

AnyLog: TypeAlias = Log | FutureLog
"""As in Kafka, an unfinished copy is in the checkpoints of its new directory."""


class LogCheckpoints:
    """The three files. One thread writes: the background thread, or the stop after its end."""

    __slots__ = ("_high_watermarks", "_log_starts", "_recovery_points", "_written")

    def __init__(self, directory: Path) -> None:
        self._recovery_points = OffsetCheckpoint(directory, files.RECOVERY_POINTS)
        self._log_starts = OffsetCheckpoint(directory, files.LOG_START_OFFSETS)
        self._high_watermarks = OffsetCheckpoint(directory, files.HIGH_WATERMARKS)
        self._written: dict[Path, Mapping[TopicPartition, int]] = {}

    def read_recovery_points(self) -> dict[TopicPartition, int]:
        """Return the offset below which each partition is on the disk."""
        return self._read(self._recovery_points)

    def read_log_starts(self) -> dict[TopicPartition, int]:
        """Return the log start offsets that are not their first segment's."""
        return self._read(self._log_starts)

    def write_recovery_points(self, offsets: Mapping[TopicPartition, int]) -> None:
        """Replace the file if anything in it has changed. Blocks."""
        self._write(self._recovery_points, offsets)

    def write_log_starts(self, offsets: Mapping[TopicPartition, int]) -> None:
        """Replace the file if anything in it has changed. Blocks."""
        self._write(self._log_starts, offsets)

    def write_high_watermarks(self, offsets: Mapping[TopicPartition, int]) -> None:
        """Replace the file if anything in it has changed. Blocks.

        Only Kafka's broker reads it: here the log end offset is the high watermark.
        """
        self._write(self._high_watermarks, offsets)

    def _read(self, checkpoint: OffsetCheckpoint) -> dict[TopicPartition, int]:
        offsets = checkpoint.read_or_empty()
        self._written[checkpoint.path] = dict(offsets)
        return offsets

    def _write(self, checkpoint: OffsetCheckpoint, offsets: Mapping[TopicPartition, int]) -> None:
        if self._written.get(checkpoint.path) != offsets:
            checkpoint.write(offsets)
            self._written[checkpoint.path] = offsets


def recovery_points(logs: Iterable[AnyLog]) -> dict[TopicPartition, int]:
    """Collect the recovery points of logs."""
    return {log.topic_partition: log.recovery_point for log in logs}


def log_starts(logs: Iterable[AnyLog]) -> dict[TopicPartition, int]:
    """Collect the log start offsets that differ from the first segment's base."""
    return {
        log.topic_partition: log.log_start_offset
        for log in logs
        if log.log_start_offset > log.segments[0].base_offset
    }


def high_watermarks(logs: Iterable[AnyLog]) -> dict[TopicPartition, int]:
    """Collect the high watermarks of logs."""
    return {log.topic_partition: log.high_watermark for log in logs}

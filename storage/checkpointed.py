"""The offsets of a directory's logs, in the form in which the checkpoints store them."""

from collections.abc import Callable, Iterable, Mapping
from typing import Final, TypeAlias

from siltstone.storage import files
from siltstone.storage.directory.log_directory import LogDirectory
from siltstone.storage.log.log import Log
from siltstone.storage.moving.future_log import FutureLog
from siltstone.storage.topic_partition import TopicPartition

AnyLog: TypeAlias = Log | FutureLog
"""As in Kafka, an unfinished copy is in the checkpoints of its new directory."""


def noted_recovery_point(log: AnyLog) -> int:
    """Return a recovery point that a start may rely on, even if the log rolls meanwhile.

    A recovery point inside the active segment is lowered by one, so that it stays below the
    segment's end. A start scans the active segment from its base anyway. If the segment ends before
    the checkpoint is written again, its last index entries, and a cut of torn bytes after its end,
    are not on the disk yet.
    """
    active = log.segments[-1]  # read before the recovery point, since a roll lowers that first
    recovery_point = log.recovery_point
    return recovery_point - (recovery_point > active.base_offset)


def _own_start(log: AnyLog) -> int | None:
    """Return a log start offset that does not follow from the first segment on the disk.

    A segment that the disk has refused to rename is found by a start, and would be readable again.
    Above the recovery point a power failure may bring deleted segments back, torn. Then the log
    would end below its start, and would assign offsets a second time.
    """
    start = log.log_start_offset
    sure = 0 if log.has_old_names else min(log.segments[0].base_offset, log.recovery_point)
    return start if start > sure else None


_OFFSET_OF: Final[Mapping[str, Callable[[AnyLog], int | None]]] = {
    files.RECOVERY_POINTS: noted_recovery_point,
    files.LOG_START_OFFSETS: _own_start,
    files.HIGH_WATERMARKS: lambda log: log.high_watermark,
}


def collect(
    name: str, directory: LogDirectory, logs: Iterable[AnyLog]
) -> dict[TopicPartition, int]:
    """Return the offsets for the checkpoint ``name``.

    Those of a log that moves to another directory meanwhile are left out.
    """
    offset_of = _OFFSET_OF[name]
    offsets: dict[TopicPartition, int] = {}
    for log in logs:
        if log.directory is directory:
            offset = offset_of(log)
            if offset is not None and log.directory is directory:
                offsets[log.topic_partition] = offset
    return offsets

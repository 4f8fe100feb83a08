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

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._lock = threads.Lock()
        self._written: dict[str, Mapping[TopicPartition, int]] = {}  # guarded by: _lock

    def read(self, name: str) -> dict[TopicPartition, int]:
        """Return the offsets in the file ``name``, such as `files.RECOVERY_POINTS`. Blocks."""
        offsets = OffsetCheckpoint(self._directory, name).read_or_empty()
        with self._lock:
            self._written[name] = dict(offsets)
        return offsets

    def names(self, topic_partition: TopicPartition) -> bool:
        """Tell whether a file has a recovery point or a log start offset of a partition."""
        with self._lock:
            return any(
                topic_partition in self._written.get(name, ())
                for name in (files.RECOVERY_POINTS, files.LOG_START_OFFSETS)
            )

    def write(self, name: str, collect: Collect) -> None:
        """Replace the file ``name`` if anything in it has changed. Blocks."""
        with self._lock:
            offsets = collect()
            if self._written.get(name) != offsets:
                OffsetCheckpoint(self._directory, name).write(offsets)
                self._written[name] = offsets

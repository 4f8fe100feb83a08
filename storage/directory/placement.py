"""Chooses a new partition's log directory: the preferred one, or that with fewest partitions."""

from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from siltstone.storage import threads
from siltstone.storage.directory.log_directory import LogDirectory
from siltstone.storage.topic_partition import TopicPartition

_MAX_PREFERENCES = 10_000
"""How many preferences for partitions that do not exist yet are kept, the newest."""


class Placement:
    """How many partitions each directory has. Any thread may call."""

    def __init__(self) -> None:
        self._lock = threads.Lock()
        self._placed: Counter[Path] = Counter()  # guarded by: _lock
        self._preferred: dict[TopicPartition, LogDirectory] = {}  # guarded by: _lock

    def add(self, directory: LogDirectory, partitions: int = 1) -> None:
        """Count partitions; a negative number takes away those that are gone."""
        with self._lock:
            self._placed[directory.path] += partitions

    def prefer(self, topic_partition: TopicPartition, directory: LogDirectory) -> None:
        """Prefer a directory for a future partition, if the directory takes writes by then."""
        with self._lock:
            self._preferred.pop(topic_partition, None)
            self._preferred[topic_partition] = directory
            if len(self._preferred) > _MAX_PREFERENCES:
                del self._preferred[next(iter(self._preferred))]

    def choose(
        self, topic_partition: TopicPartition, directories: Sequence[LogDirectory]
    ) -> LogDirectory:
        """Return the directory for one more partition, and count the partition there.

        Raises:
            KafkaStorageError: No directory takes writes.
        """
        with self._lock:
            working = [each for each in directories if each.refusal is None]
            if not working:
                raise directories[0].refuse()
            roomy = [each for each in working if each.client_refusal is None] or working
            directory = self._preferred.pop(topic_partition, None)
            if directory is None or directory not in roomy:
                directory = min(roomy, key=lambda each: self._placed[each.path])
            self._placed[directory.path] += 1
            return directory

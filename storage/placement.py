"""Which log directory a new partition goes to: of those that take writes, the one with fewest."""

import threading
from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING

from storage.log_directory import LogDirectory

if TYPE_CHECKING:
    from pathlib import Path


class Placement:
    """How many partitions each directory has. Any thread may call."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._placed: Counter[Path] = Counter()  # guarded by: _lock

    def add(self, directory: LogDirectory, partitions: int = 1) -> None:
        """Count partitions that are there; a negative number counts those that went."""
        with self._lock:
            self._placed[directory.path] += partitions

    def choose(self, directories: Sequence[LogDirectory]) -> LogDirectory:
        """Return the directory for one more partition, which is counted.

        Raises:
            KafkaStorageError: None of them takes writes.
        """
        with self._lock:
            working = [each for each in directories if each.refusal is None]
            if not working:
                raise directories[0].refuse()
            directory = min(working, key=lambda each: self._placed[each.path])
            self._placed[directory.path] += 1
            return directory

"""A partition as of one moment, for a pin, and the gate that keeps its file names still.

These are values in memory: no file is touched yet.
"""

import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from siltstone.storage import threads
from siltstone.storage.topic_partition import TopicPartition

if TYPE_CHECKING:
    from siltstone.storage.segment.segment import LogSegment


class NameGate:
    """Keeps the names of a log's files still while a pin links them (any thread).

    `hold` is for the event loop and never waits for the disk. From then on no change of names
    begins; `wait_for_changes` waits for one that is under way. So a change waits while a pin's
    files are linked.
    """

    __slots__ = ("_changes", "_condition", "_holds")

    def __init__(self) -> None:
        self._condition = threads.Condition()
        self._holds = 0  # guarded by: _condition
        self._changes = 0  # likewise

    def hold(self) -> None:
        """Let no change of names begin until `release`."""
        with self._condition:
            self._holds += 1

    def release(self) -> None:
        """Take one `hold` back."""
        with self._condition:
            self._holds -= 1
            self._condition.notify_all()

    def wait_for_changes(self) -> None:
        """Wait for a change of names that is under way; the caller holds the gate. Blocks."""
        with self._condition:
            self._condition.wait_for(lambda: not self._changes)

    @contextmanager
    def changing(self) -> Iterator[None]:
        """Change names in this block, as soon as the gate is free. Blocks."""
        with self._condition:
            self._condition.wait_for(lambda: not self._holds)
            self._changes += 1
        try:
            yield
        finally:
            with self._condition:
                self._changes -= 1
                self._condition.notify_all()


@dataclass(frozen=True, slots=True, kw_only=True)
class FrozenLog:
    """The segments that a pin will link, how far each is read, and the offsets of that moment.

    Its owner calls ``names.release()`` once, when the files are linked or will not be. The last of
    ``sizes`` is the present end of the active segment, to which more may be appended.
    """

    topic_partition: TopicPartition
    topic_id: uuid.UUID
    path: Path
    directory: Path
    segments: "tuple[LogSegment, ...]"
    sizes: tuple[int, ...]
    log_start_offset: int
    log_end_offset: int
    last_stable_offset: int
    first_dirty_offset: int
    is_compacted: bool
    delete_retention_ms: int
    names: NameGate

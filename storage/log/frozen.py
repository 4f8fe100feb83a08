"""A partition as of one moment, for a pin, and the gate that keeps its files from being renamed.

These are values in memory: this module touches no file.
"""

import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from siltstone.storage import threads
from siltstone.storage.segment.segment import LogSegment
from siltstone.storage.topic_partition import TopicPartition


class NameGate:
    """Keeps a log's files from being renamed while a pin links them (any thread).

    `hold` is for the event loop and never waits for the disk. After `hold` no change of names
    begins, and `wait_for_changes` waits for a change that is under way. Changes wait until
    `release`, when the pin's files are linked.
    """

    __slots__ = ("_changes", "_condition", "_holds")

    def __init__(self) -> None:
        self._condition = threads.Condition()
        self._holds = 0  # guarded by: _condition
        self._changes = 0  # likewise

    def hold(self) -> None:
        """Keep changes of names from beginning until `release`."""
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
        """Wait until the gate is free; the ``with`` block may then change names. Blocks."""
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
    """The segments that a pin will link, the size of each, and the offsets of that moment.

    The owner calls ``names.release()`` once, when the files are linked or will not be linked. The
    last of ``sizes`` is the present end of the active segment; later appends do not belong to the
    pin.
    """

    topic_partition: TopicPartition
    topic_id: uuid.UUID
    path: Path
    directory: Path
    segments: tuple[LogSegment, ...]
    sizes: tuple[int, ...]
    log_start_offset: int
    log_end_offset: int
    last_stable_offset: int
    first_dirty_offset: int
    is_compacted: bool
    delete_retention_ms: int
    names: NameGate

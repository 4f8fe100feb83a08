"""States of partitions that a thread works on, or that the cleaner must not take.

    none ──take──> in progress ──release──> none
                       │ abort
                       v
                    aborted ──release──> paused(n) ──resume──> none

Pauses are counted (docs/compaction.md). Unlike in Kafka, a second caller of abort waits together
with the first.
"""

from dataclasses import dataclass
from enum import StrEnum

from siltstone.cleaner.errors import CleaningAborted
from siltstone.storage import threads
from siltstone.storage.topic_partition import TopicPartition


class State(StrEnum):
    """The state of a partition; each state but NONE keeps the cleaner from taking it."""

    NONE = "none"
    IN_PROGRESS = "in progress"
    ABORTED = "aborted"
    PAUSED = "paused"


@dataclass(slots=True)
class _Entry:
    is_held: bool = False
    is_aborted: bool = False
    pauses: int = 0

    @property
    def state(self) -> State:
        if self.is_held:
            return State.ABORTED if self.is_aborted else State.IN_PROGRESS
        return State.PAUSED if self.pauses else State.NONE


class CleaningStates:
    """The states of partitions; a partition without an entry is free.

    Any thread may call. ``lock`` is the manager's: changes need it; `get` and `check` do not.
    """

    def __init__(self, lock: threads.Lock) -> None:
        self._released = threads.Condition(lock)
        self._entries: dict[TopicPartition, _Entry] = {}  # guarded by: lock

    def get(self, topic_partition: TopicPartition) -> State:
        """Return the state of a partition."""
        entry = self._entries.get(topic_partition)
        return State.NONE if entry is None else entry.state

    def check(self, topic_partition: TopicPartition) -> None:
        """Do nothing if the work on a partition may go on.

        Raises:
            CleaningAborted: The work was aborted.
        """
        entry = self._entries.get(topic_partition)
        if entry is not None and entry.is_aborted:
            raise CleaningAborted(f"cleaning of {topic_partition} was aborted")

    def take(self, topic_partition: TopicPartition) -> bool:
        """Mark a partition as in progress; false if it has a state. The caller holds the lock."""
        if topic_partition in self._entries:
            return False
        self._entries[topic_partition] = _Entry(is_held=True)
        return True

    def release(self, topic_partition: TopicPartition) -> None:
        """End the work, and wake the threads that wait for its end. The caller holds the lock."""
        entry = self._entries[topic_partition]
        entry.is_held = entry.is_aborted = False
        if not entry.pauses:
            del self._entries[topic_partition]
        self._released.notify_all()

    def abort_and_pause(self, topic_partition: TopicPartition) -> None:
        """Pause a partition, and wait until no thread works on it. Blocks."""
        with self._released:
            entry = self._entries.setdefault(topic_partition, _Entry())
            entry.pauses += 1
            entry.is_aborted = entry.is_held
            self._released.wait_for(lambda: not entry.is_held)

    def abort(self, topic_partition: TopicPartition) -> None:
        """End any work on a partition; other work may begin at once. Blocks."""
        self.abort_and_pause(topic_partition)
        self.resume(topic_partition)

    def resume(self, topic_partition: TopicPartition) -> None:
        """Take back one pause.

        Raises:
            RuntimeError: The partition is not paused.
        """
        with self._released:
            entry = self._entries.get(topic_partition)
            if entry is None or not entry.pauses:
                raise RuntimeError(f"cleaning of {topic_partition} is not paused")
            entry.pauses -= 1
            if not entry.pauses and not entry.is_held:
                del self._entries[topic_partition]

    def forget(self, topic_partition: TopicPartition) -> None:
        """Forget the pauses of a partition that is gone. The caller holds the lock."""
        entry = self._entries.get(topic_partition)
        if entry is not None and not entry.is_held:
            del self._entries[topic_partition]

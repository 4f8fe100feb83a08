"""Partitions whose last pass failed, why it failed, and when the cleaner tries them again.

Kafka marks such a partition uncleanable until the broker restarts (KAFKA-19895). Here the cleaner
tries it again after a pause that doubles, and at once when its settings change or a client asks
for a pass.
"""

from typing import NamedTuple

from siltstone.storage.clock import Clock
from siltstone.storage.topic_partition import TopicPartition

FIRST_PAUSE_SECONDS = 15.0
LONGEST_PAUSE_SECONDS = 3600.0


class Failure(NamedTuple):
    """Why a partition is set aside; times in ms since the epoch.

    ``cause`` is the name of the exception's class, ``reason`` its text.
    """

    cause: str
    reason: str
    first_ms: int
    last_ms: int
    attempts: int
    retry_ms: int


class SetAside:
    """The partitions whose pass failed; times are of the steady clock. One owner at a time."""

    def __init__(self, clock: Clock) -> None:
        self.failures: dict[TopicPartition, Failure] = {}
        self._clock = clock
        self._due: dict[TopicPartition, float] = {}

    def add(self, topic_partition: TopicPartition, error: BaseException) -> Failure:
        """Set a partition aside, for twice as long as after its last failure."""
        now_ms = self._clock.now_ms()
        before = self.failures.get(topic_partition)
        attempts = before.attempts + 1 if before else 1
        pause = min(FIRST_PAUSE_SECONDS * 2 ** min(attempts - 1, 30), LONGEST_PAUSE_SECONDS)
        failure = Failure(
            cause=type(error).__name__,
            reason=str(error) or type(error).__name__,
            first_ms=before.first_ms if before else now_ms,
            last_ms=now_ms,
            attempts=attempts,
            retry_ms=now_ms + int(pause * 1000),
        )
        self.failures[topic_partition] = failure
        self._due[topic_partition] = self._clock.monotonic() + pause
        return failure

    def holds(self, topic_partition: TopicPartition) -> bool:
        """Tell whether a partition still has to wait."""
        due = self._due.get(topic_partition)
        return due is not None and self._clock.monotonic() < due

    def take_back(self, topic_partition: TopicPartition) -> bool:
        """Let a partition be tried at once, and reset its pause; tell whether it was set aside.

        The reason of the failure is kept until a pass succeeds.
        """
        failure = self.failures.get(topic_partition)
        if failure is None:
            return False
        self.failures[topic_partition] = failure._replace(attempts=0, retry_ms=self._clock.now_ms())
        self._due.pop(topic_partition, None)
        return True

    def forget(self, topic_partition: TopicPartition) -> None:
        """Forget a partition: a pass succeeded, or it was deleted."""
        self.failures.pop(topic_partition, None)
        self._due.pop(topic_partition, None)

"""What the choice of the next log comes to."""

from dataclasses import dataclass
from typing import NamedTuple

from siltstone.cleaner.selection import CleanableLog
from siltstone.storage.log.log import Log
from siltstone.storage.topic_partition import TopicPartition


@dataclass(frozen=True, slots=True, kw_only=True)
class GrabbedLog:
    """A log that a cleaner thread has taken, and what of it is to be cleaned."""

    log: Log
    cleanable: CleanableLog
    now_ms: int
    is_requested: bool = False
    is_forced: bool = False

    @property
    def topic_partition(self) -> TopicPartition:
        """Return the partition."""
        return self.log.topic_partition


class LastSelection(NamedTuple):
    """What the last look at all logs came to, for the gauges."""

    now_ms: int
    max_dirty_ratio: float
    max_delay_ms: int

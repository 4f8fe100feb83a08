"""The batches of a producer in a partition, and the number of producers in all partitions.

Kafka: ``ProducerStateEntry``, ``BatchMetadata``, ``ProducerIdCount``.
"""

from typing import Final, NamedTuple

from siltstone.storage import threads

SEQUENCES: Final = 1 << 31
"""Sequences run from 0 to 2147483647 and begin at 0 again."""
KEPT_BATCHES: Final = 5
"""How many batches a client may have in flight, and so may send again."""
NO_LIMIT: Final = (1 << 63) - 1

PRODUCER_LIMIT: Final = "ProducerLimit"
"""A reason by which batches are counted: their producer is one too many in its partition."""
ALL_PRODUCERS_LIMIT: Final = "AllProducersLimit"
"""The same in all partitions together."""


class AppendedBatch(NamedTuple):
    """One batch that is in the log; offsets and sequences are inclusive."""

    first_sequence: int
    last_sequence: int
    first_offset: int
    last_offset: int
    timestamp: int


class ProducerCount:
    """Counts the producers of all partitions, for any thread, and tells whether there is room."""

    __slots__ = ("_lock", "max_count", "value")

    def __init__(self, max_count: int = NO_LIMIT) -> None:
        self.max_count = max_count
        self.value = 0
        self._lock = threads.Lock()

    @property
    def is_full(self) -> bool:
        """Tell whether a new producer would exceed the limit."""
        return self.value >= self.max_count

    def add(self, count: int) -> None:
        """Note that a partition remembers ``count`` more producers; a negative count is fewer."""
        with self._lock:
            self.value += count

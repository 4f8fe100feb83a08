"""How many producers all partitions of a broker remember together (Kafka: ``ProducerIdCount``)."""

from typing import Final

from siltstone.storage import threads

NO_LIMIT: Final = (1 << 63) - 1


class ProducerCount:
    """Counts them, for any thread, and tells whether there is room for one more."""

    __slots__ = ("_lock", "max_count", "value")

    def __init__(self, max_count: int = NO_LIMIT) -> None:
        self.max_count = max_count
        self.value = 0
        self._lock = threads.Lock()

    @property
    def is_full(self) -> bool:
        """Whether a new producer would be one too many."""
        return self.value >= self.max_count

    def add(self, count: int) -> None:
        """Note that a partition remembers so many more; fewer, if ``count`` is negative."""
        with self._lock:
            self.value += count

"""How often logs were flushed and how long that took (Kafka: ``LogFlushStats``)."""

import threading


class FlushStats:
    """Two sums over all logs of a broker; any thread adds, any reads."""

    def __init__(self) -> None:
        self.flushes = 0
        self.seconds = 0.0
        self._lock = threading.Lock()

    def add(self, seconds: float) -> None:
        """Count one flush, also a failed one: its time counts, too."""
        with self._lock:
            self.flushes += 1
            self.seconds += seconds

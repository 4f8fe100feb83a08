"""The objects that all logs of a broker share."""

from dataclasses import dataclass, field

from siltstone.storage import threads
from siltstone.storage.clock import Clock
from siltstone.storage.directory.background import Background
from siltstone.storage.directory.deletion import DelayedDeletions
from siltstone.storage.log.end import Appends, LogEnd
from siltstone.storage.producers.entry import ProducerCount


class FlushStats:
    """How often logs were flushed, and how long; any thread adds (Kafka: ``LogFlushStats``)."""

    def __init__(self) -> None:
        self.flushes = 0
        self.seconds = 0.0
        self._lock = threads.Lock()

    def add(self, seconds: float) -> None:
        """Count one flush and its time, even if the flush failed."""
        with self._lock:
            self.flushes += 1
            self.seconds += seconds


@dataclass(frozen=True, slots=True, kw_only=True)
class LogServices:
    """The clock, the thread for file work, the delayed deletions, and the figures of all logs.

    ``producers`` counts the producers that all logs remember, and has the limit for their number.

    ``appends`` has the batches that wait to be written. ``moved_starts`` has the `LogEnd` of each
    watched log whose start has moved. Any thread may add to ``moved_starts``; the event loop
    empties it and tells the watchers.
    """

    clock: Clock
    background: Background
    deletions: DelayedDeletions
    appends: Appends = field(default_factory=Appends)
    flush_stats: FlushStats = field(default_factory=FlushStats)
    producers: ProducerCount = field(default_factory=ProducerCount)
    moved_starts: dict[LogEnd, None] = field(default_factory=dict)

"""What all logs of a broker share."""

from dataclasses import dataclass, field

from storage.background import Background
from storage.clock import Clock
from storage.deletion import DelayedDeletions
from storage.flush_stats import FlushStats


@dataclass(frozen=True, slots=True, kw_only=True)
class LogServices:
    """The clock, the thread for file work, the deletions that wait for their time, the figures."""

    clock: Clock
    background: Background
    deletions: DelayedDeletions
    flush_stats: FlushStats = field(default_factory=FlushStats)

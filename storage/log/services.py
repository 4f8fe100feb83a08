"""What all logs of a broker share."""

from dataclasses import dataclass, field
from typing import Protocol

from siltstone.storage.appending._append_kernels import Appends
from siltstone.storage.clock import Clock
from siltstone.storage.directory.background import Background
from siltstone.storage.directory.deletion import DelayedDeletions
from siltstone.storage.log.flush_stats import FlushStats


class Watched(Protocol):
    """The end of a log that somebody watches."""

    def tell_watchers(self) -> None:
        """Tell the watchers that the log has changed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LogServices:
    """The clock, the thread for file work, the deletions that wait for their time, the figures.

    ``appends`` are the batches that wait for the end of a connection's turn. ``moved_starts`` are
    the ends of watched logs whose start has moved. Any thread adds to it; the event loop empties it
    and tells the watchers.
    """

    clock: Clock
    background: Background
    deletions: DelayedDeletions
    appends: Appends = field(default_factory=Appends)
    flush_stats: FlushStats = field(default_factory=FlushStats)
    moved_starts: set[Watched] = field(default_factory=set)

"""What all logs of a broker share."""

from dataclasses import dataclass

from storage.background import Background
from storage.clock import Clock
from storage.deletion import DelayedDeletions


@dataclass(frozen=True, slots=True, kw_only=True)
class LogServices:
    """The clock, the thread for file work, and the deletions that wait for their time."""

    clock: Clock
    background: Background
    deletions: DelayedDeletions

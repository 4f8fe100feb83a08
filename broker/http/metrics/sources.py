"""Where metrics read their values: the counters that the broker's parts keep for themselves.

Reading happens on the loop, at a scrape, and takes no lock: each value is one integer. What has no
counter of its own is a function, so that a test can stand in for a broker with a few lines.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from siltstone.broker.coordination.coordinators import Coordinators
    from siltstone.broker.groups.coordinator import GroupCoordinator
    from siltstone.broker.net._dispatch_kernels import Histogram
    from siltstone.broker.net.request_stats import RequestStats
    from siltstone.broker.process.first_use import OnFirstUse
    from siltstone.broker.topics.cleaning import Cleaning
    from siltstone.broker.topics.moves.manager import LogDirMoves
    from siltstone.broker.topics.pins import PinRoom
    from siltstone.broker.topics.registry import TopicRegistry
    from siltstone.broker.transactions.coordinator import TransactionCoordinator


class ListenerCounts(NamedTuple):
    """Connections of one listener: open now, accepted since the start."""

    listener: str
    open: int
    accepted: int


class SessionCounts(NamedTuple):
    """Incremental fetch sessions: how many, their partitions, how many were evicted."""

    sessions: int
    partitions: int
    evicted: int


class FlushCounts(NamedTuple):
    """Flushes of logs: how many and how many seconds they took together."""

    flushes: int
    seconds: float


@dataclass(frozen=True, slots=True, kw_only=True)
class MetricSources:
    """Everything that ``broker.http.metrics.table`` reads; built once in ``broker.server``.

    ``offline_directories`` maps each log directory to whether it is offline.
    """

    version: str
    kernels: str
    started: float
    topics: TopicRegistry
    requests: RequestStats
    loop_lag: Histogram
    listeners: Callable[[], Iterable[ListenerCounts]]
    sessions: Callable[[], SessionCounts]
    waiting_fetches: Callable[[], int]
    flushes: Callable[[], FlushCounts]
    offline_directories: Callable[[], Mapping[str, bool]]
    dead_threads: Callable[[], Sequence[str]]
    ready: Callable[[], bool]
    cleaning: Cleaning | None = None
    pins: PinRoom | None = None
    moves: LogDirMoves | None = None
    coordinators: OnFirstUse[Coordinators] | None = None

    @property
    def groups(self) -> GroupCoordinator | None:
        """Return the coordinator of groups; None as long as nobody has needed it."""
        built = None if self.coordinators is None else self.coordinators.built
        return None if built is None else built.groups

    @property
    def transactions(self) -> TransactionCoordinator | None:
        """Return the coordinator of transactions; None as long as nobody has needed it."""
        built = None if self.coordinators is None else self.coordinators.built
        return None if built is None else built.transactions

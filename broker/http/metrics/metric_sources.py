"""The sources of metrics: the counters that the parts of the broker keep.

Metrics are read on the loop, at a scrape, and without a lock: each value is one integer. A value
without a counter is a function, so that a test can replace a broker with a few lines.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final, NamedTuple

from siltstone.broker.fetching.sessions import FetchSessions
from siltstone.broker.http.metrics.scans import CleanableScan, ClientScan, LagScan, PartitionScan
from siltstone.broker.net.buffers import Buffers
from siltstone.broker.process.client_limits import Limits
from siltstone.broker.process.first_use import OnFirstUse
from siltstone.broker.process.histogram import Histogram
from siltstone.broker.process.request_stats import RequestStats
from siltstone.broker.topics.cleaning import Cleaning
from siltstone.broker.topics.moves.manager import LogDirMoves
from siltstone.broker.topics.pins import PinRoom
from siltstone.broker.topics.registry import TopicRegistry
from siltstone.broker.topics.scrub import Scrub
from siltstone.storage.directory.room import Room
from siltstone.storage.log.services import FlushStats

if TYPE_CHECKING:
    from siltstone.broker.coordinators import Coordinators
    from siltstone.broker.groups.coordinator import GroupCoordinator
    from siltstone.broker.http.metrics.recent import Recent
    from siltstone.broker.net.tls.endpoints import Endpoints
    from siltstone.broker.security.quotas.meter import Meter
    from siltstone.broker.share.dead_letters import DeadLetters
    from siltstone.broker.share.states import ShareStates
    from siltstone.broker.telemetry import Telemetry
    from siltstone.broker.transactions.coordinator import TransactionCoordinator

_LATE_MS: Final = 300_000
"""How much longer than any producer may ask for makes a transaction late."""


class ListenerCounts(NamedTuple):
    """Connections of one listener: open now, accepted since the start."""

    listener: str
    open: int
    accepted: int


@dataclass(frozen=True, slots=True, kw_only=True)
class MetricSources:
    """Everything that ``broker.http.metrics.table`` reads; built once in ``broker.server``.

    ``offline_directories`` maps each log directory to whether it is offline, ``disks`` to the room
    on its disk. ``software`` yields the name and version of the software, and the listener, for
    each connection that has sent them, and None to pause. ``scan``, ``cleanable``, ``lag`` and
    ``clients`` are the results of one scrape's walk: see `begin`.
    """

    version: str
    started: float
    topics: TopicRegistry
    requests: RequestStats
    recent: Recent
    loop_lag: Histogram
    listeners: Callable[[], Iterable[ListenerCounts]]
    sessions: FetchSessions
    waiting_fetches: Callable[[], int]
    flushes: FlushStats
    offline_directories: Callable[[], Mapping[str, bool]]
    dead_threads: Callable[[], Sequence[str]]
    ready: Callable[[], bool]
    starting: Callable[[], bool]
    software: Callable[[], Iterator[tuple[str, str, str] | None]]
    max_lag_series: Callable[[], int]
    disks: Callable[[], Mapping[str, Room]] = dict
    cleaning: Cleaning | None = None
    pins: PinRoom | None = None
    scrub: Scrub | None = None
    moves: LogDirMoves | None = None
    coordinators: OnFirstUse[Coordinators] | None = None
    telemetry: OnFirstUse[Telemetry] | None = None
    meter: OnFirstUse[Meter] | None = None
    buffers: Buffers | None = None
    limits: Limits | None = None
    certificates: Endpoints | None = None
    max_client_series: Callable[[], int] = lambda: 0
    scan: PartitionScan = field(default_factory=PartitionScan)
    cleanable: CleanableScan = field(default_factory=CleanableScan)
    lag: LagScan = field(default_factory=LagScan)
    clients: ClientScan = field(default_factory=ClientScan)

    def begin(self) -> tuple[MetricSources, Iterator[None]]:
        """Return the sources of one scrape, and the walk that must end before they are read."""
        mine = replace(
            self,
            scan=PartitionScan(),
            cleanable=CleanableScan(),
            lag=LagScan(),
            clients=ClientScan(),
        )
        self.recent.note()
        return mine, mine.look()

    def look(self) -> Iterator[None]:
        """Fill the scans, with pauses in between."""
        transactions = self.transactions
        late_since = 0 if transactions is None else transactions.late_since(_LATE_MS)
        yield from self.scan.look(self.topics, late_since)
        if self.cleaning is not None:
            yield from self.cleanable.look(self.cleaning, self.scan.compacted)
        if self.groups is not None:
            yield from self.lag.look(self.groups.offsets, self.topics.logs, self.max_lag_series())
        if self.telemetry is not None and self.telemetry.built is not None:
            yield from self.clients.look(self.telemetry.built, self.max_client_series())

    @property
    def groups(self) -> GroupCoordinator | None:
        """Return the coordinator of groups; None while it is not built."""
        built = None if self.coordinators is None else self.coordinators.built
        return None if built is None else built.groups

    @property
    def share_states(self) -> ShareStates | None:
        """Return the share coordinator; None while it is not built."""
        built = None if self.coordinators is None else self.coordinators.built
        return None if built is None else built.share_states

    @property
    def dead_letters(self) -> DeadLetters | None:
        """Return the writer of dead letters; None while it is not built."""
        built = None if self.coordinators is None else self.coordinators.built
        return None if built is None else built.dead_letters.built

    @property
    def transactions(self) -> TransactionCoordinator | None:
        """Return the coordinator of transactions; None while it is not built."""
        built = None if self.coordinators is None else self.coordinators.built
        return None if built is None else built.transactions

"""What a handler may use: the broker's rooms, and who is asking.

Every room is owned by the event loop (style: state on the loop has no locks). Handlers get a
``RequestContext`` and the newest request entity, and return the newest response entity.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from broker.net.dispatch_kernels import RequestContext

if TYPE_CHECKING:
    from broker.coordination.coordinators import Coordinators
    from broker.fetching.sessions import FetchSessions
    from broker.fetching.waiting import Waiting
    from broker.groups.coordinator import GroupCoordinator
    from broker.process.io import IoThreads
    from broker.topics.features import Features
    from broker.topics.moves.manager import LogDirMoves
    from broker.topics.registry import TopicRegistry
    from broker.topics.settings.in_force import BrokerSettings
    from broker.transactions.coordinator import TransactionCoordinator
    from broker.transactions.producer_ids import ProducerIds
    from storage.clock import Clock
    from storage.manager import LogManager


@dataclass(frozen=True, slots=True, kw_only=True)
class Identity:
    """Who this broker is to its clients: constant from start to stop."""

    cluster_id: str
    node_id: int
    rack: str | None = None


@dataclass(slots=True, kw_only=True)
class Rooms:
    """The parts of the broker that handlers work with; built once in ``broker.server``.

    ``advertised`` maps a listener's name to the host and port that its clients are told.
    """

    settings: BrokerSettings
    clock: Clock
    logs: LogManager
    topics: TopicRegistry
    moves: LogDirMoves
    producer_ids: ProducerIds
    features: Features
    coordinators: Coordinators
    io: IoThreads
    waiting: Waiting
    sessions: FetchSessions
    identity: Identity
    advertised: dict[str, tuple[str, int]]

    @property
    def groups(self) -> GroupCoordinator:
        """Return the coordinator of groups, made by the first who asks."""
        return self.coordinators.groups

    @property
    def transactions(self) -> TransactionCoordinator:
        """Return the coordinator of transactions, made by the first who asks."""
        return self.coordinators.transactions


__all__ = ["Identity", "RequestContext", "Rooms"]

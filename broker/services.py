"""The parts of the broker that a handler may use, called its services.

Every part belongs to the event loop, so its state has no locks. Handlers get the parts in a
``RequestContext``, beside the request, and return the response. The module of the context imports
none of the parts.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

from siltstone.broker import context
from siltstone.broker.fetching.sessions import FetchSessions
from siltstone.broker.fetching.waiting import Waiting
from siltstone.broker.process.first_use import OnFirstUse
from siltstone.broker.process.io import IoThreads
from siltstone.broker.security.security import Security
from siltstone.broker.topics.features import Features
from siltstone.broker.topics.moves.manager import LogDirMoves
from siltstone.broker.topics.registry import TopicRegistry
from siltstone.broker.topics.settings.in_force import BrokerSettings
from siltstone.broker.transactions.producer_ids import ProducerIds
from siltstone.storage.clock import Clock
from siltstone.storage.manager import LogManager

if TYPE_CHECKING:
    from siltstone.broker.coordinators import Coordinators
    from siltstone.broker.groups.consumer.all_groups import ConsumerGroups
    from siltstone.broker.groups.coordinator import GroupCoordinator
    from siltstone.broker.groups.share.all_groups import ShareGroups
    from siltstone.broker.groups.streams.all_groups import StreamsGroups
    from siltstone.broker.share.partitions import SharePartitions
    from siltstone.broker.share.states import ShareStates
    from siltstone.broker.telemetry import Telemetry
    from siltstone.broker.transactions.coordinator import TransactionCoordinator

    RequestContext: TypeAlias = context.RequestContext["Services"]
    """The context of a request, with these services."""
else:
    RequestContext = context.RequestContext


@dataclass(frozen=True, slots=True, kw_only=True)
class Identity:
    """Tells clients what this broker is: constant from start to stop.

    The cluster id comes from the log directories (``logs.cluster_id``).
    """

    node_id: int
    rack: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Services:
    """The parts of the broker that handlers work with; built once in ``broker.server``.

    ``advertised`` maps the name of each bound listener to the host and port that its clients get.
    """

    settings: BrokerSettings
    clock: Clock
    logs: LogManager
    topics: TopicRegistry
    moves: LogDirMoves
    producer_ids: ProducerIds
    features: Features
    coordinators: OnFirstUse[Coordinators]
    io: IoThreads
    waiting: Waiting
    sessions: FetchSessions
    telemetry: OnFirstUse[Telemetry]
    identity: Identity
    advertised: dict[str, tuple[str, int]]
    security: Security

    def groups(self) -> GroupCoordinator:
        """Return the coordinator of groups; the first call builds both coordinators."""
        return self.coordinators.get().groups

    def consumer_groups(self) -> ConsumerGroups:
        """Return the groups of the consumer protocol; the first call builds both coordinators."""
        return self.coordinators.get().consumer_groups

    def share_states(self) -> ShareStates:
        """Return the share coordinator; the first call builds all coordinators."""
        return self.coordinators.get().share_states

    def share_groups(self) -> ShareGroups:
        """Return the share groups; the first call builds all coordinators."""
        return self.coordinators.get().share_groups

    def share_partitions(self) -> SharePartitions:
        """Return the queues in use; the first call builds all coordinators."""
        return self.coordinators.get().share_partitions

    def streams_groups(self) -> StreamsGroups:
        """Return the groups of Kafka Streams; the first call builds both coordinators."""
        return self.coordinators.get().streams_groups

    def transactions(self) -> TransactionCoordinator:
        """Return the coordinator of transactions; the first call builds both coordinators."""
        return self.coordinators.get().transactions

"""The coordinators of groups and of transactions, made when somebody first needs them.

Their modules are a sixth of what a start would import, and the first request of most clients is
not for them: a broker whose folder has none of their journals is ready without.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

from siltstone.broker.topics.internal import OFFSETS_TOPIC, TRANSACTIONS_TOPIC

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Iterator
    from typing import Any

    from siltstone.broker.groups.coordinator import GroupCoordinator
    from siltstone.broker.process.io import IoThreads
    from siltstone.broker.topics.features import Features
    from siltstone.broker.topics.registry import TopicRegistry
    from siltstone.broker.topics.settings.in_force import BrokerSettings
    from siltstone.broker.transactions.coordinator import TransactionCoordinator
    from siltstone.broker.transactions.producer_ids import ProducerIds
    from siltstone.storage.clock import Clock

_MODULES = (
    "siltstone.broker.coordination.journal",
    "siltstone.broker.groups.classic.group",
    "siltstone.broker.groups.consumer.group",
    "siltstone.broker.groups.consumer.all_groups",
    "siltstone.broker.groups.coordinator",
    "siltstone.broker.transactions.markers",
    "siltstone.broker.transactions.coordinator",
)


class Coordinators:
    """Both coordinators, or neither yet (loop only).

    They read their journals from the moment they are made, or from ``start`` if that is later, as
    when a scrape asks while logs are opened. Until that is done they refuse what they do not know.
    """

    def __init__(  # what either of them works with
        self,
        topics: TopicRegistry,
        settings: BrokerSettings,
        io: IoThreads,
        clock: Clock,
        producer_ids: ProducerIds,
        features: Features,
    ) -> None:
        self._topics = topics
        self._settings = settings
        self._io = io
        self._clock = clock
        self._producer_ids = producer_ids
        self._features = features
        self._made: tuple[GroupCoordinator, TransactionCoordinator] | None = None
        self._spawn: Callable[[Coroutine[Any, Any, None], str], None] | None = None

    def start(self, spawn: Callable[[Coroutine[Any, Any, None], str], None]) -> None:
        """Have journals read from now on, since all topics are known.

        ``spawn`` runs a coroutine under a name until the broker stops.
        """
        self._spawn = spawn
        if self._made is not None:
            self._begin(*self._made)

    @property
    def have_journals(self) -> bool:
        """Tell whether there is something that they must read."""
        return bool({OFFSETS_TOPIC, TRANSACTIONS_TOPIC} & self._topics.topics.keys())

    @property
    def groups(self) -> GroupCoordinator:
        """Return the coordinator of groups and committed offsets."""
        return (self._made or self._make())[0]

    @property
    def transactions(self) -> TransactionCoordinator:
        """Return the coordinator of transactions."""
        return (self._made or self._make())[1]

    def preload(self) -> Iterator[None]:
        """Import one module a step and make them, now that clients are served."""
        for module in _MODULES:
            import_module(module)
            yield
        if self._made is None:
            self._make()

    def release(self) -> None:
        """Answer everybody who waits: the broker stops."""
        if self._made is not None:
            self._made[0].release()

    async def close(self) -> None:
        """Let no more time pass."""
        if self._made is not None:
            groups, transactions = self._made
            await groups.close()
            await transactions.close()

    def _make(self) -> tuple[GroupCoordinator, TransactionCoordinator]:
        from siltstone.broker.coordination.journal import CoordinatorLog  # noqa: PLC0415  # that is the point
        from siltstone.broker.groups.coordinator import GroupCoordinator  # noqa: PLC0415
        from siltstone.broker.transactions.coordinator import TransactionCoordinator  # noqa: PLC0415
        from siltstone.broker.transactions.markers import MarkerWriter  # noqa: PLC0415

        shared = (self._topics, self._settings, self._io, self._clock)
        groups = GroupCoordinator(*shared)
        transactions = TransactionCoordinator(
            CoordinatorLog(TRANSACTIONS_TOPIC, *shared),
            MarkerWriter(self._topics, groups.offsets, self._io, self._clock),
            self._producer_ids,
            self._settings,
            self._features,
            self._clock,
        )
        self._made = groups, transactions
        self._begin(groups, transactions)
        return self._made

    def _begin(self, groups: GroupCoordinator, transactions: TransactionCoordinator) -> None:
        groups.begin()
        transactions.journal.begin_loading()
        if self._spawn is not None:
            self._spawn(groups.run(), "groups")
            self._spawn(_coordinate(groups, transactions), "transactions")


async def _coordinate(groups: GroupCoordinator, transactions: TransactionCoordinator) -> None:
    """Read the journal back while clients are served, then look after time-outs."""
    await groups.loaded.wait()  # what markers decide is known then
    await transactions.load()
    await transactions.run()

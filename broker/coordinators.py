"""The coordinators of groups, transactions and queues, built and started together.

Their modules would be a sixth of all imports at a start, and the first requests of most clients
need neither. So `broker.server` builds the coordinators when a request or a journal needs them.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any
from uuid import UUID

from siltstone.broker.coordination.journal import CoordinatorLog
from siltstone.broker.groups.consumer.all_groups import ConsumerGroups
from siltstone.broker.groups.coordinator import GroupCoordinator
from siltstone.broker.groups.expiry import DeletedTopics, expire
from siltstone.broker.groups.replay import Replay
from siltstone.broker.groups.share.all_groups import ShareGroups
from siltstone.broker.groups.streams.all_groups import StreamsGroups
from siltstone.broker.process.first_use import OnFirstUse
from siltstone.broker.process.io import IoThreads
from siltstone.broker.process.loop_share import LoopShare
from siltstone.broker.share.explaining import explain_queues
from siltstone.broker.share.partitions import SharePartitions
from siltstone.broker.share.states import ShareStates
from siltstone.broker.topics.features import Features
from siltstone.broker.topics.registry import TopicRegistry
from siltstone.broker.topics.settings.in_force import BrokerSettings
from siltstone.broker.transactions.coordinator import TransactionCoordinator
from siltstone.broker.transactions.markers import MarkerWriter
from siltstone.broker.transactions.producer_ids import ProducerIds
from siltstone.protocol.names import SHARE_STATE_TOPIC, TRANSACTIONS_TOPIC
from siltstone.storage.clock import Clock

if TYPE_CHECKING:
    from siltstone.broker.share.dead_letters import DeadLetters


class Coordinators:
    """All coordinators (loop only). They are built after the topics are known.

    At first they refuse requests for groups and ids whose journals are not replayed yet;
    `run_groups`, `run_transactions` and `run_share_states` replay them.
    """

    def __init__(
        self,
        topics: TopicRegistry,
        settings: BrokerSettings,
        io: IoThreads,
        clock: Clock,
        producer_ids: ProducerIds,
        features: Features,
    ) -> None:
        shared = (topics, settings, io, clock)
        self.groups = GroupCoordinator(*shared)
        self.consumer_groups = ConsumerGroups(self.groups)
        self.share_states = ShareStates(CoordinatorLog(SHARE_STATE_TOPIC, *shared), *shared)
        self.dead_letters = OnFirstUse(lambda: _make_dead_letters(*shared, features))
        self.share_partitions = SharePartitions(
            self.share_states,
            topics,
            settings,
            self.groups.timers,
            io,
            clock,
            self.dead_letters,
        )
        self.share_groups = ShareGroups(
            self.groups, self.share_states, self.share_partitions.forget
        )
        self.streams_groups = StreamsGroups(self.groups)
        self._replay = Replay(
            self.groups, (self.consumer_groups, self.share_groups), self.streams_groups
        )
        self._deleted_topics = DeletedTopics(self.groups)
        self.transactions = TransactionCoordinator(
            CoordinatorLog(TRANSACTIONS_TOPIC, *shared),
            MarkerWriter(topics, self.groups.offsets, clock),
            producer_ids,
            settings,
            features,
            clock,
        )

    async def run_groups(self) -> None:
        """Read the journal back, then delete expired offsets from time to time, until cancelled."""
        await self.load_groups()
        settings = self.groups.settings
        while True:
            await asyncio.sleep(settings.server.offsets_retention_check_interval_ms / 1000)
            await self._expire_offsets()

    async def load_groups(self) -> None:
        """Read the journal of groups back; ``groups.loaded`` is set afterwards."""
        replay = self._replay
        await self.groups.journal.load(replay.apply, replay.finish, has_offsets=True)
        self.groups.loaded.set()
        self._deleted_topics.forget()

    async def _expire_offsets(self) -> None:
        share = LoopShare()
        for _ in expire(self.groups):
            await share.rest()
        self._deleted_topics.forget()

    async def run_transactions(self) -> None:
        """Replay the journal while clients are served, then handle time-outs."""
        await self.groups.loaded.wait()  # first the offsets that markers commit
        await self.transactions.load()
        await self.transactions.run()

    async def run_share_states(self) -> None:
        """Read the journal of queues back, then keep it short, until cancelled."""
        await self.share_states.load()
        await self.share_states.run()

    async def catch_up(self) -> None:
        """Do all work that is due now."""
        await self.groups.loaded.wait()
        await self.groups.fire_timers()
        await self._expire_offsets()
        await self.transactions.catch_up()
        await self.share_states.catch_up()

    def explain_queues(self, now_ms: int) -> Mapping[tuple[UUID, int], Iterator[dict[str, Any]]]:
        """Return the explanations of queues in use, by topic id and partition."""
        return explain_queues(self.share_partitions, now_ms)

    async def close(self) -> None:
        """Stop the timers."""
        self.share_partitions.close()
        await self.groups.close()
        await self.transactions.close()
        if self.dead_letters.built is not None:
            await self.dead_letters.built.close()
        await self.share_states.close()


def _make_dead_letters(
    topics: TopicRegistry, settings: BrokerSettings, io: IoThreads, clock: Clock, features: Features
) -> DeadLetters:
    from siltstone.broker.share.dead_letters import DeadLetters  # noqa: PLC0415 - few groups have any

    return DeadLetters(topics, settings, features, io, clock)

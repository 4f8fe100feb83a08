"""The share coordinator: the state of all queues, and its journal (Kafka: ShareCoordinatorShard).

The one node is its own persister: queues and groups call the methods that serve the requests 83 to
87. A change is in the journal before it is in memory; a call that changes something returns when
the page cache has it, and `flush` waits for the disk where ``flush.messages`` asks for that.
"""

import asyncio
from collections.abc import Iterable
from typing import NamedTuple

from siltstone.broker.coordination.journal import CoordinatorLog
from siltstone.broker.share.key import ShareKey
from siltstone.broker.share.state import NOT_SET, ShareState
from siltstone.broker.topics.registry import TopicRegistry
from siltstone.broker.topics.settings.in_force import BrokerSettings
from siltstone.storage.clock import Clock
from siltstone.storage.log.log import Log


class Summary(NamedTuple):
    """The start of a queue, and how much of it is done."""

    state_epoch: int = 0
    leader_epoch: int = 0
    start_offset: int = NOT_SET
    delivery_complete_count: int = NOT_SET


class ShareStates:
    """The delivery states by queue, never ahead of ``__share_group_state`` (loop only).

    ``loaded`` is set when the journal is read; until then partitions that are not read yet refuse.
    """

    def __init__(
        self,
        journal: CoordinatorLog,
        topics: TopicRegistry,
        settings: BrokerSettings,
        clock: Clock,
    ) -> None:
        self.journal = journal
        self.loaded = asyncio.Event()
        self._topics = topics
        self._settings = settings
        self._clock = clock

    async def ensure_created(self) -> None:
        """Create the journal's topic if it does not exist.

        Raises:
            CoordinatorNotAvailable: The disk did not take the topic.
        """
        await self.journal.ensure_created()

    def read(self, key: ShareKey, leader_epoch: int) -> ShareState:
        """Return the state of a queue for the leader of its partition, which it then is.

        Raises:
            KafkaError: The queue is not initialized, the epoch is fenced, or the journal refuses.
        """
        raise NotImplementedError

    def initialize(self, key: ShareKey, state_epoch: int, start_offset: int) -> None:
        """Begin a queue at an offset; its records before that are forgotten.

        Raises:
            KafkaError: The epoch is fenced, the partition is not known, or the journal refuses.
        """
        raise NotImplementedError

    def write(self, key: ShareKey, leader_epoch: int, change: ShareState) -> None:
        """Write what has changed in a queue: its start, and the batches that are no longer as told.

        Raises:
            KafkaError: The queue is not initialized, an epoch is fenced, or the journal refuses.
        """
        raise NotImplementedError

    def delete(self, key: ShareKey) -> None:
        """Forget a queue; one that does not exist is no error.

        Raises:
            KafkaError: The partition is not known, or the journal refuses.
        """
        raise NotImplementedError

    def summary(self, key: ShareKey) -> Summary:
        """Return the start of a queue; of one that does not exist, a summary without an offset.

        Raises:
            KafkaError: The partition is not known, or the journal refuses.
        """
        raise NotImplementedError

    def find_unwritten(self, key: ShareKey) -> dict[Log, None]:
        """Return the log of a queue while a record in it waits for its fsync."""
        return self.journal.find_unwritten_of(str(key))

    async def flush(self, due: Iterable[Log]) -> None:
        """Wait until logs are on the disk.

        Raises:
            NotCoordinator: The appended records may not be on the disk.
        """
        await self.journal.flush(due)

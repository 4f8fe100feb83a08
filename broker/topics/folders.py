"""Making folders of many partitions at once, on io threads, a few at a time."""

from __future__ import annotations

from typing import TYPE_CHECKING

from siltstone.broker.process.work_off import work_off
from siltstone.protocol.errors import KafkaError

if TYPE_CHECKING:
    from collections.abc import Collection
    from uuid import UUID

    from siltstone.broker.process.io import IoThreads
    from siltstone.config.topic import TopicConfig
    from siltstone.storage.manager import LogManager
    from siltstone.storage.topic_partition import TopicPartition

# More threads would make no folder faster: they wait for one disk, and fetches want some too.
_WIDTH = 4


async def create_partitions(
    manager: LogManager,
    io: IoThreads,
    partitions: Collection[TopicPartition],
    topic_id: UUID,
    config: TopicConfig,
) -> None:
    """Make partitions; if one fails no more are begun, and those that are there stay.

    Raises:
        KafkaError: What the first one that failed raised.
    """
    failures: list[KafkaError] = []

    async def create(topic_partition: TopicPartition) -> None:
        if not failures:
            try:
                await io.run(manager.create, topic_partition, topic_id, config)
            except KafkaError as error:
                failures.append(error)

    await work_off(partitions, create, _WIDTH)
    if failures:
        raise failures[0]

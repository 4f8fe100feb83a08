"""Folders of many partitions at once, on io threads, a few at a time."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from broker.work_off import work_off
from protocol.errors import KafkaError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from uuid import UUID

    from broker.io import IoThreads
    from config.topic import TopicConfig
    from storage.manager import LogManager
    from storage.topic_partition import TopicPartition

log = logging.getLogger(__name__)

# More threads would make no folder faster: they wait for one disk, and fetches want some too.
_WIDTH = 4


async def create_partitions(
    manager: LogManager,
    io: IoThreads,
    partitions: Iterable[TopicPartition],
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


async def delete_partitions(
    manager: LogManager,
    io: IoThreads,
    partitions: Iterable[TopicPartition],
    delete_one: Callable[[TopicPartition], None],
) -> bool:
    """Rename the folders of those partitions that are there; return whether all of them went.

    ``delete_one`` does it for one partition, on an io thread.
    """
    failures: list[KafkaError] = []

    async def delete(topic_partition: TopicPartition) -> None:
        if topic_partition in manager.logs:
            try:
                await io.run(delete_one, topic_partition)
            except KafkaError as error:
                failures.append(error)
                log.error("folder is still there partition=%s: %s", topic_partition, error)  # noqa: TRY400

    await work_off(partitions, delete, _WIDTH)
    return not failures

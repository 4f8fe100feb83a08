"""Producer ids: unique for ever, handed out of blocks that the catalogue has given away.

Kafka's controller gives its brokers blocks of 1000 likewise; a stop loses the rest of one.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from siltstone.broker.process.tasks import Tasks

if TYPE_CHECKING:
    from siltstone.broker.topics.catalog_writer import CatalogWriter
    from siltstone.storage.directory.catalog import CatalogState

BLOCK = 1000


class ProducerIds:
    """The rest of the current block (loop only): ids below ``_end`` are ours on the disk."""

    def __init__(self, catalog: CatalogWriter) -> None:
        self._catalog = catalog
        self._next = 0
        self._end = 0
        self._reservation: asyncio.Task[None] | None = None
        self._tasks = Tasks()

    async def allocate(self) -> int:
        """Return a new id; waits for the disk once in a block.

        Raises:
            KafkaStorageError: The catalogue could not be written.
        """
        while self._next == self._end:
            if self._reservation is None:
                self._reservation = self._tasks.start(self._reserve(), "producer ids")
            await asyncio.shield(self._reservation)
        producer_id = self._next
        self._next += 1
        return producer_id

    async def close(self) -> None:
        """Wait until a block that was asked for has come."""
        await self._tasks.finish()

    async def _reserve(self) -> None:
        first = 0

        def take(state: CatalogState) -> None:
            nonlocal first
            first = state.next_producer_id
            state.next_producer_id = first + BLOCK

        try:
            await self._catalog.commit(take)
            self._next, self._end = first, first + BLOCK
        finally:
            self._reservation = None

"""Producer ids: unique for ever, given out from blocks that are reserved in the catalogue.

Kafka's controller likewise gives its brokers blocks of 1000; the rest of a block is lost at a stop.
"""

import asyncio

from siltstone.broker.process.tasks import Tasks
from siltstone.broker.topics.catalog_writer import CatalogWriter
from siltstone.storage.directory.catalog import CatalogState

BLOCK = 1000


class ProducerIds:
    """The rest of the current block (loop only): ids below ``_end`` are reserved on the disk."""

    def __init__(self, catalog: CatalogWriter) -> None:
        self._catalog = catalog
        self._next = 0
        self._end = 0
        self._reservation: asyncio.Task[None] | None = None
        self._tasks = Tasks()

    async def allocate(self) -> int:
        """Return a new id; only the first id of a block waits for the disk.

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
        """Wait until a block that was requested is reserved."""
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

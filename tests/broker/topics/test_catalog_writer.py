"""Changes of the catalogue: together on the disk, or not at all."""

import asyncio
from collections.abc import Callable
from pathlib import Path
from uuid import UUID

import pytest

from siltstone.broker.process.io import IoThreads
from siltstone.broker.topics.catalog_writer import CatalogWriter
from siltstone.protocol.errors import KafkaStorageError
from siltstone.storage.directory.catalog import Catalog, CatalogState, CatalogTopic


class CountedCatalog(Catalog):
    """A catalogue that counts its writes and can run out of disk."""

    def __init__(self, folder: Path) -> None:
        super().__init__([folder])
        self.writes = 0
        self.is_full = False

    def write(self, state: CatalogState) -> None:
        """Write unless the disk is full."""
        self.writes += 1
        if self.is_full:
            raise OSError(28, "No space left on device")
        super().write(state)


def _add(number: int) -> Callable[[CatalogState], None]:
    def change(state: CatalogState) -> None:
        state.topics[f"t{number}"] = CatalogTopic(id=UUID(int=number + 2), partitions=1)

    return change


async def test_changes_that_come_together_are_written_together(tmp_path: Path) -> None:
    """A thousand topics cost a handful of writes, and all of them are there."""
    catalog = CountedCatalog(tmp_path)
    writer = CatalogWriter(catalog, IoThreads(1))
    await asyncio.gather(*(writer.commit(_add(n)) for n in range(1000)))

    assert catalog.writes <= 2
    again = Catalog([tmp_path])
    again.load()
    assert len(again.state.topics) == 1000
    assert again.state == writer.state


async def test_a_failed_write_leaves_no_trace(tmp_path: Path) -> None:
    """Whoever waited is told, and the next change does not bring the failed one along."""
    catalog = CountedCatalog(tmp_path)
    writer = CatalogWriter(catalog, IoThreads(1))
    catalog.is_full = True
    with pytest.raises(KafkaStorageError, match="make room"):
        await writer.commit(_add(1))
    assert not writer.state.topics
    catalog.is_full = False
    await writer.commit(_add(2))

    assert list(writer.state.topics) == ["t2"]


async def test_a_deferred_change_goes_with_the_next_one(tmp_path: Path) -> None:
    """It costs no write of its own, is not lost by a failure, and is written at the stop."""
    catalog = CountedCatalog(tmp_path)
    writer = CatalogWriter(catalog, IoThreads(1))
    writer.defer(_add(1))
    catalog.is_full = True
    with pytest.raises(KafkaStorageError):
        await writer.commit(_add(2))
    catalog.is_full = False
    await writer.close()

    assert list(writer.state.topics) == ["t1"]
    await writer.close()
    assert catalog.writes == 2  # the failed one and that of the stop


async def test_a_change_outlives_its_client(tmp_path: Path) -> None:
    """A cancelled request has its change written all the same."""
    writer = CatalogWriter(CountedCatalog(tmp_path), IoThreads(1))
    request = asyncio.create_task(writer.commit(_add(1)))
    await asyncio.sleep(0)
    request.cancel()
    await writer.commit(_add(2))

    assert list(writer.state.topics) == ["t1", "t2"]

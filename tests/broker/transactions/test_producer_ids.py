"""Producer ids are never given twice."""

import asyncio
from pathlib import Path

from tests.support.services import ServicesOnDisk


async def test_ids_are_unique_across_blocks_and_clients(home: ServicesOnDisk) -> None:
    """Many producers at once share blocks: no id twice, and none wasted."""
    ids = await asyncio.gather(*(home.services.producer_ids.allocate() for _ in range(2500)))

    assert sorted(ids) == list(range(2500))


async def test_a_restart_takes_a_new_block(tmp_path: Path) -> None:
    """Ids that were given away before a crash are never given again."""
    home = await ServicesOnDisk(tmp_path).open()
    given = [await home.services.producer_ids.allocate() for _ in range(3)]
    home.crash()
    again = await ServicesOnDisk(tmp_path).open()
    later = await again.services.producer_ids.allocate()
    await again.close()

    assert given == [0, 1, 2]
    assert later == 1000

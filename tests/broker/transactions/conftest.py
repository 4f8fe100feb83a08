"""A broker's rooms with a topic of three partitions and small internal topics."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.support.rooms import RoomsOnDisk
from tests.support.transactional import open_home


@pytest.fixture
async def home(tmp_path: Path) -> AsyncIterator[RoomsOnDisk]:
    """An open broker without listeners."""
    rooms = await open_home(tmp_path)
    yield rooms
    await rooms.close()

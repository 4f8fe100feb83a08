"""A broker's services with a topic of three partitions and small internal topics."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.support.services import ServicesOnDisk
from tests.support.transactional import open_home


@pytest.fixture
async def home(tmp_path: Path) -> AsyncIterator[ServicesOnDisk]:
    """An open broker without listeners."""
    services = await open_home(tmp_path)
    yield services
    await services.close()

"""A broker's services for the tests of handlers and of what they work with, and certificates."""

from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from siltstone.broker.process.io import IoThreads
from tests.support.authority import Authority, Pair
from tests.support.services import ServicesOnDisk


@pytest.fixture(scope="session")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    """One that signs certificates."""
    return Authority(tmp_path_factory.mktemp("authority"))


@pytest.fixture(scope="session")
def server(authority: Authority) -> Pair:
    """The certificate that a broker shows its clients."""
    return authority.issue("server")


@pytest.fixture
def io() -> Iterator[IoThreads]:
    """One thread that waits."""
    threads = IoThreads(1)
    yield threads
    threads.close()


@pytest.fixture
async def home(tmp_path: Path) -> AsyncIterator[ServicesOnDisk]:
    """An open broker without listeners on a new folder."""
    services = await ServicesOnDisk(tmp_path).open()
    yield services
    await services.close()

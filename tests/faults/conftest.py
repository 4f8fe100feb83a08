"""Connections to broker processes, closed when the test ends."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable

import pytest

from tests.support.broker import SiltstoneProcess
from tests.support.traffic import Traffic

Connect = Callable[[SiltstoneProcess, str], Awaitable[Traffic]]


@pytest.fixture
async def connect() -> AsyncIterator[Connect]:
    """Open a connection to a broker that speaks about one topic."""
    opened: list[Traffic] = []

    async def connect(broker: SiltstoneProcess, topic: str) -> Traffic:
        traffic = await Traffic.connect(broker.bootstrap, topic)
        opened.append(traffic)
        return traffic

    yield connect
    for traffic in opened:
        await traffic.caller.client.close()
    await asyncio.sleep(0)

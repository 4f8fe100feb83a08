"""Stops long work at its first rest, so that a test can change state before it goes on."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from itertools import count

from siltstone.broker.process.loop_share import LoopShare
from tests.support.clock import seconds_by

TAKING_TURNS = 4
"""How many large requests take turns; what begins later waits until one of them is done."""


@asynccontextmanager
async def others_first() -> AsyncIterator[None]:
    """Stop all work that begins in the block after its first step, even if that was short.

    This includes the broker's own work, so nothing awaited in the block may rest.
    """
    ticks = count(1)
    async with taking_turns():
        with seconds_by(lambda: float(next(ticks))):
            yield


@asynccontextmanager
async def taking_turns() -> AsyncIterator[None]:
    """Stop all work that begins in the block when its first share is used up."""
    is_over = False

    async def take_turns() -> None:
        share = LoopShare()
        while not is_over:
            await share.turn()

    others = [asyncio.create_task(take_turns()) for _ in range(TAKING_TURNS)]
    await asyncio.sleep(0)
    try:
        yield
    finally:
        is_over = True
        await asyncio.gather(*others)

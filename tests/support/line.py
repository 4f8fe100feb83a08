"""Long work that stops at its first rest, so that a test can change what it goes on with."""

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
    """Keep all work that begins inside from going on after its first step, however short that is.

    That of the broker itself, too: what is awaited inside must not rest.
    """
    ticks = count(1)
    async with taking_turns():
        with seconds_by(lambda: float(next(ticks))):
            yield


@asynccontextmanager
async def taking_turns() -> AsyncIterator[None]:
    """Keep all long work that begins inside from going on when its first share is over."""
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

"""Many waits for one request, a few at a time, so that none keeps the loop for long."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final, TypeVar

from siltstone.broker.process.loop_share import SECONDS, LoopShare

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Collection

T = TypeVar("T")

WIDTH: Final = 16
_LEAST_SECONDS: Final = 0.000_2


async def work_off(
    items: Collection[T], job: Callable[[T], Awaitable[None]], width: int = WIDTH
) -> None:
    """Await ``job`` for every item, at most ``width`` of them at once; jobs do not raise.

    Others are served in between, also when no job waits for anything.
    """
    left = iter(items)

    async def work() -> None:
        share = LoopShare(max(_LEAST_SECONDS, SECONDS / width))
        for item in left:
            await job(item)
            await share.rest()

    async with asyncio.TaskGroup() as workers:
        for _ in range(min(width, len(items))):
            workers.create_task(work())

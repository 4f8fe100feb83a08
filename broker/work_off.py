"""Many waits for one request, a few at a time, so that none keeps the loop for long."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable

T = TypeVar("T")


async def work_off(items: Iterable[T], job: Callable[[T], Awaitable[None]], width: int) -> None:
    """Await ``job`` for every item, at most ``width`` of them at once; jobs do not raise."""
    left = iter(items)

    async def work() -> None:
        for item in left:
            await job(item)

    async with asyncio.TaskGroup() as workers:
        for _ in range(width):
            workers.create_task(work())

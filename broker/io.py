"""The ``io-N`` threads: they wait in the kernel on behalf of the loop and compute nothing.

One Python thread that holds the GIL would stall every client for whole switch intervals, so what
runs here are fsyncs, cold reads, folder work and codec calls, which all release it.
"""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, ParamSpec, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable

P = ParamSpec("P")
T = TypeVar("T")


class IoThreads:
    """A pool of ``num.io.threads`` threads, started one by one as they are needed."""

    def __init__(self, count: int) -> None:
        self._pool = ThreadPoolExecutor(max_workers=count, thread_name_prefix="io")

    def run(self, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> asyncio.Future[T]:
        """Return a future of ``function``'s result; the call runs on one of the threads."""
        loop = asyncio.get_running_loop()
        if kwargs:
            return loop.run_in_executor(self._pool, lambda: function(*args, **kwargs))
        return loop.run_in_executor(self._pool, function, *args)

    def close(self) -> None:
        """Wait for what runs and end the threads."""
        self._pool.shutdown(wait=True, cancel_futures=True)

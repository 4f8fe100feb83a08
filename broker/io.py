"""The ``io-N`` threads: they wait in the kernel on behalf of the loop and compute nothing.

One Python thread that holds the GIL would stall every client for whole switch intervals, so what
runs here are fsyncs, cold reads and folder work, and on two ``codec-N`` threads codec calls, which
all release it.
"""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import TYPE_CHECKING, ParamSpec, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable

P = ParamSpec("P")
T = TypeVar("T")


# A batch of some KiB may unfold to 64 MiB: so many of them at a time, however many arrive, and
# fsyncs and cold reads do not stand behind them.
_CODEC_THREADS = 2


class IoThreads:
    """``num.io.threads`` threads that wait, and two for codecs; started as they are needed."""

    def __init__(self, count: int) -> None:
        self._pool = ThreadPoolExecutor(max_workers=count, thread_name_prefix="io")
        self._codecs = ThreadPoolExecutor(_CODEC_THREADS, thread_name_prefix="codec")

    def run(self, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> asyncio.Future[T]:
        """Return a future of ``function``'s result; the call runs on one of the threads."""
        loop = asyncio.get_running_loop()
        if kwargs:
            return loop.run_in_executor(self._pool, lambda: function(*args, **kwargs))
        return loop.run_in_executor(self._pool, function, *args)

    def unpack(
        self, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs
    ) -> asyncio.Future[T]:
        """Return a future of ``function``'s result; it spends its time in a codec."""
        call = partial(function, *args, **kwargs)
        return asyncio.get_running_loop().run_in_executor(self._codecs, call)

    def close(self) -> None:
        """Wait for what runs and end the threads."""
        self._codecs.shutdown(wait=True, cancel_futures=True)
        self._pool.shutdown(wait=True, cancel_futures=True)

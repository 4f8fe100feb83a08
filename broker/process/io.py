"""The ``io-N`` threads: they wait in the kernel on behalf of the loop and compute nothing.

One Python thread that holds the GIL would stall every client for whole switch intervals, so what
runs here are fsyncs, cold reads and folder work, and on two ``codec-N`` threads codec calls, which
all release it. Large answers leave on threads of their own (`broker.net.sending.senders`).
"""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import TYPE_CHECKING, ParamSpec, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable

    from siltstone.broker.net.sending.senders import Senders

P = ParamSpec("P")
T = TypeVar("T")


# A batch of some KiB may unfold to 64 MiB: so many of them at a time, however many arrive, and
# fsyncs and cold reads do not stand behind them.
_CODEC_THREADS = 2


class IoThreads:
    """``num.io.threads`` threads that wait, two for codecs, ``num.network.threads`` that send.

    All are started when they are needed.
    """

    def __init__(self, count: int, sender_count: int = 0) -> None:
        self._sender_count = sender_count
        self._senders: Senders | None = None
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

    @property
    def senders(self) -> Senders | None:
        """Return the threads that send; None: there are none, the loop sends by itself."""
        if self._senders is None and self._sender_count:
            from siltstone.broker.net.sending.senders import Senders  # noqa: PLC0415  # not before somebody fetches

            if Senders.is_available:
                self._senders = Senders(self._sender_count)
            else:
                self._sender_count = 0
        return self._senders

    def close(self) -> None:
        """Wait for what runs and end the threads."""
        self._sender_count = 0
        if self._senders is not None:
            self._senders.close()
            self._senders = None
        self._codecs.shutdown(wait=True, cancel_futures=True)
        self._pool.shutdown(wait=True, cancel_futures=True)

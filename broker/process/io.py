"""The ``io-N`` threads: they wait in the kernel on behalf of the loop and compute nothing.

One Python thread that holds the GIL would stall every client for whole switch intervals, so what
runs here are fsyncs, cold reads and folder work, and on two ``codec-N`` threads codec calls, which
all release it. Large answers leave on threads of their own (`broker.net.sending.senders`).
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, ParamSpec, TypeVar

from siltstone.storage import threads

if TYPE_CHECKING:
    from collections.abc import Callable

    from siltstone.broker.net.sending.senders import Senders
    from siltstone.broker.net.tls.senders import TlsSenders
    from siltstone.broker.process.first_use import OnFirstUse

P = ParamSpec("P")
T = TypeVar("T")


# A batch of some KiB may unfold to 64 MiB: so many of them at a time, however many arrive, and
# fsyncs and cold reads do not stand behind them.
_CODEC_THREADS = 2


class IoThreads:
    """``num.io.threads`` threads that wait, two for codecs, and perhaps some that send.

    All are started when they are needed. Without ``senders`` the loop sends by itself.
    """

    def __init__(
        self,
        count: int,
        senders: OnFirstUse[Senders] | None = None,
        tls_senders: OnFirstUse[TlsSenders] | None = None,
    ) -> None:
        self._senders = senders
        self._tls_senders = tls_senders
        self._pool = threads.new_pool(count, "io")
        self._codecs = threads.new_pool(_CODEC_THREADS, "codec")

    def run(self, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> asyncio.Future[T]:
        """Return a future of ``function``'s result; the call runs on one of the threads."""
        return asyncio.wrap_future(self._pool.submit(function, *args, **kwargs))

    def unpack(
        self, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs
    ) -> asyncio.Future[T]:
        """Return a future of ``function``'s result; it spends its time in a codec."""
        return asyncio.wrap_future(self._codecs.submit(function, *args, **kwargs))

    def find_senders(self) -> Senders | None:
        """Return the sender threads; the first call starts them."""
        senders = self._senders
        return None if senders is None else senders.get()

    def find_tls_senders(self) -> TlsSenders | None:
        """Return the sender threads that encrypt; the first call starts them."""
        senders = self._tls_senders
        return None if senders is None else senders.get()

    def close(self) -> None:
        """Wait for what runs and end the threads."""
        senders, self._senders = self._senders, None
        if senders is not None and senders.built is not None:
            senders.built.close()
        tls_senders, self._tls_senders = self._tls_senders, None
        if tls_senders is not None and tls_senders.built is not None:
            tls_senders.built.close()
        self._codecs.shutdown(wait=True, cancel_futures=True)
        self._pool.shutdown(wait=True, cancel_futures=True)

"""The ``io-N`` threads: they wait in the kernel on behalf of the loop and compute nothing.

A Python thread that holds the GIL would stall every client for whole switch intervals. So these
threads only run calls that release the GIL: fsyncs, cold reads and folder work, and codec calls on
two ``codec-N`` threads.
"""

import asyncio
from collections.abc import Callable
from typing import ParamSpec, TypeVar

from siltstone.storage import threads

P = ParamSpec("P")
T = TypeVar("T")


# A batch of some KiB may unfold to 64 MiB: this limits how many unfold at a time, and keeps them
# from delaying fsyncs and cold reads.
_CODEC_THREADS = 2


class IoThreads:
    """``num.io.threads`` threads that wait, and two for codecs; all start when first needed."""

    def __init__(self, count: int) -> None:
        self._pool = threads.new_pool(count, "io")
        self._codecs = threads.new_pool(_CODEC_THREADS, "codec")

    def run(self, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> asyncio.Future[T]:
        """Return a future of ``function``'s result; the call runs on one of the threads.

        If the system has no thread for it, the future has that error, and the call is never made.
        """
        return _submit(self._pool, function, *args, **kwargs)

    def unpack(
        self, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs
    ) -> asyncio.Future[T]:
        """Return a future of ``function``'s result, as `run`; it spends its time in a codec."""
        return _submit(self._codecs, function, *args, **kwargs)

    def close(self) -> None:
        """Wait for the calls that run and end the threads."""
        self._codecs.shutdown(wait=True, cancel_futures=True)
        self._pool.shutdown(wait=True, cancel_futures=True)


def _submit(
    pool: threads.Pool, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs
) -> asyncio.Future[T]:
    try:
        return asyncio.wrap_future(pool.submit(function, *args, **kwargs))
    except RuntimeError as error:  # a caller counts on the end of what it has begun
        failed = asyncio.get_running_loop().create_future()
        failed.set_exception(error)
        return failed

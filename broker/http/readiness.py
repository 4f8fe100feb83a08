"""Readiness: recovery is over, every thread lives, and a record makes the round trip (``/readyz``).

The round trip goes through the listener like any client's, so "ready" means that clients are
served. The result is kept for a moment, so that frequent requests do not make the broker probe
without pause.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence

from siltstone.broker.http.values import HttpRequest, HttpResponse, text
from siltstone.broker.process.tasks import Tasks
from siltstone.storage.clock import Clock

_logger = logging.getLogger(__name__)

PROBE_SECONDS = 5.0
PROBE_CACHE_SECONDS = 1.0
LOADING = "the logs are still being opened"


class ProbeFailed(Exception):  # noqa: N818 - it is a verdict
    """The round trip did not succeed; the text says where it ended."""


class Readiness:
    """Knows whether clients are served (loop only).

    ``is_ready`` is the last verdict, for the gauge; ``find_fault`` gets a new one. A change of the
    verdict is logged once. While ``is_starting`` is true, the logs are being opened, and not all
    topics are known yet.
    """

    def __init__(
        self,
        clock: Clock,
        round_trip: Callable[[], Awaitable[None]],
        find_dead_threads: Callable[[], Sequence[str]],
        find_remarks: Callable[[], Sequence[str]] = list,
    ) -> None:
        self.is_ready = False
        self.is_starting = True
        self.find_dead_threads = find_dead_threads
        self._clock = clock
        self._round_trip = round_trip
        self.find_remarks = find_remarks
        self._is_stopping = False
        self._probing: asyncio.Task[str | None] | None = None
        self._probed_at = 0.0
        self._tasks = Tasks()

    def open(self) -> None:
        """Note that recovery is over and the listener accepts clients; probe from now on."""
        self.is_starting = False

    def close(self) -> None:
        """Note that the broker is stopping, so it is not ready any more."""
        self._is_stopping = True
        self.is_ready = False

    async def end(self) -> None:
        """Cancel a round trip in progress; no request can come any more."""
        await self._tasks.cancel()

    async def find_fault(self) -> str | None:
        """Return a sentence that says why clients are not served, or None if they are."""
        fault = await self._find_fault()
        was_ready, self.is_ready = self.is_ready, fault is None
        if was_ready and fault is not None:
            _logger.warning("no longer ready reason=%s", fault)
        return fault

    async def answer(self, _request: HttpRequest) -> HttpResponse:
        """Answer 200 or 503 with the reason: the ``/readyz`` page.

        A partition that cannot be compacted is named, but is no fault: clients are served.
        """
        fault = await self.find_fault()
        if fault is not None:
            return text(503, f"not ready: {fault}")
        return text(200, "\n".join(["ready", *self.find_remarks()]))

    async def _find_fault(self) -> str | None:
        if self._is_stopping:
            return "the broker is stopping"
        if self.is_starting:
            return LOADING
        dead = self.find_dead_threads()
        if dead:
            return f"background thread {', '.join(dead)} died; see the log and restart the broker"
        now = self._clock.monotonic()
        if self._probing is None or (
            self._probing.done() and now - self._probed_at >= PROBE_CACHE_SECONDS
        ):
            self._probed_at = now
            self._probing = self._tasks.start(self._probe(), "round trip")
        return await asyncio.shield(self._probing)

    async def _probe(self) -> str | None:
        try:
            async with asyncio.timeout(PROBE_SECONDS):
                await self._round_trip()
        except TimeoutError:
            return f"a record did not make its round trip within {PROBE_SECONDS:g} s"
        except (ProbeFailed, OSError, EOFError) as error:
            return f"a record did not make its round trip: {error}"
        return None

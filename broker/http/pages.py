"""The pages of the HTTP port and what they show: metrics, health, the control channel.

Built by the first connection or by the preload, since a start has no use for them: they are a
twelfth of what it would import.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from siltstone.broker.http.control.channel import ControlChannel, Status
from siltstone.broker.http.control.cleaner import CleanerPages
from siltstone.broker.http.control.explaining import Explainer
from siltstone.broker.http.control.pins import PinPages
from siltstone.broker.http.control.settings import SettingsPages
from siltstone.broker.http.health import DiskCheck, Health
from siltstone.broker.http.metrics.exposition import Scrapes
from siltstone.broker.http.metrics.sources import (
    FlushCounts,
    ListenerCounts,
    MetricSources,
    SessionCounts,
)
from siltstone.broker.http.readiness import LOADING
from siltstone.broker.http.values import Route, text

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence

    from siltstone.broker.context import Rooms
    from siltstone.broker.http.health import LoopWatch
    from siltstone.broker.http.readiness import Readiness
    from siltstone.broker.http.values import HttpRequest, HttpResponse
    from siltstone.broker.net.listener import Listener
    from siltstone.broker.net.request_stats import RequestStats
    from siltstone.broker.topics.cleaning import Cleaning
    from siltstone.broker.topics.pins import PinRoom


class Pages:
    """Makes the routes out of the broker's parts (loop only); ``began`` is the monotonic start."""

    def __init__(  # noqa: PLR0913  # what the pages show
        self,
        rooms: Rooms,
        *,
        version: str,
        kernels: str,
        began: float,
        requests: RequestStats,
        listeners: Sequence[Listener],
        loop_watch: LoopWatch,
        readiness: Readiness,
        cleaning: Cleaning,
        pins: PinRoom,
    ) -> None:
        self._rooms = rooms
        self._version = version
        self._kernels = kernels
        self._began = began
        self._requests = requests
        self._listeners = listeners
        self._loop_watch = loop_watch
        self._readiness = readiness
        self._cleaning = cleaning
        self._pins = pins

    def routes(self, is_trusted: Callable[[Mapping[bytes, bytes]], bool]) -> Iterator[Route]:
        """Yield every page; what changes something asks whether headers bring the token."""
        rooms = self._rooms
        logs, io, clock = rooms.logs, rooms.io, rooms.clock
        health = Health(
            self._loop_watch,
            [DiskCheck(each.path, io, clock, directory=each) for each in logs.directories],
            lambda: logs.set_aside,
        )
        yield Route("GET", "/metrics", Scrapes(self._sources(), clock).answer)
        yield Route("GET", "/healthz", health.answer, is_urgent=True)
        yield Route("GET", "/readyz", self._readiness.answer, is_urgent=True)
        control = ControlChannel(is_trusted, io, self._status, logs.all_logs)
        yield from control.routes()
        explainer = Explainer(self._cleaning, rooms.topics, rooms.settings, clock)
        cleaner_pages = CleanerPages(self._cleaning, explainer, io, clock)
        pin_pages = PinPages(self._pins, rooms.topics, io, lambda: logs.cluster_id)
        after_start = (
            *SettingsPages(rooms.settings, io).routes(control.guarded),
            *cleaner_pages.routes(control.guarded),
            *pin_pages.routes(control.guarded),
        )
        for route in after_start:
            yield replace(route, handle=self._once_started(route.handle))

    def _once_started(
        self, handle: Callable[[HttpRequest], Awaitable[HttpResponse]]
    ) -> Callable[[HttpRequest], Awaitable[HttpResponse]]:
        """Return a page that needs the topics; before they are known it answers that."""

        async def page(request: HttpRequest) -> HttpResponse:
            if self._readiness.is_starting:
                return text(
                    503,
                    f"the broker is still starting: {LOADING}; ask again when /readyz is ready",
                    ("Retry-After", "1"),
                )
            return await handle(request)

        return page

    def _status(self) -> Status:
        rooms = self._rooms
        return Status(
            version=self._version,
            kernels=self._kernels,
            ready=self._readiness.is_ready,
            uptime_seconds=self._uptime_seconds(),
            cluster_id=rooms.logs.cluster_id,
            node_id=rooms.settings.server.node_id,
            topics=len(rooms.topics.topics),
            partitions=len(rooms.logs.logs),
            connections=sum(len(listener.connections) for listener in self._listeners),
            log_dirs={
                str(directory.path): directory.trouble or "online"
                for directory in rooms.logs.directories
            },
        )

    def _sources(self) -> MetricSources:
        rooms = self._rooms
        sessions, logs = rooms.sessions, rooms.logs
        return MetricSources(
            version=self._version,
            kernels=self._kernels,
            started=rooms.clock.now_ms() / 1000 - self._uptime_seconds(),
            topics=rooms.topics,
            requests=self._requests,
            loop_lag=self._loop_watch.lag,
            listeners=self._count_connections,
            sessions=lambda: SessionCounts(
                len(sessions), sessions.partition_count, sessions.evicted_count
            ),
            waiting_fetches=lambda: rooms.waiting.count,
            flushes=lambda: FlushCounts(logs.flush_stats.flushes, logs.flush_stats.seconds),
            offline_directories=lambda: {
                str(directory.path): directory.failure is not None for directory in logs.directories
            },
            dead_threads=self._readiness.find_dead_threads,
            ready=lambda: self._readiness.is_ready,
            cleaning=self._cleaning,
            pins=self._pins,
            moves=rooms.moves,
            coordinators=rooms.coordinators,
        )

    def _uptime_seconds(self) -> float:
        return self._rooms.clock.monotonic() - self._began

    def _count_connections(self) -> Iterator[ListenerCounts]:
        for listener in self._listeners:
            yield ListenerCounts(listener.name, len(listener.connections), listener.accepted_count)

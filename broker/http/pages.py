"""The pages of the HTTP port and what they show: metrics, health, the control channel.

The first connection builds the pages, since a start does not need them: they would be a twelfth of
its imports.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from siltstone.broker.http.api.broker import BrokerPages
from siltstone.broker.http.api.cleaner import CleanerTimeline
from siltstone.broker.http.api.groups import GroupPages
from siltstone.broker.http.api.questions import answering
from siltstone.broker.http.api.records import RecordPages, RecordReaders
from siltstone.broker.http.api.topics import TopicPages
from siltstone.broker.http.control.channel import ControlChannel, Status
from siltstone.broker.http.control.cleaner_pages import CleanerPages
from siltstone.broker.http.control.explaining import Explainer
from siltstone.broker.http.control.pin_pages import PinPages
from siltstone.broker.http.control.settings import SettingsPages
from siltstone.broker.http.health import DiskCheck, Health, LoopWatch
from siltstone.broker.http.metrics.exposition import Scrapes
from siltstone.broker.http.metrics.metric_sources import ListenerCounts, MetricSources
from siltstone.broker.http.metrics.recent import Recent
from siltstone.broker.http.readiness import LOADING, Readiness
from siltstone.broker.http.site import routes as site
from siltstone.broker.http.values import (
    Admission,
    HttpRequest,
    HttpResponse,
    Page,
    Route,
    text,
)
from siltstone.broker.net.buffers import Buffers
from siltstone.broker.net.listener import Listener
from siltstone.broker.process.first_use import OnFirstUse
from siltstone.broker.process.request_stats import RequestStats
from siltstone.broker.services import Services
from siltstone.broker.topics.cleaning import Cleaning
from siltstone.broker.topics.pins import PinRoom
from siltstone.broker.topics.scrub import Scrub
from siltstone.config.listeners import show_address

if TYPE_CHECKING:
    from siltstone.broker.http.control.explaining import Queues
    from siltstone.broker.http.control.trial import TrialPages
    from siltstone.broker.net.tls.endpoints import Endpoints
    from siltstone.broker.security.quotas.meter import Meter

_CONNECTIONS_AT_A_TIME = 1024
_MAX_SOFTWARE = 64  # characters of a name or of a version


@dataclass(frozen=True, slots=True, kw_only=True)
class Pages:
    """Builds the routes from the broker's parts (loop only); ``began`` is the monotonic start."""

    services: Services
    version: str
    began: float
    requests: RequestStats
    listeners: Sequence[Listener]
    loop_watch: LoopWatch
    readiness: Readiness
    cleaning: Cleaning
    pins: PinRoom
    scrub: Scrub
    certificates: Endpoints | None
    meter: OnFirstUse[Meter]
    buffers: Buffers
    trial: TrialPages | None

    def routes(self, admission: Admission) -> Iterator[Route]:
        """Yield every page; those that change something, or show records, ask ``admission``."""
        services = self.services
        logs, io, clock = services.logs, services.io, services.clock
        health = Health(
            self.loop_watch,
            [DiskCheck(each, io, clock) for each in logs.directories],
            lambda: logs.set_aside,
        )
        yield Route("GET", "/metrics", Scrapes(self._sources()).answer)
        yield Route("GET", "/healthz", health.answer, is_urgent=True)
        yield Route("GET", "/readyz", self.readiness.answer, is_urgent=True)
        control = ControlChannel(admission.is_trusted, io, self._status, logs.all_logs)
        yield from control.routes()
        explainer = Explainer(
            self.cleaning,
            services.topics,
            services.settings,
            clock,
            self.scrub.find_damage,
            self._explain_queues,
        )
        cleaner_pages = CleanerPages(self.cleaning, explainer, io, clock)
        pin_pages = PinPages(self.pins, services.topics, io, lambda: logs.cluster_id)
        after_start = (
            *SettingsPages(services.settings, io, logs.directories, self.certificates).routes(
                control.guarded
            ),
            *cleaner_pages.routes(control.guarded),
            *pin_pages.routes(control.guarded),
            *self._api(explainer, admission),
            *(() if self.trial is None else self.trial.routes(control.guarded)),
        )
        yield from site.routes()
        for route in after_start:
            yield replace(route, handle=self._once_started(route.handle))

    def _explain_queues(self, now_ms: int) -> Queues:
        """Return the explanations of queues in use; without coordinators no queue is in use."""
        coordinators = self.services.coordinators.built
        return {} if coordinators is None else coordinators.explain_queues(now_ms)

    def _api(self, explainer: Explainer, admission: Admission) -> Iterator[Route]:
        """Yield the pages that the web page requests."""
        services = self.services
        topics, groups = TopicPages(services, explainer), GroupPages(services)
        broker = BrokerPages(
            services, self.listeners, self.loop_watch, self.readiness, self._status
        )
        for name, answer in (
            ("overview", broker.overview),
            ("topics", topics.all),
            ("topic", topics.one),
            ("records", RecordPages(services, RecordReaders(services, admission)).some),
            ("cleaner", CleanerTimeline(services, self.cleaning, explainer).show),
            ("groups", groups.all),
            ("group", groups.one),
            ("connections", broker.connections),
            ("settings", broker.settings),
        ):
            yield Route("GET", f"/api/{name}", answering(answer))

    def _once_started(self, handle: Page) -> Page:
        """Return a page that needs the topics; until they are known, it answers so."""

        async def page(request: HttpRequest) -> HttpResponse:
            if self.readiness.is_starting:
                return text(
                    503,
                    f"the broker is still starting: {LOADING}; ask again when /readyz is ready",
                    ("Retry-After", "1"),
                )
            return await handle(request)

        return page

    def _status(self) -> Status:
        services = self.services
        return Status(
            version=self.version,
            ready=self.readiness.is_ready,
            uptime_seconds=self._uptime_seconds(),
            cluster_id=services.logs.cluster_id,
            node_id=services.settings.server.node_id,
            topics=len(services.topics.topics),
            partitions=len(services.logs.logs),
            connections=sum(len(listener.connections) for listener in self.listeners),
            advertised={
                name: show_address(host, port) for name, (host, port) in services.advertised.items()
            },
            log_dirs={
                str(directory.path): directory.trouble or "online"
                for directory in services.logs.directories
            },
        )

    def _sources(self) -> MetricSources:
        services = self.services
        logs = services.logs
        return MetricSources(
            version=self.version,
            started=services.clock.now_ms() / 1000 - self._uptime_seconds(),
            topics=services.topics,
            requests=self.requests,
            recent=Recent(
                services.clock, self.requests, self.loop_watch.lag, self._count_connections
            ),
            loop_lag=self.loop_watch.lag,
            listeners=self._count_connections,
            sessions=services.sessions,
            waiting_fetches=lambda: services.waiting.count,
            flushes=logs.services.flush_stats,
            offline_directories=lambda: {
                str(directory.path): directory.failure is not None for directory in logs.directories
            },
            dead_threads=self.readiness.find_dead_threads,
            ready=lambda: self.readiness.is_ready,
            starting=lambda: self.readiness.is_starting,
            software=self._list_software,
            max_lag_series=lambda: services.settings.server.metrics_max_lag_series,
            disks=lambda: {str(each.path): each.room for each in logs.directories},
            cleaning=self.cleaning,
            pins=self.pins,
            scrub=self.scrub,
            moves=services.moves,
            coordinators=services.coordinators,
            telemetry=services.telemetry,
            max_client_series=lambda: services.settings.server.metrics_max_client_series,
            certificates=self.certificates,
            meter=self.meter,
            buffers=self.buffers,
            limits=services.settings.limits,
        )

    def _uptime_seconds(self) -> float:
        return self.services.clock.monotonic() - self.began

    def _count_connections(self) -> Iterator[ListenerCounts]:
        for listener in self.listeners:
            yield ListenerCounts(listener.name, len(listener.connections), listener.accepted_count)

    def _list_software(self) -> Iterator[tuple[str, str, str] | None]:
        for listener in self.listeners:
            for number, connection in enumerate(tuple(listener.connections), 1):
                name, version = connection.software
                if name:
                    yield name[:_MAX_SOFTWARE], version[:_MAX_SOFTWARE], listener.name
                if not number % _CONNECTIONS_AT_A_TIME:
                    yield None

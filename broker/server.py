"""The composition root: builds, connects, starts and stops all parts.

Start: bind sockets, lock folders, serve HTTP, recover the logs and join them with the topics,
accept clients, run the cleaner, write and read back the probe's record. Stop: refuse new
connections, answer the requests in progress, end the cleaner's passes, flush and close the logs,
write the clean-shutdown file.
"""

from __future__ import annotations

import asyncio
import gc
import logging
import os
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from siltstone import VERSION
from siltstone.broker.api import APIS
from siltstone.broker.fetching.sessions import FetchSessions, SessionRoom
from siltstone.broker.fetching.waiting import Waiting
from siltstone.broker.http.health import LoopWatch, find_warning
from siltstone.broker.http.port import CertificateNote, HttpPort
from siltstone.broker.http.probe import Dial, Probe
from siltstone.broker.http.readiness import Readiness
from siltstone.broker.http.server import Routes
from siltstone.broker.net.addresses import Addresses
from siltstone.broker.net.advertised import announce, try_all
from siltstone.broker.net.binding import why_not_bound
from siltstone.broker.net.buffers import Buffers
from siltstone.broker.net.dispatch import Dispatcher
from siltstone.broker.net.exposed import warn_of_exposed
from siltstone.broker.net.listener import Listener
from siltstone.broker.net.sending.threads import SendingThreads
from siltstone.broker.net.turn.turn import LoopRound
from siltstone.broker.net.unread import Unread
from siltstone.broker.process.client_limits import Limit
from siltstone.broker.process.first_use import OnFirstUse
from siltstone.broker.process.housekeeping import Housekeeping
from siltstone.broker.process.io import IoThreads
from siltstone.broker.process.loop_share import LoopShare
from siltstone.broker.process.request_stats import RequestStats
from siltstone.broker.process.tasks import Tasks
from siltstone.broker.process.trial import NO_TRIAL, Trial
from siltstone.broker.security.private_file import PrivateFileError
from siltstone.broker.security.security import Security, SecurityFault
from siltstone.broker.services import Identity, Services
from siltstone.broker.topics.catalog_writer import CatalogWriter
from siltstone.broker.topics.cleaning import Cleaning
from siltstone.broker.topics.eligible_leaders import agree
from siltstone.broker.topics.features import Features
from siltstone.broker.topics.moves.manager import LogDirMoves
from siltstone.broker.topics.pins import PinRoom
from siltstone.broker.topics.registry import TopicRegistry
from siltstone.broker.topics.scrub import Scrub
from siltstone.broker.topics.settings.in_force import BrokerSettings
from siltstone.broker.topics.start import recover_topics
from siltstone.broker.transactions.producer_ids import ProducerIds
from siltstone.cleaner.manager import CleanerManager
from siltstone.config.errors import ConfigError, StartError
from siltstone.config.layers import Layers
from siltstone.config.listeners import AUTO, reachable, show_address
from siltstone.config.server import ServerConfig
from siltstone.config.tls import HTTP
from siltstone.protocol.names import INTERNAL_TOPICS
from siltstone.storage import files
from siltstone.storage.clock import Clock, ShiftedClock, give_way
from siltstone.storage.directory.catalog import Catalog
from siltstone.storage.directory.log_directory import LogDirError
from siltstone.storage.directory.roll_call import RollCall
from siltstone.storage.log.recovery import LoadStopped
from siltstone.storage.manager import LogManager

if TYPE_CHECKING:
    from siltstone.broker.coordinators import Coordinators
    from siltstone.broker.http.control.trial import TrialPages
    from siltstone.broker.net.login import Logins
    from siltstone.broker.net.tls.contexts import Endpoint
    from siltstone.broker.net.tls.endpoints import Endpoints
    from siltstone.broker.net.tls.handshakes import Handshakes
    from siltstone.broker.security.audited_changes import Changes
    from siltstone.broker.security.quotas.book import Quotas
    from siltstone.broker.security.quotas.meter import Meter
    from siltstone.broker.telemetry import Telemetry
    from siltstone.cleaner.threads.pool import CleanerPool

_logger = logging.getLogger(__name__)

# Collecting the youngest generation of objects takes a tenth of a millisecond, the next one a whole
# one. A large request creates objects that stay, so both happen in its turns of the loop.
_GC_THRESHOLDS = (3_000, 5, 7_000)
_IDLE_SCAN_SECONDS = 5.0
_JUDGE_SECONDS = 1.0
_MIN_CLOSE_SECONDS = 1.0
_JOURNAL_SECONDS = 0.5
_FIRST_CLIENT_SECONDS = 0.2

COORDINATOR_MODULES = (
    "siltstone.broker.coordination.journal", "siltstone.broker.groups.classic.group",
    "siltstone.broker.groups.consumer.group", "siltstone.broker.groups.coordinator",
    "siltstone.broker.groups.consumer.all_groups", "siltstone.broker.transactions.markers",
    "siltstone.broker.transactions.coordinator", "siltstone.broker.share.states",
    "siltstone.broker.coordinators",
)  # fmt: skip
"""The modules of the coordinators, in pieces that take some milliseconds to import."""

PAGE_MODULES = (
    "h11", "siltstone.broker.http.connection", "siltstone.broker.http.control.channel",
    "siltstone.broker.http.control.cleaner_pages", "siltstone.broker.http.control.pin_pages",
    "siltstone.broker.http.control.explaining", "siltstone.broker.http.control.settings",
    "siltstone.broker.http.api.topics", "siltstone.broker.http.api.groups",
    "siltstone.broker.http.api.broker", "siltstone.broker.http.metrics.table",
    "siltstone.broker.http.pages",
)  # fmt: skip
"""The modules that the HTTP pages need, in pieces that take some milliseconds to import."""


class Broker:
    """The whole broker (loop only). Each part gets the parts that it needs, built before it.

    ``start`` may fail half way with a ``StartError``. ``stop`` ends all that was started, in
    reverse order, and may also be called after a failed start. A background task that fails sets
    the event ``stop``: otherwise the broker would run on without retention, for example, and nobody
    would notice.
    """

    def __init__(
        self, layers: Layers, clock: Clock, stop: asyncio.Event, trial: Trial = NO_TRIAL
    ) -> None:
        self._clock = clock
        self._trial = trial
        self._stop = stop
        self._began = clock.monotonic()
        self._is_started = False
        self._are_logs_sound = False  # all logs are open, and no disk failed at the start
        self._tasks = Tasks(self._on_failed_task)
        given = layers.server()
        directories = [Path(name).absolute() for name in given.log_dirs]

        # The state from earlier runs
        io = self._io = IoThreads(given.num_io_threads)
        self._sending = SendingThreads(io, given.num_network_threads)
        self._writer = CatalogWriter(_read_catalog(directories), io, self._fail_first_directory)
        settings = self._settings = BrokerSettings(layers, self._writer)
        self.limits = settings.limits
        self._producer_ids = ProducerIds(self._writer)
        self._features = Features(self._writer)
        agree(self._features, settings)
        server = settings.server
        self._security = _read_security(directories, server, io, clock)
        self._certificate_note = CertificateNote(io, directories[0])
        self.certificates = _read_certificates(
            settings.layers, io, self._security, self._certificate_note.renew
        )

        # Logs, their cleaner and moves, and the topics
        self.logs = LogManager(directories, server, settings.stored_topic_config, clock)
        self._cleaner = CleanerManager(self.logs.logs, clock, give_way)
        pool = OnFirstUse(self._build_cleaner_pool)
        self._cleaning = Cleaning(self.logs, self._cleaner, pool, settings, io, clock)
        self.topics = TopicRegistry(self._writer, settings, self.logs, self._cleaning, io)
        self._moves = LogDirMoves(self.logs, self.topics, self._cleaning, settings, io, clock)
        self._scrub = Scrub(self.logs, settings, clock)
        self.pins = PinRoom(self._current, clock, self._cleaning.first_dirty_offset)
        self._housekeeping = Housekeeping(
            self.logs, self._current, clock, self._cleaning.is_reserved
        )

        # Requests, those that wait, and the listeners
        self.waiting = Waiting()
        self.coordinators = OnFirstUse(self._build_coordinators, COORDINATOR_MODULES)
        self._services = self._make_services()
        self.requests = RequestStats((api.key, api.name) for api in APIS)
        self._changes = _make_changes(self._security)
        self._dispatcher = Dispatcher(self.requests, self._changes)
        self.meter = OnFirstUse(self._build_meter)
        self._buffers = _make_buffers(settings)
        self._round = LoopRound(asyncio.get_running_loop(), self.logs.services.appends)
        self.addresses = Addresses(self._current, self.meter, self._count_open, clock.monotonic)
        self.listeners = [self._make_listener(bound.name) for bound in server.bound_listeners]
        self._security.on_quotas(self._keep_quotas)

        # The HTTP side
        self._loop_watch = LoopWatch(Clock())  # a real clock, also if a test moves time
        self.probe = Probe(self.logs, self.topics.logs, io, clock)
        self._readiness = Readiness(
            clock, self.probe.round_trip, self._find_dead_threads, self._find_remarks
        )
        self._pages = OnFirstUse(self._build_pages, PAGE_MODULES)
        self._http = self._make_http(directories[0])

    def _make_services(self) -> Services:
        """Return the services of handlers; all parts are built by now."""
        server = self._settings.server
        sessions = FetchSessions(
            SessionRoom(
                lambda: self._settings.server.max_incremental_fetch_session_cache_slots,
                lambda: self._settings.server.fetch_session_partitions_max_count,
                partial(self._settings.limits.note, Limit.SESSION_PARTITIONS),
            ),
            self._clock.monotonic,
            self.topics.get_log,
            self.logs.services.moved_starts,
        )
        return Services(
            settings=self._settings,
            clock=self._clock,
            logs=self.logs,
            topics=self.topics,
            moves=self._moves,
            producer_ids=self._producer_ids,
            features=self._features,
            coordinators=self.coordinators,
            io=self._io,
            waiting=self.waiting,
            sessions=sessions,
            telemetry=OnFirstUse(self._build_telemetry),
            identity=Identity(node_id=server.node_id, rack=server.broker_rack),
            advertised={},
            security=self._security,
        )

    def _make_listener(self, name: str) -> Listener:
        return Listener(
            name,
            self._services,
            self._buffers,
            self._round,
            self._sending,
            self._dispatcher.gate,
            self.addresses,
            logins=_make_logins(name, self._security),
            handshakes=self._find_handshakes(name),
        )

    def _make_http(self, directory: Path) -> HttpPort:
        return HttpPort(
            directory,
            self._settings,
            self._sending,
            self._security,
            self._find_handshakes(HTTP),
            self._find_pages,
        )

    def _find_handshakes(self, name: str) -> Handshakes | None:
        """Return the TLS handshakes of a listener, or of the HTTP port; None without TLS."""
        return None if self.certificates is None else self.certificates.handshakes.get(name)

    async def start(self) -> None:
        """Return when clients are served, or soon after ``stop`` was set meanwhile.

        Raises:
            StartError: A port, a folder or a file prevents the start.
        """
        fault = self._trial.find_fault(self._settings.server)
        if fault is not None:
            raise StartError(fault)
        self._bind()
        self._settings.on_change(self._readvertise)
        if self.certificates is not None:
            self._settings.before_change(self._check_certificates)
            self._settings.on_change(self._follow_certificates)
        try:
            self.logs.open()
            roll_call = RollCall(self.logs.directories)
            roll_call.check(self._writer.state, is_found=self._writer.found)
            # During a long recovery the HTTP port answers that the broker is alive and not ready
            # yet.
            await self._http.start()
            await self._io.run(self.logs.load, self._stop.is_set)
            await self._open_topics()
            await self._io.run(roll_call.note)
            await self._cleaning.load()
            await self._moves.resume()
        except LoadStopped:
            _logger.warning("stopping before all logs are open: the next start recovers them")
            return
        except LogDirError as error:
            raise StartError(str(error)) from error
        except OSError as error:
            raise StartError(
                f"the log directories cannot be opened: {error}; check the file and the disk"
            ) from error
        self._are_logs_sound = True
        _logger.info(
            "serving data log_dirs=%s cluster_id=%s node_id=%d",
            ",".join(str(directory.path) for directory in self.logs.directories),
            self.logs.cluster_id,
            self._services.identity.node_id,
        )
        if INTERNAL_TOPICS & self.topics.topics.keys():
            # Most journals are small: wait a little, so that the first clients need not retry.
            with suppress(TimeoutError):
                groups = self.coordinators.get().groups
                await asyncio.wait_for(groups.loaded.wait(), _JOURNAL_SECONDS)
        if self._stop.is_set():
            return
        gc.freeze()
        gc.set_threshold(*_GC_THRESHOLDS)
        for listener in self.listeners:
            listener.start()
        self._is_started = True
        await self._cleaning.start()
        await self._scrub.start()
        await self._open_probe()
        self._start_tasks()
        self._try_advertised()

    def _start_tasks(self) -> None:
        self._tasks.start(self._loop_watch.run(), "event loop watch")
        self._tasks.start(self._housekeeping.run(), "housekeeping")
        self._tasks.start(self.pins.run(), "pins")
        self._tasks.start(self._close_idle(), "idle connections")
        self._tasks.start(self._judge_clients(), "slow clients")
        self._tasks.start(self._preload(), "preload")
        if self.certificates is not None:
            self._tasks.start(self.certificates.watch(), "certificates")
        origin = self._settings.layers.origin
        if origin is not None and origin.path is not None:
            self._tasks.start(self._watch_file(origin.path), "settings file")

    async def wait_until_ready(self) -> None:
        """Return when the probe's record has made its round trip; `start` makes the first try."""
        is_ready = self._readiness.is_ready
        while not is_ready:
            await asyncio.sleep(_JUDGE_SECONDS)
            is_ready = await self._readiness.find_fault() is None

    def describe(self) -> dict[str, Any]:
        """Return the identity of the broker and its addresses, as JSON values."""
        told = self._services.advertised
        protocols = {each.name: each.protocol for each in self._settings.server.bound_listeners}
        return {
            "version": VERSION,
            "pid": os.getpid(),
            "cluster_id": self.logs.cluster_id,
            "node_id": self._services.identity.node_id,
            "bootstrap_servers": _reachable(self.listeners[0], told[self.listeners[0].name]),
            "listeners": [
                {
                    "name": each.name,
                    "security_protocol": protocols[each.name],
                    "bound": show_address(each.host or "*", each.port),
                    "advertised": show_address(*told[each.name]),
                }
                for each in self.listeners
            ],
            "http": show_address(*self._http.address),
            "log_dirs": [str(directory.path) for directory in self.logs.directories],
        }

    async def _watch_file(self, path: Path) -> None:
        # Imported late, since a start does not need it.
        from siltstone.broker.reload import SettingsFile  # noqa: PLC0415

        await SettingsFile(path, self._settings, self._io, self.certificates).run()

    async def _check_certificates(self, layers: Layers) -> None:
        if self.certificates is not None:
            await self.certificates.check(layers.server().tls_listeners())

    async def _follow_certificates(self) -> None:
        if self.certificates is not None:
            await self.certificates.follow(self._settings.server.tls_listeners())

    async def reload(self) -> None:
        """Read the settings again and put in force what may change; a fault is only logged."""
        from siltstone.broker.reload import reload  # noqa: PLC0415

        with suppress(ConfigError):
            await reload(self._settings, self._io, self.certificates)

    async def stop(self) -> bool:
        """Stop within ``graceful.shutdown.timeout.ms``; return whether all closed cleanly."""
        loop = asyncio.get_running_loop()
        seconds = self._settings.server.graceful_shutdown_timeout_ms / 1000
        deadline = loop.time() + seconds
        self._readiness.close()
        for listener in self.listeners:
            listener.stop()
        self.waiting.close()
        if self.coordinators.built is not None:
            self.coordinators.built.groups.release()
            self.coordinators.built.share_partitions.end_waiting()
        drain_until = deadline - max(_MIN_CLOSE_SECONDS, seconds / 2)
        await asyncio.gather(*(listener.drain(drain_until) for listener in self.listeners))
        if self._changes is not None:
            await self._changes.finish()
        await self._security.finish()
        await self._tasks.cancel()
        await self.probe.close()
        if self.coordinators.built is not None:
            await self.coordinators.built.close()
        await self._producer_ids.close()
        await self._settings.close()
        await self._features.close()
        await self._certificate_note.close()
        await self.topics.close()
        await self._moves.close()
        if self._is_started:
            await self._writer.close()
        await self._http.close()
        await self._readiness.end()
        await self.pins.close()
        await self._io.run(self._scrub.stop)
        cleaner_ended = await self._cleaning.stop()
        clean = await self._close_logs(deadline) and cleaner_ended
        self._sending.close()
        self._io.close()
        self._security.close()
        if self._is_started or self._stop.is_set():
            _logger.info("stopped clean=%s", clean)
        return clean

    def _bind(self) -> None:
        server = self._settings.server
        for listener, bound in zip(self.listeners, server.bound_listeners, strict=True):
            try:
                listener.bind(bound.host, bound.port)
            except OSError as error:
                raise StartError(f"cannot listen on {bound}: {why_not_bound(error)}") from error
        self._services.advertised.update(self._find_advertised())

    async def _open_topics(self) -> None:
        """Compare the catalogue with the folders of the logs, and serve the resulting topics."""
        now_ms = self._clock.now_ms()
        found = await recover_topics(self.logs, self._writer, self._settings, self._io, now_ms)
        self.topics.open(found)

    async def _readvertise(self) -> None:
        """Advertise to clients what advertised.listeners says after a change."""
        told = self._find_advertised()
        if told == self._services.advertised:
            return
        self._services.advertised.update(told)
        self._http.admit(self._settings.server.http_hosts)
        announce(told)
        self._try_advertised()

    def _find_advertised(self) -> dict[str, tuple[str, int]]:
        """Return the advertised address of each listener; all listeners are bound by now."""
        return {
            each.name: (each.host, each.port or listener.port)
            for listener, each in zip(self.listeners, self._settings.server.advertised, strict=True)
        }

    def _try_advertised(self) -> None:
        bound = [(listener.host, listener.port) for listener in self.listeners]
        self._tasks.start(try_all(self._services.advertised, bound), "advertised addresses")

    async def _open_probe(self) -> None:
        """Make the first round trip; if it fails, log why: the broker runs on and is not ready."""
        first = self.listeners[0]
        is_guarded = first.logins or first.handshakes or self._security.authorizer is not None

        def find_dial() -> Dial | None:
            has_quotas = self.meter.built is not None  # those of all clients would hold it up, too
            return first.dial if is_guarded or has_quotas else None

        self.probe.aim((first.host, first.port), find_dial)
        for listener in self.listeners:
            _logger.info(
                "listening listener=%s address=%s",
                listener.name,
                show_address(listener.host or "*", listener.port),
            )
        announce(self._services.advertised)
        warn_of_exposed(self._settings.server)
        self._readiness.open()
        fault = await self._readiness.find_fault()
        if fault is not None:
            _logger.error("not ready reason=%s", fault)
            return
        if self._stop.is_set():
            return
        _logger.info(
            "ready version=%s topics=%d partitions=%d seconds=%.2f",
            VERSION,
            len(self.topics.topics),
            len(self.logs.logs),
            self._clock.monotonic() - self._began,
        )

    async def _close_logs(self, deadline: float) -> bool:
        loop = asyncio.get_running_loop()
        seconds = max(_MIN_CLOSE_SECONDS, deadline - loop.time())
        try:
            return await asyncio.wait_for(
                self._io.run(self.logs.close, clean=self._are_logs_sound), seconds
            )
        except TimeoutError:
            _logger.warning(
                "stopped before the logs were flushed seconds=%.1f: the next start recovers them; "
                "see graceful.shutdown.timeout.ms",
                seconds,
            )
            return False

    def _on_failed_task(self, task: asyncio.Task[None]) -> None:
        _logger.critical(
            "task failed, stopping task=%s", task.get_name(), exc_info=task.exception()
        )
        self._stop.set()

    async def _close_idle(self) -> None:
        while True:
            await asyncio.sleep(_IDLE_SCAN_SECONDS)
            for listener in self.listeners:
                listener.close_idle()

    async def _judge_clients(self) -> None:
        while True:
            await asyncio.sleep(_JUDGE_SECONDS)
            self._buffers.judge(_JUDGE_SECONDS)

    async def _preload(self) -> None:
        """Import what the first requests need, one module at a time, while clients are served.

        It waits a moment before: the clients that waited for the port are served first.
        """
        await asyncio.sleep(_FIRST_CLIENT_SECONDS)
        for _ in chain(self._dispatcher.preload(), self.coordinators.preload()):
            await asyncio.sleep(0.001)
        gc.freeze()

    async def _find_pages(self) -> Routes:
        """Return the pages; the first HTTP connection imports them, in steps between other work."""
        if self._pages.built is None:
            share = LoopShare()
            for _ in self._pages.preload():
                await share.rest()
        return self._pages.get()

    # Parts that are built after the start

    def _build_coordinators(self) -> Coordinators:
        """Build the coordinators and start the replay of their journals; the topics are known."""
        from siltstone.broker.coordinators import Coordinators  # noqa: PLC0415

        coordinators = Coordinators(
            self.topics, self._settings, self._io, self._clock, self._producer_ids, self._features
        )
        self._tasks.start(coordinators.run_groups(), "groups")
        self._tasks.start(coordinators.run_transactions(), "transactions")
        self._tasks.start(coordinators.run_share_states(), "queues")
        return coordinators

    def _build_telemetry(self) -> Telemetry:
        from siltstone.broker.telemetry import Telemetry  # noqa: PLC0415

        return Telemetry(self._settings, self._clock)

    def _build_meter(self) -> Meter:
        from siltstone.broker.security.quotas.meter import Meter  # noqa: PLC0415
        from siltstone.broker.security.quotas.rates import Windows  # noqa: PLC0415

        server = self._settings.server
        return Meter(
            self._security.quotas.get(),
            self._clock,
            Windows(server.quota_window_num, server.quota_window_size_seconds),
            Windows(
                server.controller_quota_window_num, server.controller_quota_window_size_seconds
            ),
        )

    def _keep_quotas(self, quotas: Quotas) -> None:
        """Count requests for quotas as long as there is a quota.

        If a quota is higher now, or removed, the clients that wait for it wait less long.
        """
        if not quotas.keys and self.meter.built is None:
            return
        meter = self.meter.get()
        meter.look_for_change()
        self._dispatcher.meter(meter.find_handler, meter.find_timer())
        for listener in self.listeners:
            listener.shorten_waits(meter.find_wait)

    def _build_cleaner_pool(self) -> CleanerPool:
        """Create the pool of cleaner threads, with the history of earlier passes. Blocks."""
        from siltstone.broker.topics.cleaner_pool import make_pool  # noqa: PLC0415

        paths = [directory.path for directory in self.logs.directories]
        return make_pool(self._cleaner, self._clock, self._settings.server, paths)

    def _build_pages(self) -> Routes:
        from siltstone.broker.http.pages import Pages  # noqa: PLC0415

        pages = Pages(
            services=self._services,
            version=VERSION,
            began=self._began,
            requests=self.requests,
            listeners=self.listeners,
            loop_watch=self._loop_watch,
            readiness=self._readiness,
            cleaning=self._cleaning,
            pins=self.pins,
            scrub=self._scrub,
            certificates=self.certificates,
            meter=self.meter,
            buffers=self._buffers,
            trial=self._build_trial_pages(),
        )
        return Routes(pages.routes(self._http.admission))

    def _build_trial_pages(self) -> TrialPages | None:
        """Return the pages for tests; None, without any import, unless an option allows them."""
        if not any(self._trial):
            return None
        from siltstone.broker.http.control.trial import PassingTime, TrialPages  # noqa: PLC0415
        from siltstone.broker.http.control.trial_state import TrialState  # noqa: PLC0415
        from siltstone.broker.net.faults import Faults  # noqa: PLC0415

        passing_time = None
        if isinstance(self._clock, ShiftedClock):
            passing_time = PassingTime(
                self._clock,
                self.coordinators,
                self._housekeeping,
                self.pins,
                self._cleaning,
                self._io,
            )
        faults = Faults(self._dispatcher) if self._trial.makes_faults else None
        state = TrialState(self._settings, self.topics, self._security, self.coordinators)
        return TrialPages(passing_time, faults, state)

    def _fail_first_directory(self, error: OSError) -> None:
        """Take the first log directory offline, too: the catalogue is in it."""
        self.logs.directories[0].fail(error)

    def _current(self) -> ServerConfig:
        return self._settings.server

    def _count_open(self) -> int:
        return sum(listener.open_count for listener in self.listeners)

    def _find_dead_threads(self) -> list[str]:
        dead = [] if self.logs.background.alive else ["housekeeping"]
        return dead + self._cleaning.dead_threads

    def _find_remarks(self) -> list[str]:
        """Return sentences about what an operator should repair, although clients are served."""
        warnings = map(find_warning, self.logs.directories)
        found = [each for each in warnings if each is not None]
        return [*found, *self._scrub.remarks(), *self._cleaning.remarks()]


def _reachable(listener: Listener, told: tuple[str, int]) -> str:
    """Return the address of a listener for clients on this machine, not the advertised one."""
    if told[0] == AUTO:
        return show_address(reachable(listener.host), listener.port)
    return show_address(*told)


def _make_changes(security: Security) -> Changes | None:
    if security.audit is None:
        return None
    from siltstone.broker.security.audited_changes import Changes  # noqa: PLC0415  # few brokers tell

    return Changes(security.audit)


def _make_logins(listener: str, security: Security) -> Logins | None:
    mechanisms = security.mechanisms.get(listener)
    if mechanisms is None:
        return None
    from siltstone.broker.net.login import Logins  # noqa: PLC0415  # few listeners ask for a login

    return Logins(listener, mechanisms, security.audit)


def _read_security(
    directories: Sequence[Path], server: ServerConfig, io: IoThreads, clock: Clock
) -> Security:
    security = Security(directories[0], io, clock)
    try:
        for folder in directories[1:]:
            for name in (files.ACLS, files.USERS):
                if files.find_size(str(folder / name)) is not None:
                    raise StartError(
                        f"{folder / name} is not in the first log directory, so that nobody would "
                        f"obey it; put {folder} first in log.dirs, or move the file to "
                        f"{directories[0]}"
                    )
        security.load(server)
    except (PrivateFileError, SecurityFault) as error:
        raise StartError(str(error)) from error
    except OSError as error:
        raise StartError(f"cannot read users, quotas and ACLs: {error}; check the disk") from error
    return security


def _make_buffers(settings: BrokerSettings) -> Buffers:
    """Return what limits the memory of incomplete requests and of answers that nobody reads."""
    note = settings.limits.note
    unread = Unread(
        lambda: settings.server.queued_max_response_bytes, partial(note, Limit.UNREAD_BYTES)
    )
    return Buffers(
        settings.server.queued_max_request_bytes, partial(note, Limit.QUEUED_BYTES), unread
    )


def _read_catalog(directories: Sequence[Path]) -> Catalog:
    catalog = Catalog(directories)
    try:
        catalog.load()
    except LogDirError as error:
        raise StartError(str(error)) from error
    return catalog


_ALTERED: Final = (
    "these count before the settings file, so mend what they name, or remove them from "
    "broker_configs in siltstone-catalog.json, and its crc32c"
)


def _read_certificates(
    layers: Layers, io: IoThreads, security: Security, on_taken: Callable[[str, Endpoint], None]
) -> Endpoints | None:
    settings = layers.server().tls_listeners()
    if not settings:
        return None
    from siltstone.broker.net.tls.contexts import TlsError  # noqa: PLC0415  # ssl: 10 ms
    from siltstone.broker.net.tls.endpoints import Endpoints  # noqa: PLC0415

    try:
        return Endpoints(settings, io, security.audit, on_taken)
    except TlsError as error:
        altered = " ".join(name for name in sorted(layers.broker) if ".ssl." in name)
        hint = f"; kafka-configs has altered {altered}: {_ALTERED}" if altered else ""
        raise StartError(f"{error}{hint}") from error

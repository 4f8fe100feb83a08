"""The composition root: builds every part, hands them to each other, starts and stops them.

Start: bind sockets, lock folders, serve HTTP, recover the logs and join them with the topics,
accept clients, run the cleaner, write and read back the probe's record. Stop: refuse new
connections, answer the requests that are being served, end the cleaner's passes, flush and close
the logs, write the clean-shutdown file.
"""

from __future__ import annotations

import asyncio
import gc
import logging
import time
from contextlib import suppress
from functools import partial
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING

from siltstone import VERSION
from siltstone.broker.api import APIS
from siltstone.broker.context import Identity, Rooms
from siltstone.broker.fetching.sessions import FetchSessions
from siltstone.broker.fetching.waiting import Waiting
from siltstone.broker.http.control.token import ControlToken, note_address
from siltstone.broker.http.health import LoopWatch
from siltstone.broker.http.probe import Probe
from siltstone.broker.http.readiness import Readiness
from siltstone.broker.http.server import HttpServer, Routes
from siltstone.broker.http.values import Admission
from siltstone.broker.net.advertised import announce, try_all
from siltstone.broker.net.buffers import Buffers
from siltstone.broker.net.dispatch import Dispatcher
from siltstone.broker.net.listener import Listener
from siltstone.broker.net.request_stats import RequestStats
from siltstone.broker.process.first_use import OnFirstUse
from siltstone.broker.process.housekeeping import Housekeeping
from siltstone.broker.process.io import IoThreads
from siltstone.broker.process.tasks import Tasks
from siltstone.broker.topics.catalog_writer import CatalogWriter
from siltstone.broker.topics.cleaning import Cleaning
from siltstone.broker.topics.eligible_leaders import agree
from siltstone.broker.topics.features import Features
from siltstone.broker.topics.internal import OFFSETS_TOPIC, TRANSACTIONS_TOPIC
from siltstone.broker.topics.moves.manager import LogDirMoves
from siltstone.broker.topics.pins import PinRoom
from siltstone.broker.topics.registry import TopicRegistry
from siltstone.broker.topics.settings.in_force import BrokerSettings
from siltstone.broker.transactions.producer_ids import ProducerIds
from siltstone.cleaner.manager import CleanerManager
from siltstone.config.errors import ConfigError
from siltstone.protocol import core
from siltstone.storage.directory.catalog import Catalog
from siltstone.storage.directory.log_directory import LogDirError
from siltstone.storage.manager import LogManager

if TYPE_CHECKING:
    from collections.abc import Sequence

    from siltstone.broker.coordination.coordinators import Coordinators
    from siltstone.broker.net.sending.senders import Senders
    from siltstone.cleaner.threads.pool import CleanerPool
    from siltstone.config.layers import Layers
    from siltstone.config.server import ServerConfig
    from siltstone.storage.clock import Clock

log = logging.getLogger(__name__)

# The youngest are looked through in a fraction of a millisecond, those that survive in two.
_GC_THRESHOLDS = (10_000, 5, 2_000)
_IDLE_SCAN_SECONDS = 5.0
_JUDGE_SECONDS = 1.0
_MIN_CLOSE_SECONDS = 1.0
_JOURNAL_SECONDS = 0.5
_FIRST_CLIENT_SECONDS = 0.2

COORDINATOR_MODULES = (
    "siltstone.broker.coordination.journal",
    "siltstone.broker.groups.classic.group",
    "siltstone.broker.groups.consumer.group",
    "siltstone.broker.groups.consumer.all_groups",
    "siltstone.broker.groups.coordinator",
    "siltstone.broker.transactions.markers",
    "siltstone.broker.transactions.coordinator",
    "siltstone.broker.coordination.coordinators",
)
"""What the coordinators are made of, in pieces of some milliseconds."""

PAGE_MODULES = (
    "h11",
    "siltstone.broker.http.connection",
    "siltstone.broker.http.control.channel",
    "siltstone.broker.http.control.cleaner",
    "siltstone.broker.http.control.pins",
    "siltstone.broker.http.control.explaining",
    "siltstone.broker.http.control.settings",
    "siltstone.broker.http.metrics.table",
    "siltstone.broker.http.pages",
)
"""What a page over HTTP needs, in such pieces."""


class StartError(Exception):
    """The broker cannot start; the text says what is in the way and what to do."""


class Broker:
    """The whole broker (loop only). Each part is handed what it needs, which was built before it.

    ``start`` may be left half way by a ``StartError``; ``stop`` ends whatever was started, in
    reverse, and is safe to call then too. A background task that fails sets the event ``stop``: the
    broker would otherwise serve without retention, say, and nobody would know.
    """

    def __init__(self, layers: Layers, clock: Clock, stop: asyncio.Event) -> None:
        self._clock = clock
        self._stop = stop
        self._began = clock.monotonic()
        self._is_started = False
        self._tasks = Tasks(self._on_failed_task)
        given = layers.server()
        directories = [Path(name).absolute() for name in given.log_dirs]

        # What the broker has kept from earlier runs
        io = self._io = _make_io(given.num_io_threads, given.num_network_threads)
        catalog = _read_catalog(directories)
        self._writer = CatalogWriter(catalog, io, self._fail_first_directory)
        settings = self._settings = BrokerSettings(layers, self._writer)
        self._producer_ids = ProducerIds(self._writer)
        self._features = Features(self._writer)
        agree(self._features, settings)
        server = settings.server

        # Logs, their cleaner and moves, and the topics
        self.logs = LogManager(directories, server, settings.stored_topic_config, clock)
        self._cleaner = CleanerManager(self.logs.logs, clock, lambda: time.sleep(0))
        pool = OnFirstUse(self._build_cleaner_pool)
        self._cleaning = Cleaning(self.logs, self._cleaner, pool, settings, io, clock)
        self.topics = TopicRegistry(self._writer, settings, self.logs, self._cleaning, io)
        self._moves = LogDirMoves(self.logs, self.topics, self._cleaning, settings, io, clock)
        self._pins = PinRoom(self._current, clock, self._cleaning.first_dirty_offset)
        self._housekeeping = Housekeeping(
            self.logs, self._current, clock, self._cleaning.is_reserved
        )

        # Requests, those that wait, and the listeners
        self.waiting = Waiting()
        self.coordinators = OnFirstUse(self._build_coordinators, COORDINATOR_MODULES)
        self._rooms = self._make_rooms()
        self.requests = RequestStats((api.key, api.name) for api in APIS)
        self._dispatcher = Dispatcher(self.requests)
        self._buffers = Buffers(server.queued_max_request_bytes)
        gate = self._dispatcher.gate
        self.listeners = [
            Listener(bound.name, self._rooms, self._buffers, gate, self._count_connections)
            for bound in server.bound_listeners
        ]

        # The HTTP side
        self._loop_watch = LoopWatch(clock)
        self.probe = Probe(self.logs, self.topics.logs, io, clock)
        self._readiness = Readiness(
            clock, self.probe.round_trip, self._find_dead_threads, self._cleaning.remarks
        )
        self._token = ControlToken(directories[0])
        self._pages = OnFirstUse(self._build_pages, PAGE_MODULES)
        self._http = HttpServer(
            self._pages.get,
            admission=Admission(hosts=server.http_hosts, is_trusted=self._token.is_brought_by),
        )

    def _make_rooms(self) -> Rooms:
        """Return what handlers work with; all of it is built."""
        server = self._settings.server
        sessions = FetchSessions(
            lambda: self._settings.server.max_incremental_fetch_session_cache_slots,
            self._clock.monotonic,
            self.topics.get_log,
            self.logs.moved_starts,
        )
        return Rooms(
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
            identity=Identity(node_id=server.node_id, rack=server.broker_rack),
            advertised={},
        )

    async def start(self) -> None:
        """Return when clients are served.

        Raises:
            StartError: A port, a folder or a file is in the way.
        """
        self._bind()
        try:
            self.logs.open()
            # During a long recovery HTTP answers: alive, not ready yet.
            await self._start_http()
            await self._io.run(self.logs.load)
            await self.topics.open(self._clock.now_ms())
            await self._cleaning.load()
            await self._moves.resume()
        except LogDirError as error:
            raise StartError(str(error)) from error
        except OSError as error:
            raise StartError(
                f"the log directories cannot be opened: {error}; check the file and the disk"
            ) from error
        log.info(
            "serving data log_dirs=%s cluster_id=%s node_id=%d",
            ",".join(str(directory.path) for directory in self.logs.directories),
            self.logs.cluster_id,
            self._rooms.identity.node_id,
        )
        if {OFFSETS_TOPIC, TRANSACTIONS_TOPIC} & self.topics.topics.keys():
            # Most journals are small: wait a little, so that the first clients need not retry.
            with suppress(TimeoutError):
                groups = self.coordinators.get().groups
                await asyncio.wait_for(groups.loaded.wait(), _JOURNAL_SECONDS)
        gc.freeze()
        gc.set_threshold(*_GC_THRESHOLDS)
        for listener in self.listeners:
            listener.start()
        self._is_started = True
        await self._cleaning.start()
        await self._open_probe()
        self._tasks.start(self._loop_watch.run(), "event loop watch")
        self._tasks.start(self._housekeeping.run(), "housekeeping")
        self._tasks.start(self._pins.run(), "pins")
        self._tasks.start(self._close_idle(), "idle connections")
        self._tasks.start(self._judge_clients(), "slow clients")
        self._tasks.start(self._preload(), "preload")
        bound = [(listener.host, listener.port) for listener in self.listeners]
        self._tasks.start(try_all(self._rooms.advertised, bound), "advertised addresses")

    async def reload(self) -> None:
        """Read the settings again and put in force what may change; a fault is only logged."""
        from siltstone.broker.topics.settings.reload import reload  # noqa: PLC0415

        with suppress(ConfigError):
            await reload(self._settings, self._io)

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
        drain_until = deadline - max(_MIN_CLOSE_SECONDS, seconds / 2)
        await asyncio.gather(*(listener.drain(drain_until) for listener in self.listeners))
        await self._tasks.cancel()
        await self.probe.close()
        if self.coordinators.built is not None:
            await self.coordinators.built.close()
        await self._producer_ids.close()
        await self._settings.close()
        await self.topics.close()
        await self._moves.close()
        if self._is_started:
            await self._writer.close()
        await self._http.close()
        await self._readiness.end()
        await self._pins.close()
        cleaner_ended = await self._cleaning.stop()
        clean = await self._close_logs(deadline) and cleaner_ended
        self._io.close()
        if self._is_started:
            log.info("stopped clean=%s", clean)
        return clean

    def _bind(self) -> None:
        server = self._settings.server
        for listener, bound, told in zip(
            self.listeners, server.bound_listeners, server.advertised, strict=True
        ):
            try:
                listener.bind(bound.host, bound.port)
            except OSError as error:
                raise StartError(
                    f"cannot listen on {bound}: {error.strerror or error}; stop what uses the "
                    "address or choose another in listeners"
                ) from error
            self._rooms.advertised[bound.name] = (told.host, told.port or listener.port)

    async def _start_http(self) -> None:
        host, port = self._settings.server.http_address
        try:
            self._token.ensure()
        except OSError as error:
            raise StartError(f"cannot write the control token: {error}") from error
        try:
            addresses = await self._http.start(host, port)
        except OSError as error:
            raise StartError(
                f"cannot listen on http.listener {host}:{port}: {error.strerror or error}; stop "
                "what uses the address or choose another in http.listener"
            ) from error
        note_address(self.logs.directories[0].path, *addresses[0])
        for bound_host, bound_port in addresses:
            log.info("listening listener=http address=%s:%d", bound_host, bound_port)

    async def _open_probe(self) -> None:
        """Make the first round trip; if it fails the broker runs on, not ready, and logs why."""
        first = self.listeners[0]
        await self.probe.open((first.host, first.port))
        for listener in self.listeners:
            log.info(
                "listening listener=%s address=%s:%d",
                listener.name,
                listener.host or "*",
                listener.port,
            )
        announce(self._rooms.advertised)
        self._readiness.open()
        fault = await self._readiness.find_fault()
        if fault is not None:
            log.error("not ready reason=%s", fault)
            return
        log.info(
            "ready version=%s kernels=%s topics=%d partitions=%d seconds=%.2f",
            VERSION,
            _kernels(),
            len(self.topics.topics),
            len(self.logs.logs),
            self._clock.monotonic() - self._began,
        )

    async def _close_logs(self, deadline: float) -> bool:
        loop = asyncio.get_running_loop()
        seconds = max(_MIN_CLOSE_SECONDS, deadline - loop.time())
        try:
            return await asyncio.wait_for(
                self._io.run(self.logs.close, clean=self._is_started), seconds
            )
        except TimeoutError:
            log.warning(
                "stopped before the logs were flushed seconds=%.1f: the next start recovers them; "
                "see graceful.shutdown.timeout.ms",
                seconds,
            )
            return False

    def _on_failed_task(self, task: asyncio.Task[None]) -> None:
        log.critical("task failed, stopping task=%s", task.get_name(), exc_info=task.exception())
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
        """Import what first requests need, one module at a time, once clients are served.

        It waits a moment first: clients that waited for the port are served before.
        """
        await asyncio.sleep(_FIRST_CLIENT_SECONDS)
        for _ in chain(
            self._dispatcher.preload(), self.coordinators.preload(), self._pages.preload()
        ):
            await asyncio.sleep(0.001)
        gc.freeze()

    # Parts that a start has no time for

    def _build_coordinators(self) -> Coordinators:
        """Build both coordinators, which read their journals; the topics are known."""
        from siltstone.broker.coordination.coordinators import Coordinators  # noqa: PLC0415

        coordinators = Coordinators(
            self.topics,
            self._settings,
            self._io,
            self._clock,
            self._producer_ids,
            self._features,
        )
        self._tasks.start(coordinators.groups.run(), "groups")
        self._tasks.start(coordinators.run_transactions(), "transactions")
        return coordinators

    def _build_cleaner_pool(self) -> CleanerPool:
        """Make the cleaner's threads, with the history of earlier passes. Blocks."""
        from siltstone.broker.topics.cleaner_pool import make_pool  # noqa: PLC0415

        paths = [directory.path for directory in self.logs.directories]
        return make_pool(self._cleaner, self._clock, self._settings.server, paths)

    def _build_pages(self) -> Routes:
        from siltstone.broker.http.pages import Pages  # noqa: PLC0415

        pages = Pages(
            self._rooms,
            version=VERSION,
            kernels=_kernels(),
            began=self._began,
            requests=self.requests,
            listeners=self.listeners,
            loop_watch=self._loop_watch,
            readiness=self._readiness,
            cleaning=self._cleaning,
            pins=self._pins,
        )
        return Routes(pages.routes(self._token.is_brought_by))

    def _fail_first_directory(self, error: OSError) -> None:
        """Fail the first log directory too: the catalogue is in it."""
        self.logs.directories[0].fail(error)

    def _current(self) -> ServerConfig:
        return self._settings.server

    def _count_connections(self) -> int:
        return sum(len(listener.connections) for listener in self.listeners)

    def _find_dead_threads(self) -> list[str]:
        dead = [] if self.logs.background.alive else ["housekeeping"]
        return dead + self._cleaning.dead_threads


def _make_io(count: int, sender_count: int) -> IoThreads:
    """Return the threads that wait; without compiled code nobody sends beside the loop."""
    senders = OnFirstUse(partial(_start_senders, sender_count))
    return IoThreads(count, senders if sender_count and core.COMPILED else None)


def _read_catalog(directories: Sequence[Path]) -> Catalog:
    catalog = Catalog(directories)
    try:
        catalog.load()
    except LogDirError as error:
        raise StartError(str(error)) from error
    return catalog


def _start_senders(count: int) -> Senders:
    from siltstone.broker.net.sending.senders import Senders  # noqa: PLC0415

    return Senders(count)


def _kernels() -> str:
    return "compiled" if core.COMPILED else "off"

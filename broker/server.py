"""The composition root: builds every part, hands them to each other, starts and stops them.

Start: sockets are bound, folders locked, HTTP answers, logs are recovered and joined with the
topics, listeners accept, the cleaner runs, the probe has written and read back. Stop, in reverse:
no new connections, what is owed is answered, passes of the cleaner are ended, logs are flushed and
closed, the clean-shutdown mark is written. Longer than 300 lines because all parts meet here.
"""

from __future__ import annotations

import asyncio
import gc
import logging
from contextlib import suppress
from functools import partial
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING

from siltstone import VERSION
from siltstone.broker.api import APIS
from siltstone.broker.context import Identity, Rooms
from siltstone.broker.coordination.coordinators import Coordinators
from siltstone.broker.fetching.sessions import FetchSessions
from siltstone.broker.fetching.waiting import Waiting
from siltstone.broker.http.control.token import brings_token, ensure_token, note_address
from siltstone.broker.http.health import LoopWatch
from siltstone.broker.http.probe import Probe
from siltstone.broker.http.readiness import Readiness
from siltstone.broker.http.server import Admission, HttpServer
from siltstone.broker.net.advertised import announce, try_all
from siltstone.broker.net.buffers import Buffers
from siltstone.broker.net.dispatch import Dispatcher
from siltstone.broker.net.listener import Listener
from siltstone.broker.net.request_stats import RequestStats
from siltstone.broker.process.housekeeping import Housekeeping
from siltstone.broker.process.io import IoThreads
from siltstone.broker.topics.catalog_writer import CatalogWriter
from siltstone.broker.topics.cleaning import Cleaning
from siltstone.broker.topics.eligible_leaders import agree
from siltstone.broker.topics.features import Features
from siltstone.broker.topics.moves.manager import LogDirMoves
from siltstone.broker.topics.pins import PinRoom
from siltstone.broker.topics.registry import TopicRegistry
from siltstone.broker.topics.settings.in_force import BrokerSettings
from siltstone.broker.transactions.producer_ids import ProducerIds
from siltstone.config.errors import ConfigError
from siltstone.protocol import core
from siltstone.storage.directory.catalog import Catalog
from siltstone.storage.directory.log_directory import LogDirError
from siltstone.storage.manager import LogManager

if TYPE_CHECKING:
    from collections.abc import Coroutine, Iterator
    from typing import Any

    from siltstone.broker.http.server import Route
    from siltstone.config.layers import Layers
    from siltstone.storage.clock import Clock

log = logging.getLogger(__name__)

# The youngest are looked through in a fraction of a millisecond, those that survive in two.
_GC_THRESHOLDS = (10_000, 5, 2_000)
_IDLE_SCAN_SECONDS = 5.0
_JUDGE_SECONDS = 1.0
_MIN_CLOSE_SECONDS = 1.0
_JOURNAL_SECONDS = 0.5
_FIRST_CLIENT_SECONDS = 0.2


class StartError(Exception):
    """The broker cannot start; the text says what is in the way and what to do."""


class Broker:
    """The whole broker (loop only).

    ``start`` may be left half way by a ``StartError``; ``stop`` ends whatever was started, in
    reverse, and is safe to call then too. A background task that fails stops the broker: it would
    otherwise serve without retention, say, and nobody would know.
    """

    def __init__(self, layers: Layers, clock: Clock) -> None:
        self._clock = clock
        self._began = clock.monotonic()
        self._directories = [Path(name).absolute() for name in layers.server().log_dirs]
        self._catalog = Catalog(self._directories)
        try:
            self._catalog.load()
        except LogDirError as error:
            raise StartError(str(error)) from error
        threads = layers.server()
        self._io = IoThreads(threads.num_io_threads, threads.num_network_threads)
        self._writer = CatalogWriter(self._catalog, self._io)
        self._settings = BrokerSettings(layers, self._writer)
        self._waiting = Waiting()
        self._topics = TopicRegistry(self._writer, self._settings, self._io)
        server = self._settings.server
        self._logs = LogManager(self._directories, server, self._topics.config_for, clock)
        self._producer_ids = ProducerIds(self._writer)
        self._features = Features(self._writer)
        agree(self._features, self._settings)
        self._coordinators = Coordinators(
            self._topics,
            self._settings,
            self._io,
            clock,
            self._producer_ids,
            self._features,
        )
        self._sessions = FetchSessions(
            lambda: self._settings.server.max_incremental_fetch_session_cache_slots,
            clock.monotonic,
            self._topics.get_log,
            self._logs.moved_starts,
        )
        self._requests = RequestStats((api.key, api.name) for api in APIS)
        self._dispatcher = Dispatcher(self._requests)
        self._loop_watch = LoopWatch(clock)
        self._cleaning = Cleaning(self._logs, self._settings, self._io, clock)
        self._topics.cleaning = self._cleaning
        self._moves = self._topics.moves = LogDirMoves(
            self._logs, self._topics, self._cleaning, self._settings, self._io, clock
        )
        self._pins = PinRoom(
            lambda: self._settings.server, clock, self._cleaning.first_dirty_offset
        )
        self._housekeeping = Housekeeping(
            self._logs, lambda: self._settings.server, clock, self._cleaning.is_reserved
        )
        self._readiness = Readiness(clock, self._find_dead_threads, self._cleaning.remarks)
        self._probe: Probe | None = None
        self._rooms: Rooms | None = None
        self._listeners: list[Listener] = []
        self._http: HttpServer | None = None
        self._tasks: list[asyncio.Task[Any]] = []
        self._is_started = False

    async def start(self, stop: asyncio.Event) -> None:
        """Return when clients are served; ``stop`` is set if a background task fails later.

        Raises:
            StartError: A port, a folder or a file is in the way.
        """
        advertised: dict[str, tuple[str, int]] = {}
        self._rooms = rooms = Rooms(
            settings=self._settings,
            clock=self._clock,
            logs=self._logs,
            topics=self._topics,
            moves=self._moves,
            producer_ids=self._producer_ids,
            features=self._features,
            coordinators=self._coordinators,
            io=self._io,
            waiting=self._waiting,
            sessions=self._sessions,
            identity=Identity(cluster_id="", node_id=self._settings.server.node_id),
            advertised=advertised,
        )
        self._bind(rooms, advertised)
        try:
            self._logs.open()
            # Whoever watches a long recovery is answered: alive, not ready yet.
            await self._start_http(rooms)
            await self._io.run(self._logs.load)
            await self._topics.open(self._logs, self._clock.now_ms())
            await self._cleaning.load()
            await self._moves.resume()
        except LogDirError as error:
            raise StartError(str(error)) from error
        except OSError as error:
            raise StartError(
                f"the log directories cannot be opened: {error}; check the file and the disk"
            ) from error
        rooms.identity = Identity(
            cluster_id=self._logs.cluster_id,
            node_id=self._settings.server.node_id,
            rack=self._settings.server.broker_rack,
        )
        log.info(
            "serving data log_dirs=%s cluster_id=%s node_id=%d",
            ",".join(map(str, self._directories)),
            rooms.identity.cluster_id,
            rooms.identity.node_id,
        )
        self._coordinators.start(partial(self._spawn, stop=stop))
        if self._coordinators.have_journals:
            # Most journals are small: whoever comes now need not be told to come again.
            with suppress(TimeoutError):
                groups = self._coordinators.groups
                await asyncio.wait_for(groups.loaded.wait(), _JOURNAL_SECONDS)
        gc.freeze()
        gc.set_threshold(*_GC_THRESHOLDS)
        for listener in self._listeners:
            listener.start()
        self._is_started = True
        await self._cleaning.start()
        await self._open_probe(rooms)
        self._spawn(self._loop_watch.run(), "event loop watch", stop)
        self._spawn(self._housekeeping.run(), "housekeeping", stop)
        self._spawn(self._pins.run(), "pins", stop)
        self._spawn(self._close_idle(), "idle connections", stop)
        self._spawn(self._judge_clients(), "slow clients", stop)
        self._spawn(self._preload(), "preload", stop)
        bound = [(listener.host, listener.port) for listener in self._listeners]
        self._spawn(try_all(advertised, bound), "advertised addresses", stop)

    async def reload(self) -> None:
        """Read the settings again and put in force what may change; a fault is only logged."""
        from siltstone.broker.topics.settings.reload import reload  # noqa: PLC0415  # a start needs it not

        with suppress(ConfigError):
            await reload(self._settings, self._io)

    async def stop(self) -> bool:
        """Stop within ``graceful.shutdown.timeout.ms``; return whether all closed cleanly."""
        loop = asyncio.get_running_loop()
        seconds = self._settings.server.graceful_shutdown_timeout_ms / 1000
        deadline = loop.time() + seconds
        self._readiness.close()
        for listener in self._listeners:
            listener.stop()
        self._waiting.close()
        self._coordinators.release()
        drain_until = deadline - max(_MIN_CLOSE_SECONDS, seconds / 2)
        await asyncio.gather(*(listener.drain(drain_until) for listener in self._listeners))
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        if self._probe is not None:
            await self._probe.close()
        await self._coordinators.close()
        await self._topics.close()
        await self._moves.close()
        if self._is_started:
            await self._writer.close()
        if self._http is not None:
            await self._http.close()
        await self._pins.close()
        cleaner_ended = await self._cleaning.stop()
        clean = await self._close_logs(deadline) and cleaner_ended
        self._io.close()
        if self._is_started:
            log.info("stopped clean=%s", clean)
        return clean

    def _bind(self, rooms: Rooms, advertised: dict[str, tuple[str, int]]) -> None:
        server = self._settings.server
        buffers = Buffers(server.queued_max_request_bytes)
        for bound, told in zip(server.bound_listeners, server.advertised, strict=True):
            listener = Listener(bound.name, rooms, buffers, self._dispatcher, self._listeners)
            self._listeners.append(listener)
            try:
                listener.bind(bound.host, bound.port)
            except OSError as error:
                raise StartError(
                    f"cannot listen on {bound}: {error.strerror or error}; stop what uses the "
                    "address or choose another in listeners"
                ) from error
            advertised[bound.name] = (told.host, told.port or listener.port)

    async def _start_http(self, rooms: Rooms) -> None:
        host, port = self._settings.server.http_address
        try:
            token = ensure_token(self._directories[0])
        except OSError as error:
            raise StartError(f"cannot write the control token: {error}") from error
        admission = Admission(
            hosts=self._settings.server.http_hosts,
            is_trusted=lambda headers: brings_token(headers, token),
        )
        self._http = HttpServer(self._routes(rooms, token), admission=admission)
        try:
            addresses = await self._http.start(host, port)
        except OSError as error:
            raise StartError(
                f"cannot listen on http.listener {host}:{port}: {error.strerror or error}; stop "
                "what uses the address or choose another in http.listener"
            ) from error
        note_address(self._directories[0], *addresses[0])
        for bound_host, bound_port in addresses:
            log.info("listening listener=http address=%s:%d", bound_host, bound_port)

    def _routes(self, rooms: Rooms, token: str) -> Iterator[Route]:
        from siltstone.broker.http.pages import Pages  # noqa: PLC0415  # not before somebody asks

        pages = Pages(
            rooms,
            version=VERSION,
            kernels=_kernels(),
            began=self._began,
            requests=self._requests,
            listeners=self._listeners,
            loop_watch=self._loop_watch,
            readiness=self._readiness,
            cleaning=self._cleaning,
            pins=self._pins,
        )
        yield from pages.routes(token)

    async def _open_probe(self, rooms: Rooms) -> None:
        """Make the first round trip; a broker that fails it goes on, not ready, and says why."""
        self._probe = Probe(self._logs, self._topics.logs, self._io, self._clock)
        first = self._listeners[0]
        await self._probe.open((first.host, first.port))
        for listener in self._listeners:
            log.info(
                "listening listener=%s address=%s:%d",
                listener.name,
                listener.host or "*",
                listener.port,
            )
        announce(rooms.advertised)
        self._readiness.open(self._probe.round_trip)
        fault = await self._readiness.find_fault()
        if fault is not None:
            log.error("not ready reason=%s", fault)
            return
        log.info(
            "ready version=%s kernels=%s topics=%d partitions=%d seconds=%.2f",
            VERSION,
            _kernels(),
            len(self._topics.topics),
            len(self._logs.logs),
            self._clock.monotonic() - self._began,
        )

    async def _close_logs(self, deadline: float) -> bool:
        loop = asyncio.get_running_loop()
        seconds = max(_MIN_CLOSE_SECONDS, deadline - loop.time())
        try:
            return await asyncio.wait_for(
                self._io.run(self._logs.close, clean=self._is_started), seconds
            )
        except TimeoutError:
            log.warning(
                "stopped before the logs were flushed seconds=%.1f: the next start recovers them; "
                "see graceful.shutdown.timeout.ms",
                seconds,
            )
            return False

    def _spawn(self, coroutine: Coroutine[Any, Any, Any], name: str, stop: asyncio.Event) -> None:
        task = asyncio.create_task(coroutine, name=name)

        def ended(done: asyncio.Task[Any]) -> None:
            if not done.cancelled() and done.exception() is not None:
                log.critical("task failed, stopping task=%s", name, exc_info=done.exception())
                stop.set()

        task.add_done_callback(ended)
        self._tasks.append(task)

    async def _close_idle(self) -> None:
        while True:
            await asyncio.sleep(_IDLE_SCAN_SECONDS)
            for listener in self._listeners:
                listener.close_idle()

    async def _judge_clients(self) -> None:
        while True:
            await asyncio.sleep(_JUDGE_SECONDS)
            for listener in self._listeners[:1]:  # they share their buffers
                listener.buffers.judge(_JUDGE_SECONDS)

    async def _preload(self) -> None:
        """Import what first requests need, one module at a time, now that clients are served.

        Whoever waited for the port comes now and goes first.
        """
        await asyncio.sleep(_FIRST_CLIENT_SECONDS)
        pages = () if self._http is None else self._http.preload()
        for _ in chain(self._dispatcher.preload(), self._coordinators.preload(), pages):
            await asyncio.sleep(0.001)
        gc.freeze()

    def _find_dead_threads(self) -> list[str]:
        dead = [] if self._logs.background.alive else ["housekeeping"]
        return dead + self._cleaning.dead_threads


def _kernels() -> str:
    return "compiled" if core.COMPILED else "off"

"""The broker's services on a folder of the test: real storage and topics, no listener."""

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from types import MappingProxyType
from typing import Any

from siltstone.broker.api import APIS, BY_KEY
from siltstone.broker.context import RequestContext
from siltstone.broker.coordinators import Coordinators
from siltstone.broker.fetching.sessions import FetchSessions, SessionRoom
from siltstone.broker.fetching.waiting import Waiting
from siltstone.broker.process.first_use import OnFirstUse
from siltstone.broker.process.io import IoThreads
from siltstone.broker.process.request_stats import RequestStats
from siltstone.broker.security.security import Security
from siltstone.broker.services import Identity, Services
from siltstone.broker.telemetry import Telemetry
from siltstone.broker.topics.catalog_writer import CatalogWriter
from siltstone.broker.topics.cleaner_pool import make_pool
from siltstone.broker.topics.cleaning import Cleaning
from siltstone.broker.topics.eligible_leaders import agree
from siltstone.broker.topics.features import Features
from siltstone.broker.topics.moves.manager import LogDirMoves
from siltstone.broker.topics.registry import TopicRegistry
from siltstone.broker.topics.settings.in_force import BrokerSettings
from siltstone.broker.topics.start import recover_topics
from siltstone.broker.transactions.producer_ids import ProducerIds
from siltstone.cleaner.manager import CleanerManager
from siltstone.config.layers import Given, Layers
from siltstone.storage.directory.catalog import Catalog
from siltstone.storage.manager import LogManager
from tests.support.clock import FakeClock

HOST, PORT = "broker.example", 9092


@asynccontextmanager
async def groups_on_disk(
    root: Path, topics: Mapping[str, int] = MappingProxyType({}), **settings: Any
) -> AsyncIterator["ServicesOnDisk"]:
    """Open services with topics of so many partitions, and the journal of groups, of one."""
    home = await ServicesOnDisk(root, offsets_topic_num_partitions="1", **settings).open()
    for name, partitions in topics.items():
        await home.services.topics.create(name, partitions, {})
    await home.services.groups().journal.ensure_created()
    yield home
    await home.close()


class ServicesOnDisk:
    """A broker without connections: `open` it, pass each `context` to a handler, `close` it.

    Opened again on the same root it is the broker after a restart.
    """

    def __init__(self, root: Path, *, directories: int = 1, **settings: str) -> None:
        root.mkdir(exist_ok=True)
        self.paths = [root / f"data-{number}" for number in range(directories)]
        self.clock = FakeClock()
        self.io = IoThreads(4)
        self.catalog = Catalog(self.paths)
        self.settings = settings
        self.stats = RequestStats((api.key, api.name) for api in APIS)
        self.services: Services

    async def open(self) -> "ServicesOnDisk":
        """Start everything in the order of the server."""
        given = {name.replace("_", "."): value for name, value in self.settings.items()}
        given.setdefault("log.dirs", ",".join(str(path) for path in self.paths))
        layers = Layers(static={name: Given(value, "test") for name, value in given.items()})
        self.catalog.load()

        def fail(error: OSError) -> None:
            logs.directories[0].fail(error)

        writer = self.writer = CatalogWriter(self.catalog, self.io, fail)
        settings = BrokerSettings(layers, writer)
        logs = LogManager(self.paths, settings.server, settings.stored_topic_config, self.clock)
        manager = CleanerManager(logs.logs, self.clock)
        pool = OnFirstUse(lambda: make_pool(manager, self.clock, settings.server, self.paths))
        self.cleaner = Cleaning(logs, manager, pool, settings, self.io, self.clock)
        topics = TopicRegistry(writer, settings, logs, self.cleaner, self.io)
        moves = LogDirMoves(logs, topics, self.cleaner, settings, self.io, self.clock)
        logs.load()
        topics.open(await recover_topics(logs, writer, settings, self.io, self.clock.now_ms()))
        await self.cleaner.load()
        await moves.resume()
        producer_ids = ProducerIds(writer)
        features = Features(writer)
        agree(features, settings)
        both = Coordinators(topics, settings, self.io, self.clock, producer_ids, features)
        coordinators = OnFirstUse(lambda: both)
        await coordinators.get().load_groups()
        self.services = Services(
            settings=settings,
            clock=self.clock,
            logs=logs,
            topics=topics,
            moves=moves,
            producer_ids=producer_ids,
            features=features,
            coordinators=coordinators,
            io=self.io,
            waiting=Waiting(),
            sessions=FetchSessions(
                SessionRoom(lambda: 1000, lambda: 500_000, lambda: None),
                self.clock.monotonic,
                topics.get_log,
                logs.services.moved_starts,
            ),
            telemetry=OnFirstUse(lambda: Telemetry(settings, self.clock)),
            identity=Identity(node_id=settings.server.node_id),
            advertised={"PLAINTEXT": (HOST, PORT)},
            security=Security(self.paths[0], self.io, self.clock),
        )
        await both.transactions.load()
        await both.share_states.load()
        return self

    async def close(self) -> None:
        """Stop as the server does."""
        await self.services.coordinators.get().close()
        await self.services.producer_ids.close()
        await self.services.settings.close()
        await self.services.features.close()
        await self.services.topics.close()
        await self.services.moves.close()
        await self.cleaner.stop()
        await self.writer.close()
        self.services.logs.close()
        self.io.close()

    def crash(self) -> None:
        """End without writing anything more, like a kill, before the next `open`."""
        self.services.logs.close(clean=False)
        self.io.close()

    def context(self, api_key: int, version: int | None = None) -> "RequestContext[Services]":
        """Return the context of a request, by default of the newest version."""
        return RequestContext(
            services=self.services,
            api_key=api_key,
            version=BY_KEY[api_key].versions[-1] if version is None else version,
            correlation_id=1,
            client_id="test",
            listener="PLAINTEXT",
            peer="127.0.0.1:50000",
            stats=self.stats,
        )

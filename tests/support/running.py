"""The whole broker in the test's own loop, on a free port, with clients that send raw bytes."""

import asyncio
import struct
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from types import MappingProxyType
from typing import Any

import pytest
from kio.index import load_response_schema
from kio.serial import entity_reader

from siltstone.broker.fetching.waiting import Waiting
from siltstone.broker.groups.coordinator import GroupCoordinator
from siltstone.broker.http.probe import Probe
from siltstone.broker.net.listener import Listener
from siltstone.broker.process.request_stats import RequestStats
from siltstone.broker.server import Broker
from siltstone.broker.topics.registry import TopicRegistry
from siltstone.config.load import load
from siltstone.storage.clock import Clock
from siltstone.storage.manager import LogManager
from tests.support.kio_messages import encode
from tests.support.waiting import within


class Client:
    """A connection that sends frames and reads frames."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer

    async def send(self, data: bytes) -> None:
        """Send bytes as they are."""
        self._writer.write(data)
        await self._writer.drain()

    async def ask(self, body: bytes) -> bytes:
        """Send a frame and return the body of the next one."""
        await self.send(len(body).to_bytes(4, "big") + body)
        return await self.receive()

    async def receive(self) -> bytes:
        """Return the body of the next frame."""
        size = int.from_bytes(await self._reader.readexactly(4), "big")
        return await self._reader.readexactly(size)

    async def is_closed(self) -> bool:
        """Wait for the end of the stream; false if there are bytes instead."""
        try:
            return not await within(self._reader.read(1), "the end of the stream")
        except ConnectionResetError:
            return True

    def end(self) -> None:
        """Shut down our sending side; bytes can still be received."""
        self._writer.write_eof()

    async def close(self) -> None:
        """Close our side."""
        self._writer.close()


class Running:
    """A started broker, and those of its parts that tests look at."""

    def __init__(self, broker: Broker) -> None:
        self.broker = broker
        self._clients: list[Client] = []

    @property
    def topics(self) -> TopicRegistry:
        """Its topics and their logs."""
        return self.broker.topics

    @property
    def groups(self) -> GroupCoordinator:
        """Its groups, and the journal of what they committed."""
        return self.broker.coordinators.get().groups

    @property
    def waiting(self) -> Waiting:
        """Its fetches that wait."""
        return self.broker.waiting

    @property
    def listeners(self) -> list[Listener]:
        """Where it listens, in the order of the setting."""
        return self.broker.listeners

    @property
    def logs(self) -> LogManager:
        """The logs of its directories."""
        return self.broker.logs

    @property
    def requests(self) -> RequestStats:
        """Its counts of requests."""
        return self.broker.requests

    @property
    def refused(self) -> dict[str, int]:
        """How often each limit has refused something, without limits that have not."""
        return {name: count for name, count in self.broker.limits.refused.items() if count}

    @property
    def probe(self) -> Probe:
        """The probe that tries whether it can write and read."""
        return self.broker.probe

    async def connect(self, number: int = 0) -> Client:
        """Open a connection to a listener, the first unless another is meant."""
        listener = self.listeners[number]
        return self.keep(await asyncio.open_connection("127.0.0.1", listener.port))

    def keep(self, streams: tuple[asyncio.StreamReader, asyncio.StreamWriter]) -> Client:
        """Return a client for a connection, which is closed at the end."""
        client = Client(*streams)
        self._clients.append(client)
        return client

    async def call(self) -> "Caller":
        """Open a connection that sends and returns kio's entities."""
        return Caller(await self.connect())

    async def close(self) -> None:
        """Close all clients."""
        for client in self._clients:
            await client.close()


@asynccontextmanager
async def running(folder: Path, *sets: str, clock: Clock | None = None) -> AsyncIterator[Running]:
    """Run a broker over ``folder``; it is stopped gracefully at the end."""
    layers = load(
        None,
        {},
        [
            f"log.dirs={folder}",
            "listeners=PLAINTEXT://127.0.0.1:0",
            "http.listener=127.0.0.1:0",
            *sets,
        ],
    )
    broker = Broker(layers, clock or Clock(), asyncio.Event())
    started = Running(broker)
    try:
        await broker.start()
        yield started
    finally:
        await started.close()
        await broker.stop()


def a_broker(
    *sets: str, topics: Mapping[str, tuple[int, Mapping[str, str]]] = MappingProxyType({})
) -> Any:
    """Return a fixture for a module: a broker with these settings and topics in ``data``.

    A topic has so many partitions, and settings of its own.
    """

    @pytest.fixture
    async def broker(tmp_path: Path) -> AsyncIterator[Running]:
        async with running(tmp_path / "data", *sets) as started:
            for name, (partitions, settings) in topics.items():
                await started.topics.create(name, partitions, settings)
            yield started

    return broker


class Caller:
    """Sends kio's entities and reads answers with kio, not with our own codecs."""

    def __init__(self, client: Client) -> None:
        self.client = client
        self.client_id: str | None = None
        self._correlation_id = 0

    def frame(self, request: Any) -> bytes:
        """Return the frame of a request of any API and version."""
        kind = type(request)
        self._correlation_id += 1
        name = (self.client_id or "").encode()
        size = -1 if self.client_id is None else len(name)
        head = struct.pack(">hhih", kind.__api_key__, kind.__version__, self._correlation_id, size)
        body = head + name + (b"\0" if kind.__flexible__ else b"") + encode(request)
        return len(body).to_bytes(4, "big") + body

    async def receive(self, request: Any) -> Any:
        """Return the next answer, which must be that to ``request``."""
        kind = type(request)
        answer = await self.client.receive()
        response = load_response_schema(kind.__api_key__, kind.__version__)
        start = 5 if kind.__flexible__ and kind.__api_key__ != 18 else 4
        entity, size = entity_reader(response)(memoryview(answer), start)
        assert start + size == len(answer)
        return entity

    async def ask(self, request: Any) -> Any:
        """Send a request and return its answer."""
        await self.client.send(self.frame(request))
        return await self.receive(request)

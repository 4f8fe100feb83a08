"""Bytes that are no request: the connection closes with one line, everybody else goes on."""

import logging
import struct
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.support.running import Running, running

API_VERSIONS_0 = struct.pack(">hhih", 18, 0, 7, -1)


@pytest.fixture
async def broker(tmp_path: Path) -> AsyncIterator[Running]:
    """A broker that refuses frames above 1 MiB."""
    async with running(tmp_path, "socket.request.max.bytes=1048576") as started:
        yield started


BAD = {
    "a negative size": b"\xff\xff\xff\xfe",
    "a size of zero": b"\0\0\0\0",
    "a size above the limit": struct.pack(">i", 1_048_577),
    "the largest size": struct.pack(">i", 2**31 - 1),
    "an HTTP request": b"GET / HTTP/1.1\r\nHost: x\r\n\r\n",
    "a TLS handshake": bytes.fromhex("16030100c8010000c40303"),
    "a frame without a header": struct.pack(">i", 3) + b"\0\0\0",
    "an API that nobody has": struct.pack(">ihhih", 10, 1234, 0, 1, -1),
    "an API of brokers": struct.pack(">ihhih", 10, 4, 0, 1, -1),
    "a version from the past": struct.pack(">ihhih", 10, 1, 3, 1, -1),
    "a version from the future": struct.pack(">ihhih", 10, 3, 99, 1, -1),
    "a client id that runs out": struct.pack(">ihhih", 10, 3, 1, 1, 500),
    "a body that ends early": struct.pack(">ihhih", 10, 3, 1, 1, -1),
    "a count beyond the frame": struct.pack(">ihhihi", 14, 3, 1, 1, -1, 2**31 - 1),
    "a produce request of nothing": struct.pack(">ihhihB", 11, 0, 9, 1, -1, 0),
    "a fetch request of nothing": struct.pack(">ihhihB", 11, 1, 12, 1, -1, 0),
}


@pytest.mark.parametrize("data", BAD.values(), ids=BAD.keys())
async def test_bad_bytes_close_one_connection(
    broker: Running, data: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    """One log line names the peer and the reason; another client is served as before."""
    good, bad = await broker.connect(), await broker.connect()
    before = await good.ask(API_VERSIONS_0)
    with caplog.at_level(logging.WARNING):
        await bad.send(data)
        assert await bad.is_closed()

    lines = [record.getMessage() for record in caplog.records]
    assert len(lines) == 1
    assert "peer=127.0.0.1:" in lines[0]
    assert await good.ask(API_VERSIONS_0) == before


async def test_requests_before_the_bad_one_are_answered(broker: Running) -> None:
    """A pipelined good request keeps its answer."""
    client = await broker.connect()
    frame = len(API_VERSIONS_0).to_bytes(4, "big") + API_VERSIONS_0
    await client.send(frame + b"\xff\xff\xff\xff")

    assert (await client.receive())[:4] == struct.pack(">i", 7)
    assert await client.is_closed()


async def test_api_versions_of_the_future_is_answered_in_version_0(broker: Running) -> None:
    """Error 35 and the range of this API alone, in the layout that every client reads."""
    client = await broker.connect()
    answer = await client.ask(struct.pack(">hhih", 18, 99, 5, -1) + b"whatever")

    assert answer == struct.pack(">ihihhh", 5, 35, 1, 18, 0, 4)


async def test_half_a_large_request_costs_no_memory_of_its_size(broker: Running) -> None:
    """A thousand clients that announce a megabyte and send nothing are just connections."""
    clients = [await broker.connect() for _ in range(50)]
    for client in clients:
        await client.send(struct.pack(">i", 1_000_000) + b"\0\0")
    good = await broker.connect()

    assert await good.ask(API_VERSIONS_0)

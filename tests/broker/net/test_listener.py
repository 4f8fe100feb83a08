"""What a listener gives its connections."""

import asyncio
import socket
import struct
from pathlib import Path

import pytest

from tests.support.running import Client, running

_API_VERSIONS = struct.pack(">hhih", 18, 0, 1, -1)


@pytest.mark.parametrize(
    ("setting", "option"),
    [
        ("socket.send.buffer.bytes", socket.SO_SNDBUF),
        ("socket.receive.buffer.bytes", socket.SO_RCVBUF),
    ],
)
async def test_connections_get_the_buffers_of_the_settings(
    tmp_path: Path, setting: str, option: int
) -> None:
    """The kernel grants twice what is asked, for its own needs; -1 leaves it to the kernel."""
    granted = {}
    for size in (-1, 30_000, 102_400):
        async with running(tmp_path / str(size), f"{setting}={size}") as started:
            await (await started.connect()).ask(_API_VERSIONS)
            (accepted,) = started.listeners[0].connections
            granted[size] = accepted._channel._socket.getsockopt(socket.SOL_SOCKET, option)

    assert granted[30_000] == 60_000
    assert granted[102_400] == 204_800
    assert granted[-1] not in {60_000, 204_800}


async def test_connections_of_all_listeners_count_together(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """max.connections is a limit of the broker: two listeners do not have twice as many."""
    sets = (
        "max.connections=3",
        "listeners=ONE://127.0.0.1:0,TWO://127.0.0.1:0",
        "listener.security.protocol.map=ONE:PLAINTEXT,TWO:PLAINTEXT",
    )
    async with running(tmp_path, *sets) as started:
        one, two = started.listeners
        clients = []
        for listener in (one, two, two):
            client = Client(*await asyncio.open_connection("127.0.0.1", listener.port))
            await client.ask(_API_VERSIONS)
            clients.append(client)
        for listener in (one, two):
            more = Client(*await asyncio.open_connection("127.0.0.1", listener.port))
            assert await more.is_closed()
            clients.append(more)
        for client in clients:
            await client.close()

    assert sum("reason=max.connections is reached" in line for line in caplog.messages) == 2

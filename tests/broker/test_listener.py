"""What a listener gives its connections."""

import socket
import struct
from pathlib import Path

import pytest

from tests.support.running import running

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
            (accepted,) = started.broker._listeners[0].connections
            granted[size] = accepted._channel._socket.getsockopt(socket.SOL_SOCKET, option)

    assert granted[30_000] == 60_000
    assert granted[102_400] == 204_800
    assert granted[-1] not in {60_000, 204_800}

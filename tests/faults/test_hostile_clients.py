"""Clients that connect, announce, dawdle or stop reading: others and the memory do not notice."""

import asyncio
import re
import resource
import socket
import struct
import time
import urllib.request
from collections.abc import Awaitable, Callable, Iterator
from contextlib import ExitStack, suppress
from pathlib import Path

import pytest

from tests.support.broker import SiltstoneProcess
from tests.support.ports import address_of
from tests.support.traffic import Traffic
from tests.support.waiting import PATIENCE, give_turns_until, within

pytestmark = pytest.mark.slow

Connect = Callable[[SiltstoneProcess, str], Awaitable[Traffic]]
MIB = 1 << 20
ALL = struct.pack(">i", -1)
API_VERSIONS = struct.pack(">ihhih", 10, 18, 0, 7, -1)


@pytest.fixture(scope="module", autouse=True)
def many_descriptors() -> None:
    """Let this process, and those it starts, have some thousand connections."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, min(hard, 4096)), hard))


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SiltstoneProcess]:
    """A running broker."""
    broker = SiltstoneProcess(tmp_path_factory.mktemp("hostile"))
    broker.start()
    yield broker
    broker.close()


@pytest.fixture
def small_broker(tmp_path: Path) -> Iterator[SiltstoneProcess]:
    """A running broker that keeps 32 MiB of requests."""
    broker = SiltstoneProcess(tmp_path, {"queued.max.request.bytes": str(32 * MIB)})
    broker.start()
    yield broker
    broker.close()


@pytest.fixture
async def other(broker: SiltstoneProcess, connect: Connect) -> Traffic:
    """A well-behaved client that has been served before."""
    traffic = await connect(broker, "orders")
    await traffic.create()
    await traffic.produce(b"warm", 10_000)
    await traffic.fetch(0)
    return traffic


def descriptors(broker: SiltstoneProcess) -> int:
    """Return how many descriptors the process has open."""
    return len(list(Path(f"/proc/{broker.daemon.pid}/fd").iterdir()))


def connections(broker: SiltstoneProcess, count: int, stack: ExitStack) -> list[socket.socket]:
    """Open plain sockets, closed with the stack."""
    address = address_of(broker.bootstrap)
    return [
        stack.enter_context(socket.create_connection(address, timeout=PATIENCE))
        for _ in range(count)
    ]


async def test_silent_connections(broker: SiltstoneProcess, other: Traffic) -> None:
    """A thousand clients that say nothing cost some KiB each."""
    before = broker.resident_bytes
    with ExitStack() as stack:
        silent = connections(broker, 1000, stack)
        assert await other.produce(b"a") == 0

        assert broker.resident_bytes - before < 15 * MIB
        for each in silent[::100]:
            each.sendall(API_VERSIONS)
            assert each.recv(4)


async def test_announced_frames(broker: SiltstoneProcess, other: Traffic) -> None:
    """Two hundred requests of 100 MB that never come cost nothing and hold nobody back."""
    before = broker.resident_bytes
    with ExitStack() as stack:
        for each in connections(broker, 200, stack):
            each.sendall(struct.pack(">ihhih", 100_000_000, 0, 9, 1, -1) + bytes(1000))
        assert await other.produce(bytes(900_000)) == 0

        assert broker.resident_bytes - before < 20 * MIB


@pytest.mark.alone
async def test_frames_that_trickle(small_broker: SiltstoneProcess, connect: Connect) -> None:
    """Half-sent large requests, a byte a moment: others wait no longer than the grace."""
    other = await connect(small_broker, "trickle")
    await other.create()
    assert await other.produce(bytes(900_000)) == 0
    with ExitStack() as stack:
        hoarders = connections(small_broker, 8, stack)
        loop = asyncio.get_running_loop()
        for each in hoarders:
            each.setblocking(False)
            begun = struct.pack(">ihhih", 20_000_000, 0, 9, 1, -1) + bytes(8 * MIB)
            sending = asyncio.create_task(loop.sock_sendall(each, begun))
            await asyncio.wait({sending}, timeout=0.2)  # the last ones find no room
            sending.cancel()

        async def trickle() -> None:
            while True:
                await asyncio.sleep(0.05)
                for each in hoarders:
                    with suppress(OSError):
                        each.send(b"\0")

        trickling = asyncio.create_task(trickle())
        began = time.monotonic()
        for _ in range(20):
            assert await within(other.produce(bytes(900_000)), "an acknowledgement") == 0
        seconds = time.monotonic() - began
        trickling.cancel()

    assert seconds < 15
    small_broker.daemon.wait_for("connection closed .*queued.max.request.bytes")


async def test_halves_of_small_frames(small_broker: SiltstoneProcess, connect: Connect) -> None:
    """Two thousand of 127 KiB cost the limit and a quarter; a whole request is served as before."""
    other = await connect(small_broker, "halves")
    await other.create()
    for size in (200_000, 900_000):
        assert await other.produce(bytes(size)) == 0
    before = small_broker.resident_bytes
    half = struct.pack(">ihhih", 127 * 1024, 0, 9, 1, -1) + bytes(126 * 1024)
    with ExitStack() as stack:
        most = 0
        for number, each in enumerate(connections(small_broker, 2000, stack)):
            each.sendall(half)
            if number % 100 == 0:
                assert await other.produce(b"a") == 0
                most = max(most, small_broker.resident_bytes)
        assert await other.produce(bytes(900_000)) == 0
        most = max(most, small_broker.resident_bytes)

    assert most - before < 40 * MIB + 25 * MIB


async def test_frames_byte_by_byte(broker: SiltstoneProcess, other: Traffic) -> None:
    """A hundred clients that send a byte now and then are answered in the end, like others."""
    with ExitStack() as stack:
        slow = connections(broker, 100, stack)
        for index in range(len(API_VERSIONS)):
            for each in slow:
                each.sendall(API_VERSIONS[index : index + 1])
            assert await other.produce(b"a") == 0

        assert all(each.recv(8)[4:] == struct.pack(">i", 7) for each in slow)


@pytest.mark.alone
async def test_reader_that_stops(broker: SiltstoneProcess, connect: Connect) -> None:
    """Fifty clients ask for all there is, again and again, and read none of it."""
    traffic = await connect(broker, "large")
    await traffic.create()
    for _ in range(16):
        assert await traffic.produce(bytes(MIB - 200)) == 0
    request = traffic.fetch_frame(0, max_bytes=16 * MIB)
    before = broker.resident_bytes
    with ExitStack() as stack:
        for each in connections(broker, 50, stack):
            each.setblocking(False)
            for _ in range(50):
                each.send(request)
        began = time.monotonic()
        for _ in range(20):
            assert await traffic.produce(b"a") == 0
            error, data = await traffic.fetch(0)
            assert (error, len(data) > MIB // 2) == (0, True)
        seconds = time.monotonic() - began

        assert broker.resident_bytes - before < 25 * MIB
    assert seconds < 10
    assert "Traceback" not in broker.daemon.printed()


async def test_answers_that_are_not_read(tmp_path: Path, connect: Connect) -> None:
    """Sixty clients ask for the settings of 1,200 topics, some 3 MiB, and read none of it."""
    limit = 16 * MIB
    broker = SiltstoneProcess(tmp_path, {"queued.max.response.bytes": str(limit)})
    with ExitStack() as stack:
        stack.callback(broker.close)
        broker.start()
        traffic = await connect(broker, "read")
        await traffic.create()
        names = [f"topic-of-some-length-{number}".encode() for number in range(1200)]
        topics = b"".join(_text(name) + struct.pack(">ihii", 1, 1, 0, 0) for name in names)
        created = struct.pack(">i", len(names)) + topics + struct.pack(">i?", 30_000, False)
        await traffic.caller.client.ask(struct.pack(">hhih", 19, 2, 7, -1) + created)
        resources = b"".join(struct.pack(">b", 2) + _text(name) + ALL for name in names)
        request = struct.pack(">hhihi", 32, 1, 7, -1, len(names)) + resources + b"\1"
        before = broker.resident_bytes
        for each in connections(broker, 60, stack):
            each.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            each.sendall(len(request).to_bytes(4, "big") + request)

        async def closed() -> int:
            assert await traffic.produce(b"a") == 0
            page = await asyncio.to_thread(_fetch, f"http://{broker.http}/metrics")
            found = re.search(r'limit_refused_total{limit="queued.max.response.bytes"} (\S+)', page)
            return int(float(found[1])) if found else 0

        async def taken() -> int:
            assert await traffic.produce(b"a") == 0
            return broker.resident_bytes - before

        await give_turns_until(closed, "50 closed", lambda count: count >= 50)
        most = limit + 32 * MIB
        await give_turns_until(taken, f"at most {most} bytes", lambda size: size <= most)
    assert "Traceback" not in broker.daemon.printed()


def _fetch(url: str) -> str:
    with urllib.request.urlopen(url, timeout=30) as answer:
        text: str = answer.read().decode()
    return text


def _text(text: bytes) -> bytes:
    return struct.pack(">h", len(text)) + text


@pytest.mark.parametrize(
    ("sent", "said"),
    [
        (b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n", "an HTTP request"),
        (bytes.fromhex("16030100c8010000c40303"), "a TLS handshake"),
        (b"SSH-2.0-x\r\n", "an SSH client"),
    ],
)
async def test_other_protocols_are_named(broker: SiltstoneProcess, sent: bytes, said: str) -> None:
    """The log says whose bytes came, and from where."""
    with ExitStack() as stack:
        (client,) = connections(broker, 1, stack)
        client.sendall(sent)
        assert client.recv(1) == b""
        host, port = client.getsockname()

    line = broker.daemon.wait_for(rf"WARNING.*peer={host}:{port} .*")[0]
    assert said in line


async def test_many_come_and_go(broker: SiltstoneProcess, other: Traffic) -> None:
    """Connections that end in the middle of a frame leave nothing behind."""
    address = address_of(broker.bootstrap)
    before = descriptors(broker)
    for number in range(500):
        with socket.create_connection(address, timeout=PATIENCE) as client:
            client.sendall((struct.pack(">i", 300_000) + bytes(200_000))[: 3 + number * 401])

    async def opened() -> int:
        assert await other.produce(b"a") == 0
        return descriptors(broker)

    await give_turns_until(
        opened, f"at most {before + 5} descriptors", lambda count: count <= before + 5
    )

"""No thread of ours keeps the loop waiting for the GIL, and a test of this kind would notice."""

import asyncio
import socket
import sys
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import cast

import pytest

from siltstone.broker.http.metrics.exposition import Scrapes
from siltstone.broker.http.values import HttpRequest
from siltstone.broker.net.sending.senders import Senders
from siltstone.config.topic import TopicConfig
from siltstone.protocol.parts import FileSlice
from siltstone.protocol.records import compression
from siltstone.storage.log.recovery import load_partition
from tests.support.batches import make_batch
from tests.support.latency import INTERVAL_SECONDS, busy_thread, measure
from tests.support.logs import LogFolder, validated
from tests.support.metrics import make_sources
from tests.support.running import Running, a_broker

pytestmark = pytest.mark.alone


@pytest.fixture(autouse=True)
def switch_interval() -> Iterator[None]:
    """One that makes a held GIL stand out."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(INTERVAL_SECONDS)
    yield
    sys.setswitchinterval(before)


broker = a_broker()


@pytest.fixture
def port(broker: Running) -> int:
    """Where it listens."""
    return broker.listeners[0].port


def compute(seconds: float) -> None:
    """Hold the GIL as Python code does."""
    ends = time.perf_counter() + seconds
    while time.perf_counter() < ends:
        sum(range(1000))


def compute_now_and_then() -> None:
    """Hold it for a moment, some times a second."""
    compute(0.08)
    time.sleep(0.02)


class Housekeeping:
    """A log that rolls all the time; its background work is the thread's."""

    def __init__(self, root: Path) -> None:
        root.mkdir()
        config = TopicConfig(segment_bytes=600_000, retention_ms=0, file_delete_delay_ms=0)
        self.folder = LogFolder(root, config)
        self.batch = make_batch([(b"k", bytes(100_000))])

    def flush(self) -> None:
        """Append and wait for the fsync, as io threads do for flush.messages."""
        self.folder.log.append(validated(bytearray(self.batch)))
        self.folder.log.flush()

    def roll(self) -> None:
        """Fill some segments, as the loop would, and have them flushed, renamed and unlinked."""
        for _ in range(30):
            self.folder.log.append(validated(bytearray(self.batch)))
        self.folder.log.apply_retention(self.folder.clock.now_ms() + 10**12)
        self.folder.services.deletions.run_due()
        self.folder.settle()


def recovery(root: Path) -> Callable[[], object]:
    """Return the opening of a partition of 64 MiB after a crash."""
    root.mkdir()
    folder = LogFolder(root)
    batch = make_batch([(b"k%d" % number, bytes(1000)) for number in range(16)])
    for _ in range(4000):
        folder.log.append(validated(bytearray(batch)))
    return partial(load_partition, folder._folder(), 0)


class Sending:
    """A sender that is never done, and a client that drops in the kernel what it gets."""

    def __init__(self, root: Path) -> None:
        root.mkdir()
        self.file = (root / "file").open("w+b")
        self.file.write(bytes(16 << 20))
        self.file.flush()
        self.senders = Senders(1)
        with socket.create_server(("127.0.0.1", 0)) as server:
            self.client = socket.create_connection(server.getsockname(), timeout=0.1)
            self.socket = server.accept()[0]
        self.socket.setblocking(False)
        self.room = bytearray(1 << 20)
        self.send()

    def send(self) -> None:
        """Have the file sent, again and again."""
        part = FileSlice(self.file, 0, 16 << 20)
        self.senders.send(
            self.socket.fileno(), part, b"", lambda error: None if error else self.send()
        )

    def drop(self) -> None:
        """Take what has arrived; a loop that stands still has nothing sent."""
        with suppress(TimeoutError):
            self.client.recv_into(self.room, 0, socket.MSG_TRUNC)

    def close(self) -> None:
        """End the thread."""
        self.senders.close()
        for each in (self.client, self.socket, self.file):
            each.close()


def codecs() -> Callable[[], object]:
    """Return the opening of batches of each codec, some MiB each."""
    packed = [(codec, compression.compress(codec, bytes(8 << 20))) for codec in (1, 2, 3, 4)]
    return lambda: [compression.decompress(*each) for each in packed]


@pytest.mark.slow
@pytest.mark.parametrize("plant", [partial(compute, 1), compute_now_and_then])
async def test_a_thread_that_holds_the_gil_is_noticed(
    port: int, plant: Callable[[], object]
) -> None:
    """The tests below would fail with such a thread."""
    base = await measure(port)
    with busy_thread(plant):
        beside = await measure(port, base.noise)

    assert beside.is_noticed_beside(base), (base, beside)


@pytest.mark.parametrize("kind", ["housekeeping", "flush", "recovery", "codecs"])
async def test_threads_leave_the_gil_to_the_loop(port: int, tmp_path: Path, kind: str) -> None:
    """Beside a thread that is busy all the time the loop answers as it does alone."""
    work = {
        "housekeeping": lambda: Housekeeping(tmp_path / "logs").roll,
        "flush": lambda: Housekeeping(tmp_path / "logs").flush,
        "recovery": lambda: recovery(tmp_path / "logs"),
        "codecs": codecs,
    }[kind]()
    base = await measure(port)
    with busy_thread(work):
        beside = await measure(port, base.noise)

    assert not beside.is_noticed_beside(base), (base, beside)


async def test_senders_leave_the_gil_to_the_loop(port: int, tmp_path: Path) -> None:
    """The same beside one that sends as fast as it can."""
    sending = Sending(tmp_path / "sent")
    base = await measure(port)
    with busy_thread(sending.drop):
        beside = await measure(port, base.noise)
    sending.close()

    assert not beside.is_noticed_beside(base), (base, beside)


async def test_scrape_leaves_the_loop_to_others(port: int) -> None:
    """While 5,000 partitions are written out without pause, a client is served between slices."""
    sources = make_sources({"wide": 4000, **{f"topic-{number}": 1 for number in range(1000)}})
    scrapes = Scrapes(sources)
    count = 0

    async def scrape() -> None:
        nonlocal count
        while True:
            response = await scrapes.answer(HttpRequest(method="GET", path="/metrics"))
            async for piece in cast("AsyncIterator[bytes]", response.body):
                count += len(piece)

    base = await measure(port)
    task = asyncio.create_task(scrape())
    beside = await measure(port)  # in all windows, so that some of a large page is written
    task.cancel()

    assert count > 1_000_000
    assert not beside.is_noticed_beside(base), (base, beside)

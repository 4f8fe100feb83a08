"""A real broker on a real file system that is really full."""

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from contextlib import suppress
from functools import partial
from pathlib import Path

import pytest

from tests.support.tiny_disk import SiltstoneOnDisk, TinyDisk
from tests.support.traffic import STORAGE_ERROR, Traffic
from tests.support.waiting import give_turns_until

pytestmark = pytest.mark.slow

VALUE = bytes(100_000)

Connect = Callable[[SiltstoneOnDisk, str], Awaitable[Traffic]]


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[TinyDisk]:
    """A file system of 12 MiB."""
    disk = TinyDisk(tmp_path, "12m")
    yield disk
    disk.close()


@pytest.fixture
def few_names(tmp_path: Path) -> Iterator[TinyDisk]:
    """A file system of 12 MiB and two hundred files."""
    disk = TinyDisk(tmp_path, "12m,nr_inodes=200")
    yield disk
    disk.close()


@pytest.fixture
def crowded(tmp_path: Path, few_names: TinyDisk) -> Iterator[SiltstoneOnDisk]:
    """A broker on that."""
    broker = SiltstoneOnDisk(tmp_path / "broker", few_names, {"log.segment.bytes": "100000"})
    broker.start()
    yield broker
    broker.close()


@pytest.fixture
def broker(tmp_path: Path, disk: TinyDisk) -> Iterator[SiltstoneOnDisk]:
    """A broker on it."""
    broker = SiltstoneOnDisk(tmp_path / "broker", disk, {"log.segment.bytes": "1000000"})
    broker.start()
    yield broker
    broker.close()


async def _fill(broker: SiltstoneOnDisk, connect: Connect) -> tuple[Traffic, int]:
    """Produce until the disk is full; return a connection, and how many batches it took.

    What was to be written at the end of a round is not answered: its connection is closed.
    """
    traffic = await connect(broker, "orders")
    count = 0
    error = 0
    while not error:
        try:
            error = await traffic.produce(b"%06d" % count + VALUE)
        except (asyncio.IncompleteReadError, ConnectionError):
            traffic = await connect(broker, "orders")
            error = await traffic.produce(b"%06d" % count + VALUE)
            assert error
        count += not error
    assert error == STORAGE_ERROR
    return traffic, count


async def test_full_disk(broker: SiltstoneOnDisk, disk: TinyDisk, connect: Connect) -> None:
    """Refused while full, read all the while, kept over SIGKILL, and goes on when there is room."""
    traffic = await connect(broker, "orders")
    assert await traffic.create() == 0
    (disk.path / "ballast").write_bytes(bytes(4_000_000))
    traffic, count = await _fill(broker, connect)

    assert count > 50
    assert len(await traffic.values()) == count
    assert await (await connect(broker, "other")).create() == STORAGE_ERROR
    disk.fill()
    broker.kill()
    for _ in range(3):
        with pytest.raises(RuntimeError, match="make room on the disk"):
            broker.start()
    disk.make_room()
    broker.start()
    traffic = await connect(broker, "orders")
    values = await traffic.values()
    assert [int(value[:6]) for value in values if value] == list(range(count))
    await give_turns_until(partial(traffic.takes, b"%06d" % count), "a broker that takes a record")
    values = await traffic.values()
    assert [int(value[:6]) for value in values if value] == list(range(count + 1))
    assert await (await connect(broker, "other")).create() == 0
    assert broker.stop() == 0
    assert "Traceback" not in broker.daemon.output.read_text()


async def _refuse(broker: SiltstoneOnDisk, connect: Connect, value: bytes) -> None:
    """Produce what is not taken: an error, or a connection that is closed."""
    traffic = await connect(broker, "orders")
    with suppress(asyncio.IncompleteReadError, ConnectionError):
        assert await traffic.produce(value) == STORAGE_ERROR


async def test_a_roll_without_inodes(
    crowded: SiltstoneOnDisk, few_names: TinyDisk, connect: Connect
) -> None:
    """A new segment gets one of its three files; later records are read from every offset."""
    traffic = await connect(crowded, "orders")
    assert await traffic.create() == 0
    for _ in range(9):
        assert await traffic.produce(bytes(10_000)) == 0
    names = few_names.use_up_names()
    names.pop().unlink()
    await _refuse(crowded, connect, bytes(20_000))
    names.pop().unlink()
    traffic = await connect(crowded, "orders")
    await give_turns_until(partial(traffic.takes, bytes(500)), "a broker that takes a record")
    for _ in range(3):
        assert await traffic.produce(bytes(500)) == 0
    for each in names:
        each.unlink()
    for _ in range(3):
        assert await traffic.produce(bytes(20_000)) == 0
    assert crowded.stop() == 0
    crowded.start()
    traffic = await connect(crowded, "orders")

    for offset in range(16):
        error, data = await traffic.fetch(offset)
        assert (error, int.from_bytes(data[:8], "big")) == (0, offset)
    assert crowded.stop() == 0

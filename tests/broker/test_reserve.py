"""A broker whose disk has less room than its reserve: produces are refused, the rest goes on."""

import json
from collections.abc import AsyncIterator
from functools import partial
from pathlib import Path

import pytest

from siltstone.broker.http import readiness
from siltstone.broker.http.control.token import read_address
from siltstone.broker.process import housekeeping
from siltstone.protocol.errors import KafkaStorageError
from siltstone.protocol.records.build import build_batch
from siltstone.protocol.records.record import Record
from siltstone.storage import files
from siltstone.storage.producers.checks import Origin
from siltstone.storage.topic_partition import TopicPartition
from tests.support.http_client import ask
from tests.support.logs import validated
from tests.support.ports import address_of
from tests.support.running import Running, running
from tests.support.traffic import STORAGE_ERROR, Traffic
from tests.support.waiting import give_turns_until

GIB = 1 << 30


class RoomOnDisk:
    """Numbers that the disk gives of its room."""

    def __init__(self) -> None:
        self.free = 100 * GIB

    def find(self, _: Path) -> tuple[int, int]:
        """Stand in for `files.find_room`."""
        return self.free, 200 * GIB


@pytest.fixture
def disk(monkeypatch: pytest.MonkeyPatch) -> RoomOnDisk:
    """A disk that is looked at twenty times a second."""
    monkeypatch.setattr(housekeeping, "DIRECTORY_SECONDS", 0.05)
    monkeypatch.setattr(readiness, "PROBE_CACHE_SECONDS", 0.0)
    room = RoomOnDisk()
    monkeypatch.setattr(files, "find_room", room.find)
    return room


@pytest.fixture
async def broker(tmp_path: Path, disk: RoomOnDisk) -> AsyncIterator[Running]:
    """A broker over that disk with a reserve of 10 GiB, and a topic."""
    async with running(tmp_path / "data", f"log.dirs.reserve.bytes={10 * GIB}") as started:
        await started.topics.create("orders", 1, {})
        yield started


@pytest.fixture
async def traffic(broker: Running) -> Traffic:
    """A client."""
    return Traffic(await broker.call(), "orders")


def is_short(broker: Running) -> bool:
    """Tell whether the broker has noticed that its reserve is missing."""
    return broker.logs.directories[0].client_refusal is not None


async def page(folder: Path, path: str) -> tuple[int, str]:
    """Return status and body of a page of the broker that has this folder."""
    address = read_address(folder)
    assert address is not None
    answer = await ask(address_of(address)[1], path)
    return answer.status, answer.body.decode()


async def test_produces_are_refused_until_there_is_room(
    broker: Running, traffic: Traffic, disk: RoomOnDisk
) -> None:
    """Fetches go on, and it comes back by itself."""
    assert await traffic.produce(b"a") == 0
    disk.free = 9 * GIB
    await give_turns_until(partial(is_short, broker), "a broker that misses its reserve")
    assert [await traffic.produce(b"refused") for _ in range(2)] == [STORAGE_ERROR] * 2
    assert await traffic.values() == [b"a"]
    disk.free = 30 * GIB
    await give_turns_until(partial(traffic.takes, b"b"), "a broker that takes a record")

    assert await traffic.values() == [b"a", b"b"]


async def test_the_brokers_own_writes_and_deletions_go_on(
    broker: Running, traffic: Traffic, disk: RoomOnDisk
) -> None:
    """Commits and ends of transactions, records and topics that go: those make room."""
    assert await traffic.produce(b"a") == 0
    disk.free = 0
    await give_turns_until(partial(is_short, broker), "a broker that misses its reserve")
    log = broker.topics.logs["orders", 0]
    assert log.append(validated(bytearray(commit_batch())), Origin.COORDINATOR).base_offset == 1
    with pytest.raises(KafkaStorageError):
        log.append(validated(bytearray(commit_batch())))

    log.delete_records(2)
    await broker.topics.delete(broker.topics.topics["orders"])

    assert TopicPartition("orders", 0) not in broker.logs.logs


def commit_batch() -> bytes:
    """Return a batch of one record."""
    return bytes(build_batch([Record(0, 0, b"k", b"v")]))


async def test_pages_and_metrics_say_so(broker: Running, disk: RoomOnDisk, tmp_path: Path) -> None:
    """Not ready and why; a warning while it is merely scarce; the figures of the disk."""
    folder = tmp_path / "data"
    disk.free = 9 * GIB
    await give_turns_until(partial(is_short, broker), "a broker that misses its reserve")
    ready, alive, status, metrics = [
        await page(folder, path) for path in ("/readyz", "/healthz", "/v1/status", "/metrics")
    ]
    assert ready[0] == 503
    assert "takes no produce requests now (9663676416 bytes are free" in ready[1]
    assert alive[0] == 200
    assert "delete topics or records, shorten retention, or make room on the disk" in alive[1]
    assert "log.dirs.reserve.bytes is 10737418240" in json.loads(status[1])["log_dirs"][str(folder)]
    directory = f'{{logdirectory="{folder}"}}'
    assert f"siltstone_log_dir_free_bytes{directory} 9663676416" in metrics[1]
    assert f"siltstone_log_dir_short{directory} 1" in metrics[1]

    disk.free = 15 * GIB
    await give_turns_until(lambda: not is_short(broker), "a broker that has its reserve")
    ready, alive = [await page(folder, path) for path in ("/readyz", "/healthz")]
    assert ready[0] == 200
    for body in (ready[1], alive[1]):
        assert f"log directory {folder} is nearly full (16106127360 bytes are free" in body


async def test_a_start_without_its_reserve_refuses_at_once(
    tmp_path: Path, disk: RoomOnDisk
) -> None:
    """No produce slips in before the first look at the disk."""
    disk.free = GIB
    async with running(tmp_path / "data", f"log.dirs.reserve.bytes={10 * GIB}") as broker:
        await broker.topics.create("orders", 1, {})
        traffic = Traffic(await broker.call(), "orders")

        assert await traffic.produce(b"refused") == STORAGE_ERROR


async def test_the_reserve_can_be_changed_while_it_runs(
    broker: Running, traffic: Traffic, disk: RoomOnDisk
) -> None:
    """A broker that has run into it need not restart to get out."""
    disk.free = 9 * GIB
    await give_turns_until(partial(is_short, broker), "a broker that misses its reserve")
    await broker.broker._settings.alter(cluster={"log.dirs.reserve.bytes": str(GIB)})

    await give_turns_until(partial(traffic.takes, b"b"), "a broker that takes a record")

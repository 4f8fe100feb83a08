"""A broker whose disk fails: what clients and administrators see, and that it goes on by itself."""

import asyncio
import errno
import itertools
import json
import logging
import re
import time
from collections.abc import AsyncIterator
from functools import partial
from pathlib import Path

import pytest

from siltstone.broker.http import health, readiness
from siltstone.broker.http.control.token import read_address
from siltstone.broker.http.readiness import ProbeFailed
from siltstone.broker.process import housekeeping
from siltstone.protocol.errors import KafkaStorageError
from siltstone.storage import files
from siltstone.storage.directory.catalog import FILE_NAME
from tests.support import faults
from tests.support.faults import Disk
from tests.support.http_client import ask
from tests.support.ports import address_of
from tests.support.running import Running, running
from tests.support.services import ServicesOnDisk
from tests.support.traffic import STORAGE_ERROR, Traffic
from tests.support.waiting import equals, give_turns_until

STALL = 2.0  # seconds


@pytest.fixture
def disk(monkeypatch: pytest.MonkeyPatch) -> Disk:
    """The disk under storage, looked at twenty times a second when it is full."""
    monkeypatch.setattr(housekeeping, "DIRECTORY_SECONDS", 0.05)
    return faults.install(monkeypatch)


@pytest.fixture
async def broker(tmp_path: Path, disk: Disk) -> AsyncIterator[Running]:
    """A broker over that disk, with a topic that waits for fsyncs and one that does not."""
    async with running(tmp_path / "data") as started:
        await started.topics.create("orders", 1, {})
        await started.topics.create("safe", 1, {"flush.messages": "1"})
        yield started


@pytest.fixture
async def traffic(broker: Running) -> Traffic:
    """A client."""
    return await open_traffic(broker)


async def open_traffic(broker: Running) -> Traffic:
    """Open a connection that speaks about the topic."""
    return Traffic(await broker.call(), "orders")


@pytest.mark.parametrize("error", [errno.ENOSPC, errno.EROFS, errno.EDQUOT])
async def test_produce_resumes_by_itself(
    traffic: Traffic, disk: Disk, error: int, caplog: pytest.LogCaptureFixture
) -> None:
    """Storage errors while there is no room, fetches go on, and no restart is needed."""
    assert await traffic.produce(b"a") == 0
    disk.fill(error)
    assert [await traffic.produce(b"refused") for _ in range(3)] == [STORAGE_ERROR] * 3
    assert await traffic.values() == [b"a"]
    assert sum("takes no writes" in line for line in caplog.messages) == 1
    disk.mend()
    await give_turns_until(partial(traffic.takes, b"b"), "a broker that takes a record")

    assert await traffic.values() == [b"a", b"b"]


async def page(folder: Path, path: str) -> tuple[int, str]:
    """Return status and body of a page of the broker that has this folder."""
    address = read_address(folder)
    assert address is not None
    answer = await ask(address_of(address)[1], path)
    return answer.status, answer.body.decode()


async def test_every_page_says_what_is_full_and_what_to_do(
    traffic: Traffic, disk: Disk, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Which directory, what happened, what helps; and again that all is well when it is."""
    monkeypatch.setattr(readiness, "PROBE_CACHE_SECONDS", 0.0)
    monkeypatch.setattr(health, "DISK_CACHE_SECONDS", 0.0)
    folder = tmp_path / "data"
    disk.fill()
    assert await traffic.produce(b"refused") == STORAGE_ERROR
    ready, alive, status = [
        await page(folder, path) for path in ("/readyz", "/healthz", "/v1/status")
    ]
    disk.mend()

    async def is_ready() -> bool:
        return (await page(folder, "/readyz"))[0] == 200

    await give_turns_until(is_ready, "a broker that is ready")
    later = json.loads((await page(folder, "/v1/status"))[1])

    trouble = (
        r"takes no writes now \(\[Errno 28\] No space left on device.*\): make room on the disk"
    )
    reason = f"not ready: a record did not make its round trip: log directory {folder} {trouble}\n"
    assert ready[0] == 503
    assert re.fullmatch(reason, ready[1]), ready[1]
    assert alive[0] == 200
    assert "0 of 1 log directories take writes" in alive[1]
    assert f"log directory {folder} " in alive[1]
    assert "No space left on device" in alive[1]
    assert "make room on the disk; until then produce requests are refused" in alive[1]
    assert re.fullmatch(trouble, json.loads(status[1])["log_dirs"][str(folder)])
    assert later["log_dirs"] == {str(folder): "online"}


async def test_a_retry_waits_for_the_fsync_of_the_first_attempt(
    broker: Running, disk: Disk
) -> None:
    """With flush.messages=1 a batch that is sent again meanwhile is acknowledged no earlier."""
    log = next(log for log in broker.logs.all_logs() if log.topic_partition.topic == "safe")
    fields = {"producer_id": 7, "producer_epoch": 0, "base_sequence": 0}
    first, again, later = [Traffic(await broker.call(), "safe") for _ in range(3)]
    disk.fail("fsync", path="safe-0", times=1, seconds=0.1)
    attempt = asyncio.create_task(first.produce(b"a", **fields))
    await give_turns_until(lambda: log.log_end_offset, "a batch that is written", equals(1))

    assert await again.produce(b"a", **fields) == STORAGE_ERROR
    assert await attempt == STORAGE_ERROR
    assert await later.produce(b"a", **fields) == STORAGE_ERROR


async def test_a_directory_that_is_offline_says_so(
    broker: Running, disk: Disk, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its disk takes bytes again, and the broker believes it only after a restart."""
    monkeypatch.setattr(readiness, "PROBE_CACHE_SECONDS", 0.0)
    traffic = Traffic(await broker.call(), "safe")
    disk.fail("fsync", path="safe-0", times=1)
    assert await traffic.produce(b"b") == STORAGE_ERROR
    folder = tmp_path / "data"

    trouble = r"is offline for writes \(.*\): check the disk and restart the broker"
    status = json.loads((await page(folder, "/v1/status"))[1])
    assert re.fullmatch(trouble, status["log_dirs"][str(folder)])
    assert re.search(rf"log directory {folder} {trouble}", (await page(folder, "/healthz"))[1])
    assert re.search(rf"log directory {folder} {trouble}", (await page(folder, "/readyz"))[1])


async def test_failed_fsync(broker: Running, disk: Disk) -> None:
    """A record whose fsync failed is not acknowledged, nor is any later one; fetches go on."""
    traffic = Traffic(await broker.call(), "safe")
    assert await traffic.produce(b"a") == 0
    disk.fail("fsync", path="safe-0", times=1)

    assert await traffic.produce(b"b") == STORAGE_ERROR
    assert await traffic.produce(b"c") == STORAGE_ERROR
    assert await traffic.values() == [b"a", b"b"]
    with pytest.raises(ProbeFailed):
        await broker.probe.round_trip()


@pytest.mark.slow
@pytest.mark.alone
async def test_stalled_disk(broker: Running, disk: Disk) -> None:
    """While fsyncs hang, those of the housekeeping too, others read, write and connect."""
    safe = Traffic(await broker.call(), "safe")
    other = await open_traffic(broker)
    assert await other.produce(b"a") == 0
    disk.fail("fsync", error=0, seconds=STALL)
    hanging = asyncio.create_task(safe.produce(b"waits"))
    broker.logs.checkpoint(files.HIGH_WATERMARKS)
    slowest, turns = 0.0, 0
    while not hanging.done():
        began = time.monotonic()
        new = await open_traffic(broker)
        assert await new.fetch(0) != (0, b"")
        await new.caller.client.close()
        assert await other.produce(b"b") == 0
        slowest = max(slowest, time.monotonic() - began)
        turns += 1
    disk.mend()

    assert await hanging == 0
    assert turns > 10
    assert slowest < STALL / 2


async def test_unanswered_produce_closes(traffic: Traffic, disk: Disk) -> None:
    """acks=0 has no answer to carry the error: the connection closes."""
    disk.fill()
    await traffic.send_unanswered(b"a")

    assert await traffic.caller.client.is_closed()


async def test_parked_fetch_that_cannot_read_harms_no_produce(
    broker: Running, traffic: Traffic, disk: Disk
) -> None:
    """A producer is answered for the write alone; the fetch gets the error."""
    for value in (b"a", b"b"):
        await traffic.produce(value)
    waiting = await open_traffic(broker)
    parked = asyncio.create_task(waiting.fetch(2, min_bytes=500, max_wait_ms=60_000))
    await give_turns_until(lambda: broker.waiting.count, "a parked fetch")
    disk.fail("pread")
    disk.fail("preadv")

    assert await traffic.produce(b"c") == 0
    disk.mend()
    parked.cancel()


@pytest.mark.parametrize(
    ("call", "error"),
    [("create", errno.ENOSPC), ("pwrite", errno.ENOSPC), ("mkdir", errno.EROFS), ("fsync", 5)],
)
async def test_no_topic_is_half_made(
    tmp_path: Path, disk: Disk, call: str, error: int, caplog: pytest.LogCaptureFixture
) -> None:
    """Whichever call fails: an error, no folder, no entry in the catalogue, and the name is free.

    After a restart too.
    """
    caplog.set_level(logging.CRITICAL)
    for after in itertools.count():
        root = tmp_path / str(after)
        home = await ServicesOnDisk(root).open()
        fault = disk.fail(call, error, str(root), after=after, times=1)
        try:
            await home.services.topics.create("orders", 2, {})
        except KafkaStorageError:
            pass
        else:
            home.services.logs.background.drain()
            disk.mend()
            await home.close()
            if fault.hits <= after:
                break
            continue
        disk.mend()
        _check_nothing_is_left(home)
        await home.close()
        again = await ServicesOnDisk(root).open()
        _check_nothing_is_left(again)
        await again.services.topics.create("orders", 1, {})
        await again.close()

    assert after >= 2


def _check_nothing_is_left(home: ServicesOnDisk) -> None:
    assert not home.services.topics.topics
    assert not list(home.paths[0].glob("orders-?"))
    catalogue = home.paths[0] / FILE_NAME
    if catalogue.exists() and not home.writer._deferred:
        assert "orders" not in json.loads(catalogue.read_bytes())["topics"]

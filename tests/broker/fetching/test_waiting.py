"""Parked fetches: woken by enough bytes, by force, by their deadline, by the end of the broker."""

import asyncio
from typing import Any

import pytest

from siltstone.broker.fetching.waiting import Waiting
from siltstone.broker.fetching.watching import READ_COMMITTED, Watch, WatchGroup
from siltstone.broker.transactions.markers import Outcome
from siltstone.protocol.core.constants import TRANSACTIONAL
from siltstone.protocol.messages.fetch import FetchPartition
from siltstone.storage.log.log import Log
from tests.support.appending import append
from tests.support.services import ServicesOnDisk
from tests.support.waiting import within

PLENTY = 1 << 20


@pytest.fixture
async def logs(home: ServicesOnDisk) -> list[Log]:
    """Three empty logs."""
    topic = await home.services.topics.create("t", 3, {})
    return [log for log in topic.logs if log is not None]


class Fetcher:
    """A fetch of some partitions from their ends on."""

    def __init__(self, home: ServicesOnDisk, *, most: int = PLENTY, **wanted: Any) -> None:
        self.waiting: Waiting = home.services.waiting
        self.group = WatchGroup()
        self._topics = home.services.topics
        self._wanted = {"min_bytes": 1, "isolation_level": 0, "seconds": 60.0} | wanted
        for index, log in enumerate(self._topics.topics["t"].logs):
            assert log is not None
            asked = FetchPartition(index, -1, log.log_end_offset, -1, -1, most)
            self.group.changed[Watch(self.group, "t", asked)] = None

    async def wait(self) -> None:
        """Wait as the handler does."""
        try:
            await self.waiting.wait(self.group, self._topics.get_log, **self._wanted)
        finally:
            self.group.leave(len(self.group.changed))

    async def park(self) -> asyncio.Task[None]:
        """Begin to wait."""
        before = self.waiting.count
        task = asyncio.create_task(self.wait())
        await asyncio.sleep(0)
        assert self.waiting.count == before + 1
        return task


async def test_growth_releases_only_who_has_enough(home: ServicesOnDisk, logs: list[Log]) -> None:
    """A fetch that wants more stays parked until all of its partitions together have it."""
    small = await Fetcher(home).park()
    large = await Fetcher(home, min_bytes=200).park()
    append(logs[0])
    await small
    assert home.services.waiting.count == 1
    append(logs[1])
    append(logs[1])
    await large

    assert logs[0].size < 200 <= logs[0].size + logs[1].size
    assert [dict(log.watchers) for log in logs] == [{}] * 3


async def test_growth_counts_one_partition(
    home: ServicesOnDisk, logs: list[Log], monkeypatch: pytest.MonkeyPatch
) -> None:
    """However many a fetch waits for, only the one that has grown is looked at."""
    counted: list[Log] = []
    available_bytes = Log.available_bytes

    def note(log: Log, offset: int, upto: int) -> int:
        counted.append(log)
        return available_bytes(log, offset, upto)

    monkeypatch.setattr(Log, "available_bytes", note)
    task = await Fetcher(home, min_bytes=200).park()
    for _ in range(3):
        append(logs[1])
    await task

    assert counted == [logs[1]] * 3


async def test_a_partition_counts_up_to_its_own_limit(
    home: ServicesOnDisk, logs: list[Log]
) -> None:
    """Kafka's accumulated size: what could not be sent is not waited for."""
    task = await Fetcher(home, min_bytes=25, most=10).park()
    for log in (logs[0], logs[0], logs[1]):
        append(log)
        await asyncio.sleep(0)
        assert not task.done()
    append(logs[2])

    await task


async def test_what_is_there_already_is_counted_first(
    home: ServicesOnDisk, logs: list[Log]
) -> None:
    """Records that came between the read and the wait, or were more than one read gives."""
    fetcher = Fetcher(home, min_bytes=70)
    append(logs[0])

    await within(fetcher.wait(), "the fetch that has enough")


async def test_an_open_transaction_is_nothing_to_who_reads_committed(
    home: ServicesOnDisk, logs: list[Log]
) -> None:
    """Its end is: the last stable offset moves."""
    task = await Fetcher(home, isolation_level=READ_COMMITTED).park()
    other = await Fetcher(home).park()
    append(logs[0], flags=TRANSACTIONAL, producer_id=7, producer_epoch=0, base_sequence=0)
    await other
    assert not task.done()
    home.services.transactions().markers.write(logs[0], Outcome(7, 0, is_commit=True))

    await task


async def test_the_deadline_releases_without_data(home: ServicesOnDisk, logs: list[Log]) -> None:
    """An empty answer after ``max_wait_ms`` is what the client asked for."""
    await Fetcher(home, seconds=0.001).wait()

    assert home.services.waiting.count == 0
    assert [dict(log.watchers) for log in logs] == [{}] * 3


@pytest.mark.usefixtures("logs")
async def test_closing_releases_all_and_parks_nobody(home: ServicesOnDisk) -> None:
    """At shutdown every long poll is answered at once, later ones too."""
    parked = await Fetcher(home).park()
    home.services.waiting.close()
    await parked
    await Fetcher(home).wait()

    assert home.services.waiting.count == 0


async def test_a_cancelled_fetch_leaves_nothing_behind(
    home: ServicesOnDisk, logs: list[Log]
) -> None:
    """A client that goes away does not stay on the log's list."""
    parked = await Fetcher(home).park()
    assert [len(log.watchers) for log in logs] == [1] * 3
    parked.cancel()
    await asyncio.gather(parked, return_exceptions=True)

    assert home.services.waiting.count == 0
    assert [dict(log.watchers) for log in logs] == [{}] * 3

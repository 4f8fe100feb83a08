"""Changes of the catalogue: together on the disk, or not at all."""

import asyncio
import errno
from collections.abc import Callable
from concurrent.futures import Future
from pathlib import Path
from uuid import UUID

import pytest

from siltstone.broker.process import again
from siltstone.broker.process.io import IoThreads
from siltstone.broker.topics.catalog_writer import CatalogWriter
from siltstone.protocol.errors import KafkaStorageError
from siltstone.storage.directory.catalog import Catalog, CatalogState, CatalogTopic
from tests.support.faults import ALWAYS, install
from tests.support.waiting import PATIENCE, equals, give_turns_until


class CountedCatalog(Catalog):
    """A catalogue that counts its writes and can run out of disk."""

    def __init__(self, folder: Path) -> None:
        super().__init__([folder])
        self.writes = 0
        self.is_full = False

    def write(self, state: CatalogState) -> None:
        """Write unless the disk is full."""
        self.writes += 1
        if self.is_full:
            raise OSError(28, "No space left on device")
        super().write(state)


def _add(number: int) -> Callable[[CatalogState], None]:
    def change(state: CatalogState) -> None:
        state.topics[f"t{number}"] = CatalogTopic(id=UUID(int=number + 2), partitions=1)

    return change


async def test_changes_that_come_together_are_written_together(tmp_path: Path) -> None:
    """A thousand topics cost a handful of writes, and none is lost."""
    catalog = CountedCatalog(tmp_path)
    writer = CatalogWriter(catalog, IoThreads(1))
    await asyncio.gather(*(writer.commit(_add(n)) for n in range(1000)))

    assert catalog.writes <= 2
    again = Catalog([tmp_path])
    again.load()
    assert len(again.state.topics) == 1000
    assert again.state == writer.state


async def test_a_change_that_comes_during_a_write_is_in_the_next_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The write that lacks it does not acknowledge it."""
    catalog = Catalog([tmp_path])
    writer = CatalogWriter(catalog, IoThreads(1))
    loop = asyncio.get_running_loop()
    late: list[Future[None]] = []
    write = catalog.write

    def write_later(state: CatalogState) -> None:
        if not late:
            late.append(asyncio.run_coroutine_threadsafe(writer.commit(_add(2)), loop))
            asyncio.run_coroutine_threadsafe(asyncio.sleep(0), loop).result(10)
        write(state)

    monkeypatch.setattr(catalog, "write", write_later)
    await writer.commit(_add(1))
    await asyncio.wrap_future(late[0])
    again = Catalog([tmp_path])
    again.load()

    assert list(again.state.topics) == ["t1", "t2"]


async def test_a_failed_write_leaves_no_trace(tmp_path: Path) -> None:
    """Every waiting request is told, and the next change does not bring the failed one along."""
    catalog = CountedCatalog(tmp_path)
    writer = CatalogWriter(catalog, IoThreads(1))
    catalog.is_full = True
    with pytest.raises(KafkaStorageError, match="make room"):
        await writer.commit(_add(1))
    assert not writer.state.topics
    catalog.is_full = False
    await writer.commit(_add(2))

    assert list(writer.state.topics) == ["t2"]


@pytest.mark.parametrize("place", ["change", "write", "put_back", "on_failure"])
async def test_a_fault_of_the_broker_answers_every_waiter(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, place: str
) -> None:
    """They would wait for ever, each with its request."""

    def fail(*_: object) -> None:
        raise ValueError("a fault of the broker")

    catalog = CountedCatalog(tmp_path)
    writer = CatalogWriter(catalog, IoThreads(1), fail if place == "on_failure" else str)
    changes = [_add(1), fail if place == "change" else _add(2)]
    with monkeypatch.context() as faulty:
        catalog.is_full = place in {"put_back", "on_failure"}
        if place in {"write", "put_back"}:
            faulty.setattr(catalog, place, fail)
        commits = [asyncio.create_task(writer.commit(change)) for change in changes]
        done, waiting = await asyncio.wait(commits, timeout=PATIENCE)
    catalog.is_full = False

    assert not waiting
    assert [type(each.exception()) for each in done] == [KafkaStorageError] * 2
    assert len([record for record in caplog.records if record.exc_info]) == 1
    await writer.commit(_add(3))
    assert list(writer.state.topics) == _found(tmp_path) == ["t3"]


@pytest.mark.parametrize(
    ("failing", "is_back"),
    [((1, 1), True), ((1, ALWAYS), True), ((2, 1), True), ((2, ALWAYS), False)],
)
async def test_a_failed_fsync_leaves_a_file_that_is_on_the_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, failing: tuple[int, int], is_back: bool
) -> None:
    """The old one stays or comes back, fsynced: after a power failure a start finds a whole one."""
    first, times = failing  # of the fsyncs of a write: that of the file, that of the folder
    catalog = Catalog([tmp_path])
    writer = CatalogWriter(catalog, IoThreads(1))
    await writer.commit(_add(1))
    disk = install(monkeypatch)
    disk.fail("fsync", after=first - 1, times=times)
    with pytest.raises(KafkaStorageError):
        await writer.commit(_add(2))
    calls, durable = disk.calls, False
    for number, (kind, _) in enumerate(calls):
        if kind == "rename":
            durable = calls[number - 1][0] == "fsync"
            assert durable
    again = Catalog([tmp_path])
    again.load()

    assert ("t2" in again.state.topics) is not is_back
    assert durable is (first == 2)


async def test_a_folder_that_cannot_be_opened_is_found_out_before_the_rename(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No descriptor is left for its fsync: the change fails, and a start does not find it."""
    writer = CatalogWriter(Catalog([tmp_path]), IoThreads(1))
    await writer.commit(_add(1))
    install(monkeypatch).fail("open", errno.EMFILE)
    with pytest.raises(KafkaStorageError):
        await writer.commit(_add(2))
    monkeypatch.undo()
    again = Catalog([tmp_path])
    again.load()

    assert list(again.state.topics) == ["t1"]


async def test_a_deferred_change_goes_with_the_next_one(tmp_path: Path) -> None:
    """It costs no write of its own, is not lost by a failure, and is written at the stop."""
    catalog = CountedCatalog(tmp_path)
    writer = CatalogWriter(catalog, IoThreads(1))
    writer.defer(_add(1))
    catalog.is_full = True
    with pytest.raises(KafkaStorageError):
        await writer.commit(_add(2))
    catalog.is_full = False
    await writer.close()

    assert list(writer.state.topics) == ["t1"]
    await writer.close()
    assert catalog.writes == 2  # the failed one and that of the stop


async def test_a_deferred_change_that_fails_is_dropped(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Every later commit would be refused with it; other deferred changes are written."""

    def fail(state: CatalogState) -> None:
        _add(9)(state)
        raise ValueError("a fault of the broker")

    writer = CatalogWriter(Catalog([tmp_path]), IoThreads(1))
    for change in (_add(1), fail, _add(2)):
        writer.defer(change)
    await writer.commit(_add(3))

    assert list(writer.state.topics) == _found(tmp_path) == ["t1", "t2", "t3"]
    assert len([record for record in caplog.records if record.exc_info]) == 1
    await writer.close()


async def test_a_deferred_change_outlives_a_commit_that_fails(tmp_path: Path) -> None:
    """The fault is that of the other change."""

    def fail(_: CatalogState) -> None:
        raise ValueError("a fault of the broker")

    writer = CatalogWriter(Catalog([tmp_path]), IoThreads(1))
    writer.defer(_add(1))
    with pytest.raises(KafkaStorageError):
        await writer.commit(fail)
    await writer.close()

    assert _found(tmp_path) == ["t1"]


async def test_an_old_catalogue_is_put_back_later_if_the_broker_fails_in_that(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The refused change may be on the disk, where a start would find it."""
    monkeypatch.setattr(again, "_PAUSE_SECONDS", 0.001)
    catalog = Catalog([tmp_path])
    writer = CatalogWriter(catalog, IoThreads(1))
    await writer.commit(_add(1))
    disk = install(monkeypatch)
    disk.fail("fsync", after=1, times=1)

    def fail(_: CatalogState) -> bool:
        raise ValueError("a fault of the broker")

    with monkeypatch.context() as faulty:
        faulty.setattr(catalog, "put_back", fail)
        with pytest.raises(KafkaStorageError):
            await writer.commit(_add(2))
    await give_turns_until(lambda: _found(tmp_path), "topics of a start", equals(["t1"]))
    await writer.close()


async def test_a_change_outlives_its_client(tmp_path: Path) -> None:
    """A cancelled request has its change written all the same."""
    writer = CatalogWriter(CountedCatalog(tmp_path), IoThreads(1))
    request = asyncio.create_task(writer.commit(_add(1)))
    await asyncio.sleep(0)
    request.cancel()
    await writer.commit(_add(2))

    assert list(writer.state.topics) == ["t1", "t2"]


@pytest.mark.parametrize("stops", [False, True])
async def test_an_old_catalogue_that_the_disk_refuses_is_put_back_later(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, stops: bool
) -> None:
    """Within a second or so, or at the stop: what was refused is gone after a restart."""
    monkeypatch.setattr(again, "_PAUSE_SECONDS", 60.0 if stops else 0.001)
    writer = CatalogWriter(Catalog([tmp_path]), IoThreads(1))
    await writer.commit(_add(1))
    disk = install(monkeypatch)
    disk.fail("fsync", after=1, times=ALWAYS)
    with pytest.raises(KafkaStorageError):
        await writer.commit(_add(2))
    assert "t2" in _found(tmp_path)
    disk.mend()
    if stops:
        await writer.close()

    await give_turns_until(lambda: _found(tmp_path), "topics of a start", equals(["t1"]))


async def test_attempts_to_put_the_catalogue_back_report_no_failure(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The report may leave a mark on the disk, and the loop waits for that."""
    monkeypatch.setattr(again, "_PAUSE_SECONDS", 0.001)
    failures: list[OSError] = []
    writer = CatalogWriter(Catalog([tmp_path]), IoThreads(1), failures.append)
    await writer.commit(_add(1))
    disk = install(monkeypatch)
    disk.fail("fsync", after=1, times=ALWAYS)
    with pytest.raises(KafkaStorageError):
        await writer.commit(_add(2))
    many = 20
    await give_turns_until(lambda: len(disk.names("fsync")), "fsyncs", lambda count: count > many)
    assert len(failures) == 1

    with pytest.raises(KafkaStorageError):
        await writer.commit(_add(2))
    await writer.close()

    assert len(failures) == 3


def _found(folder: Path) -> list[str]:
    catalog = Catalog([folder])
    catalog.load()
    return list(catalog.state.topics)

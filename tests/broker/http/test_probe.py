"""The probe's record through a real broker's listener, and its log that nobody sees."""

import asyncio
import errno
import threading
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from siltstone.broker.http import probe as probe_module
from siltstone.broker.http.probe import Probe
from siltstone.broker.http.readiness import ProbeFailed
from siltstone.protocol.errors import ProtocolError
from siltstone.protocol.messages import Message, fetch
from siltstone.protocol.messages.fetch import FetchResponse
from siltstone.storage import files
from siltstone.storage.log import recovery
from siltstone.storage.topic_partition import FolderState, parse_folder
from tests.support.quotas import set_quota
from tests.support.running import Running, running
from tests.support.waiting import give_turns_until


@pytest.fixture
async def broker(tmp_path: Path) -> AsyncIterator[Running]:
    """A whole broker in this process, whose stop leaves nothing of its probe."""
    async with running(tmp_path) as started:
        yield started

    assert await asyncio.to_thread(folders, tmp_path) == []


def folders(root: Path) -> list[Path]:
    """Return the folders of probes."""
    return list(root.glob("*siltstone-probe*"))


@pytest.fixture
def probe(broker: Running) -> Probe:
    """The probe of that broker."""
    return broker.probe


async def test_record_makes_its_round_trip(broker: Running, probe: Probe) -> None:
    """Each trip appends one record, beginning with an empty log."""
    before = broker.topics.logs[probe.name, 0].log_end_offset
    await probe.round_trip()

    assert before == 1, "the start makes one"
    assert broker.topics.logs[probe.name, 0].log_end_offset == 2


@pytest.mark.parametrize("key", ["producer_byte_rate", "request_percentage"])
async def test_quotas_of_all_clients_do_not_hold_it_up(
    broker: Running, probe: Probe, key: str
) -> None:
    """Otherwise a low quota would make the broker unready, and an orchestrator would end it."""
    caller = await broker.call()
    await set_quota(caller, key, 1.0)
    await asyncio.wait_for(probe.round_trip(), 2)
    await asyncio.wait_for(probe.round_trip(), 2)


async def test_probe_is_in_no_topic(broker: Running, probe: Probe, tmp_path: Path) -> None:
    """Neither Metadata nor LogManager know its log; its name is no legal one."""
    assert probe.name not in broker.topics.topics
    assert not broker.logs.logs
    assert " " in probe.name
    [folder] = await asyncio.to_thread(folders, tmp_path)
    assert parse_folder(folder.name).state is FolderState.DELETE, "or Apache Kafka does not start"
    assert await asyncio.to_thread((folder / "partition.metadata").exists)


async def test_log_is_made_anew_when_it_has_grown(
    broker: Running, probe: Probe, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Years of probing do not fill the disk."""
    monkeypatch.setattr(probe_module, "MAX_LOG_BYTES", 300)
    for _ in range(20):
        await probe.round_trip()

        assert broker.topics.logs[probe.name, 0].size <= 500


async def test_start_whose_disk_refuses_the_log_is_not_ready(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It serves, and is ready as soon as the log can be created."""
    create = recovery.create_partition

    def refuse(*_: object) -> None:
        raise OSError(errno.ENOSPC, "planned")

    monkeypatch.setattr(probe_module, "create_partition", refuse)
    async with running(tmp_path) as broker:
        with pytest.raises(OSError, match="planned"):
            await broker.probe.round_trip()
        monkeypatch.setattr(probe_module, "create_partition", create)
        await broker.probe.round_trip()


async def test_disk_that_hangs_holds_one_thread(
    probe: Probe, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise each question for the readiness would take one from the other log directories."""
    create, may_go, calls = recovery.create_partition, threading.Event(), 0

    def hang(*arguments: Any) -> Any:
        nonlocal calls
        calls += 1
        may_go.wait(10)
        return create(*arguments)

    monkeypatch.setattr(probe_module, "create_partition", hang)
    monkeypatch.setattr(probe_module, "MAX_LOG_BYTES", 0)
    for _ in range(3):
        trip = asyncio.ensure_future(probe.round_trip())
        await asyncio.sleep(0)
        await give_turns_until(lambda: calls > 0, "it creates the log")
        trip.cancel()
        await asyncio.wait({trip})
    may_go.set()
    await probe.round_trip()

    assert calls == 1


async def test_stop_goes_on_whose_disk_keeps_the_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """The logs are closed, and the folder has the name of a deleted one, which a start removes."""

    def refuse(_: Path) -> None:
        raise OSError(errno.EIO, "planned")

    caplog.set_level("INFO")
    async with running(tmp_path):
        monkeypatch.setattr(files, "remove_folder", refuse)
    monkeypatch.undo()

    assert caplog.messages[-1] == "stopped clean=True"
    [left] = await asyncio.to_thread(folders, tmp_path)
    assert parse_folder(left.name).state is FolderState.DELETE


async def test_log_that_refuses_fails_the_trip(broker: Running, probe: Probe) -> None:
    """A refused append is named by Kafka's name of its error."""
    log = broker.topics.logs[probe.name, 0]
    log.abandon(log.path)

    with pytest.raises(ProbeFailed, match="could not be appended: UNKNOWN_TOPIC_OR_PARTITION"):
        await probe.round_trip()


async def test_other_bytes_fail_the_trip(probe: Probe, monkeypatch: pytest.MonkeyPatch) -> None:
    """A record that comes back changed is no round trip."""
    read = probe_module.read_answer

    async def flip(reader: Any, response: Message, version: int) -> Any:
        answer = await read(reader, response, version)
        if response is fetch.RESPONSE:
            [partition] = answer.responses[0].partitions
            data = bytes(partition.records)
            changed = data[:-2] + bytes([data[-2] ^ 1]) + data[-1:]
            answer.responses[0].partitions[0] = partition._replace(records=changed)
        return answer

    monkeypatch.setattr(probe_module, "read_answer", flip)

    with pytest.raises(ProbeFailed, match="not the one that was fetched"):
        await probe.round_trip()


def received(body: bytes, size: int | None = None) -> asyncio.StreamReader:
    """Return a stream with one answer, after a head of its own."""
    answer = bytes(5) + body
    stream = asyncio.StreamReader()
    stream.feed_data((len(answer) if size is None else size).to_bytes(4, "big", signed=True))
    stream.feed_data(answer)
    stream.feed_eof()
    return stream


async def test_fetch_that_is_refused_as_a_whole_is_read() -> None:
    """The answer has a top-level error code, and names no partition."""
    body = fetch.RESPONSE.write(12, FetchResponse(error_code=56))

    answer = await probe_module.read_answer(received(body), fetch.RESPONSE, 12)

    assert (answer.error_code, answer.responses) == (56, [])


async def test_answer_that_is_cut_short_is_refused() -> None:
    """The trip fails by it, and not by an index."""
    body = fetch.RESPONSE.write(12, FetchResponse())

    with pytest.raises(ProtocolError):
        await probe_module.read_answer(received(body[:-1]), fetch.RESPONSE, 12)


@pytest.mark.parametrize("size", [-1, 0, (1 << 20) + 1])
async def test_size_that_makes_no_sense_fails_the_trip(size: int) -> None:
    """Nothing of it is received."""
    with pytest.raises(ProbeFailed, match=f"an answer of {size} bytes"):
        await probe_module.read_answer(received(b"", size), fetch.RESPONSE, 12)

"""The probe's record through a real broker's listener, and its log that nobody sees."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from siltstone.broker.http import probe as probe_module
from siltstone.broker.http.probe import Probe
from siltstone.broker.http.probe_frames import read_fetched
from siltstone.broker.http.readiness import ProbeFailed
from siltstone.storage.topic_partition import FolderState, parse_folder
from tests.support.running import Running, running


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


async def test_log_that_refuses_fails_the_trip(broker: Running, probe: Probe) -> None:
    """A refused append is named by Kafka's name of its error."""
    log = broker.topics.logs[probe.name, 0]
    log.abandon(log.path)

    with pytest.raises(ProbeFailed, match="could not be appended: UNKNOWN_TOPIC_OR_PARTITION"):
        await probe.round_trip()


async def test_other_bytes_fail_the_trip(probe: Probe, monkeypatch: pytest.MonkeyPatch) -> None:
    """A record that comes back changed is no round trip."""
    read = read_fetched

    def flip(frame: bytes, name: str) -> Any:
        fetched = read(frame, name)
        data = fetched.records
        return fetched._replace(records=data[:-2] + bytes([data[-2] ^ 1]) + data[-1:])

    monkeypatch.setattr(probe_module, "read_fetched", flip)

    with pytest.raises(ProbeFailed, match="not the one that was fetched"):
        await probe.round_trip()

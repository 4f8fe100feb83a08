"""A start that fails or is stopped: what the next one finds of it."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from siltstone.broker.net.listener import Listener
from siltstone.broker.server import Broker
from siltstone.config.errors import StartError
from siltstone.config.load import load
from siltstone.storage import files
from siltstone.storage.clock import Clock
from siltstone.storage.directory.log_directory import LogDirError
from siltstone.storage.log import recovery
from tests.support.appending import append_unchecked
from tests.support.running import running


def _fail(error: Exception) -> Any:
    def fail(*_: Any, **__: Any) -> None:
        raise error

    return fail


def _break_listeners(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Listener, "start", _fail(StartError("the port was taken")))


def _break_disk(patch: pytest.MonkeyPatch) -> None:
    patch.setattr("siltstone.broker.server.recover_topics", _fail(LogDirError("it is full")))


@pytest.mark.parametrize(("spoil", "is_clean"), [(_break_listeners, True), (_break_disk, False)])
async def test_only_a_fault_of_the_disk_has_the_next_start_recover(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, spoil: Any, is_clean: bool
) -> None:
    """As with Kafka: otherwise logs are closed as by any stop, and a start scans nothing."""
    mark = tmp_path / files.CLEAN_SHUTDOWN
    async with running(tmp_path) as home:
        topic = await home.topics.create("t", 1, {})
        assert topic.logs[0] is not None
        append_unchecked(topic.logs[0])
    with monkeypatch.context() as patch:
        spoil(patch)
        with pytest.raises(StartError):
            await running(tmp_path).__aenter__()
    assert mark.exists() == is_clean
    async with running(tmp_path) as home:
        assert home.logs.directories[0].was_clean == is_clean
        assert home.logs.all_logs()[0].log_end_offset == 1


@pytest.mark.parametrize(("at", "is_clean"), [("load_partition", False), ("open", True)])
async def test_a_stop_ends_a_start(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    at: str,
    is_clean: bool,
) -> None:
    """A recovery ends with the partition that it scans, and the next start recovers all again."""
    async with running(tmp_path) as home:
        for name in "abcd":
            log = (await home.topics.create(name, 1, {})).logs[0]
            assert log is not None
            append_unchecked(log)
    (tmp_path / files.CLEAN_SHUTDOWN).unlink()
    stop = asyncio.Event()
    broker = Broker(load(None, {}, _settings(tmp_path)), Clock(), stop)
    opened = []

    def stop_at(place: Any, name: str) -> None:
        real = getattr(place, name)

        def do(*given: Any) -> Any:
            opened.append(name)
            if name == at:
                stop.set()
            return real(*given)

        patch.setattr(place, name, do)

    with monkeypatch.context() as patch:
        stop_at(recovery, "load_partition")
        stop_at(broker.topics, "open")
        with caplog.at_level("INFO"):
            await broker.start()
            assert await broker.stop() == is_clean

    assert not any(line.startswith("ready") for line in caplog.messages)
    assert caplog.messages[-1] == f"stopped clean={is_clean}"
    assert len(opened) == (5 if is_clean else 1)
    assert (tmp_path / files.CLEAN_SHUTDOWN).exists() == is_clean
    async with running(tmp_path) as home:
        assert home.logs.directories[0].was_clean == is_clean
        assert [log.log_end_offset for log in home.logs.all_logs()] == [1] * 4


def _settings(folder: Path) -> list[str]:
    return [
        f"log.dirs={folder}",
        "listeners=PLAINTEXT://127.0.0.1:0",
        "http.listener=127.0.0.1:0",
        "num.recovery.threads.per.data.dir=1",
    ]

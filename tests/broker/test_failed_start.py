"""A start that fails: what the next one finds of it."""

from pathlib import Path
from typing import Any

import pytest

from siltstone.broker.net.listener import Listener
from siltstone.config.errors import StartError
from siltstone.storage import files
from siltstone.storage.directory.log_directory import LogDirError
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

"""The rights of what the broker and its commands make, where the process denies others nothing."""

import asyncio
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from siltstone.broker.__main__ import main
from siltstone.storage import files
from siltstone.storage.log import pin_links
from tests.support.appending import append_unchecked
from tests.support.running import running

_OTHERS_WRITE = 0o022


@pytest.fixture(autouse=True)
def _no_umask() -> Iterator[None]:
    before = os.umask(0)
    yield
    os.umask(before)


def _modes(folder: Path) -> dict[str, int]:
    return {each.name: each.lstat().st_mode for each in folder.rglob("*")}


async def test_nothing_may_be_changed_by_others(tmp_path: Path) -> None:
    """Log directory, partitions, pins, users and backups."""
    data, copy = tmp_path / "made" / "data", tmp_path / "copy"
    sets = ["--set", f"log.dirs={data}"]
    assert main(["users", *sets, "--add-scram", "SCRAM-SHA-256=[name=alice,password=wonder]"]) == 0
    async with running(data) as broker:
        topic = await broker.topics.create("orders", 2, {})
        for log in topic.logs:
            assert log is not None
            append_unchecked(log)
            log.roll()
        http = f"http.listener={broker.broker.describe()['http']}"
        assert await asyncio.to_thread(main, ["backup", str(copy), *sets, "--set", http]) == 0
        frozen = [log.freeze() for log in topic.logs if log is not None]
        await asyncio.to_thread(pin_links.link, "1", frozen)
        modes = _modes(tmp_path)

    assert {"orders-1", files.PINS, "00000000000000000001.log"} <= modes.keys()
    assert [name for name, mode in modes.items() if mode & _OTHERS_WRITE] == []

"""`siltstone config` beside a running broker: its values win over the file's."""

import asyncio
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from siltstone.broker.__main__ import main
from siltstone.storage import files
from tests.support.running import Running, running


async def rows(
    capsys: pytest.CaptureFixture[str], folder: Path, *more: str
) -> tuple[dict[str, dict[str, Any]], str]:
    """Return what the command prints for the broker of a folder, and what it says beside."""
    # This process has the lock itself, so that nobody sees which one has the folder open.
    note = folder / files.CONTROL_ADDRESS
    http = note.read_text().strip() if note.exists() else "127.0.0.1:0"
    sets = ("--set", f"log.dirs={folder}", "--set", f"http.listener={http}")
    words: Sequence[str] = ["config", "--json", *sets, *more]
    assert await asyncio.to_thread(main, words) == 0
    out, err = capsys.readouterr()
    return {row["name"]: row for row in json.loads(out)}, err


async def alter(broker: Running, name: str, value: str) -> None:
    """Set a dynamic value for all brokers."""
    await broker.broker._settings.alter(cluster={name: value})


async def test_the_running_broker_is_asked(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Values that it was started with and dynamic ones, each with its source."""
    async with running(tmp_path, "num.partitions=7") as broker:
        await alter(broker, "max.connections", "99")
        found, said = await rows(capsys, tmp_path, "--set", "num.partitions=3")
        offline, _ = await rows(capsys, tmp_path, "--offline", "--set", "num.partitions=3")

    assert said == ""
    assert (found["num.partitions"]["value"], found["num.partitions"]["source"]) == ("7", "--set")
    assert found["max.connections"]["value"] == "99"
    assert found["max.connections"]["source"] == "dynamic for all brokers"
    assert offline["num.partitions"]["value"] == "3"
    assert offline["max.connections"]["value"] == "99"


async def test_without_a_broker_the_file_speaks(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A word on stderr says so; what is printed can be read by a program as before."""
    found, said = await rows(capsys, tmp_path, "--set", "num.partitions=3")

    assert found["num.partitions"]["value"] == "3"
    assert f"no broker has {tmp_path} open" in said
    assert "this is what a start would take" in said


async def test_another_brokers_settings_are_not_taken_for_ours(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """It listens where ours would, and has other folders."""
    async with running(tmp_path / "theirs", "num.partitions=7"):
        http = (tmp_path / "theirs" / files.CONTROL_ADDRESS).read_text().strip()
        found, said = await rows(capsys, tmp_path / "ours", "--set", f"http.listener={http}")

    assert found["num.partitions"]["value"] == "1"
    assert f"has the log directory {tmp_path / 'theirs'} and not {tmp_path / 'ours'}" in said

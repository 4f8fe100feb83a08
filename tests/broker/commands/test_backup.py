"""`siltstone backup`: all data at one moment, and a broker that starts on them."""

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from siltstone.broker.__main__ import main
from siltstone.broker.commands import asking, backup
from siltstone.broker.commands.asking import Channel, Refusal
from siltstone.broker.topics import registry
from siltstone.cleaner.history.history import FILE_NAME
from siltstone.storage.directory.catalog import Catalog
from tests.support.appending import append_unchecked
from tests.support.commits import commit
from tests.support.logs import flipped
from tests.support.running import Running, running
from tests.support.waiting import give_turns_until

SMALL = "offsets.topic.num.partitions=1"


async def run(folder: Path, target: Path, http: str = "127.0.0.1:1") -> int:
    """Type the command beside the broker of a folder; return its exit code."""
    sets = (f"log.dirs={folder}", f"http.listener={http}")
    words = ["backup", str(target), "--json", *(word for each in sets for word in ("--set", each))]
    return await asyncio.to_thread(main, words)


def end(broker: Running, topic: str) -> int:
    """Return the end of a topic's first partition."""
    return broker.topics.logs[topic, 0].log_end_offset


async def fill(broker: Running) -> None:
    """Make a topic with a setting, three records and a committed offset."""
    await broker.topics.create("orders", 1, {"retention.ms": "-1", "segment.bytes": "14"})
    append(broker, 3)
    await commit(broker, "billing", 2)


def append(broker: Running, count: int) -> None:
    """Append as many batches of a record."""
    for _ in range(count):
        append_unchecked(broker.topics.logs["orders", 0], 1)


def facts_of(broker: Running) -> dict[str, Any]:
    """Return id, number of partitions and settings of each topic."""
    return {
        name: (topic.id, topic.partitions, dict(topic.overrides))
        for name, topic in broker.topics.topics.items()
    }


def names(folder: Path) -> list[str]:
    """Return what lies in a folder."""
    return sorted(each.name for each in folder.iterdir())


async def test_a_broker_starts_on_a_backup(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """It has what there was then, and nothing of later: records, offsets, settings, ids."""
    data, target = tmp_path / "data", tmp_path / "backups" / "monday"
    data.mkdir()
    async with running(data, SMALL) as broker:
        await fill(broker)
        assert await run(data, target, broker.broker.describe()["http"]) == 0
        append(broker, 2)
        topic_id = broker.topics.topics["orders"].id
    told = json.loads(capsys.readouterr().out)
    assert (told["folder"], told["partitions"]) == (str(target), 2)

    async with running(target, SMALL) as restored:
        topic = restored.topics.topics["orders"]
        assert end(restored, "orders") == 3
        assert (topic.id, topic.overrides["retention.ms"]) == (topic_id, "-1")
        assert end(restored, "__consumer_offsets") > 0
    assert names(target.parent) == ["monday"]


async def test_topics_that_change_during_a_backup(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The copy has those of the moment of the pin, with their ids, settings and partitions."""
    data, target = tmp_path / "data", tmp_path / "monday"
    data.mkdir()
    loop = asyncio.get_running_loop()

    async def change() -> None:
        topics = broker.topics
        await topics.delete(topics.topics["orders"])
        await topics.create("orders", 1, {})
        await topics.delete(topics.topics["gone"])
        await topics.add_partitions(topics.topics["grown"], 3)
        await topics.create("later", 1, {})

    def copy_all(self: Any, *given: Any) -> None:
        asyncio.run_coroutine_threadsafe(change(), loop).result()
        original(self, *given)

    original = backup._Backup._copy_all
    monkeypatch.setattr(backup._Backup, "_copy_all", copy_all)
    async with running(data, SMALL) as broker:
        await fill(broker)
        await broker.topics.create("gone", 1, {"cleanup.policy": "compact"})
        await broker.topics.create("grown", 2, {})
        before = facts_of(broker)
        assert await run(data, target, broker.broker.describe()["http"]) == 0

    async with running(target, SMALL) as restored:
        assert facts_of(restored) == before
        assert end(restored, "orders") == 3


async def test_a_pass_between_the_history_and_the_pin(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its receipt may be missing, so that it has begun must not: verify would report damage."""
    data, target = tmp_path / "data", tmp_path / "monday"
    data.mkdir()
    events = [_line(kind, number).decode() for number in (1, 2) for kind in ("begin", "pass")]

    def post(self: Channel, path: str, **more: Any) -> Any:
        if path == "/v1/pins":
            (data / FILE_NAME).write_text("".join(events))
        return original(self, path, **more)

    original = Channel.post
    monkeypatch.setattr(Channel, "post", post)
    async with running(data, SMALL) as broker:
        (data / FILE_NAME).write_text("".join(events[:2]))
        assert await run(data, target, broker.broker.describe()["http"]) == 0

    assert (target / FILE_NAME).read_text() == "".join(events[:3])


def test_histories_of_several_directories_are_in_order_of_time() -> None:
    """A partition that moved has passes in each of them; lines that are no event are left out."""
    lines = [_line("pass", number) for number in range(5)]
    odd = b'{"st\n[]\n7\n{"started_ms": "x"}\n'

    merged = backup._merge([b"".join(lines[::2]) + b'{"star', odd + b"".join(lines[1::2])])

    assert list(merged) == lines


def _line(kind: str, started_ms: int) -> bytes:
    event = {"event": kind, "topic": "t", "partition": 0, "started_ms": started_ms, "outcome": kind}
    return json.dumps(event).encode() + b"\n"


async def test_what_a_backup_needs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A folder that does not exist, and a broker; each is asked for in a sentence."""
    assert await run(tmp_path, tmp_path / "monday") == 1
    assert "of a broker that does not run, copy the log directories" in capsys.readouterr().err
    assert await run(tmp_path, tmp_path) == 2
    assert "exists; name a folder that does not" in capsys.readouterr().err


async def test_a_folder_of_somebody_else_is_left_alone(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """One that has the name of a backup which is being made may not be one of ours."""
    (tmp_path / "monday.partial").mkdir()
    (tmp_path / "monday.partial" / "mine").touch()

    assert await run(tmp_path / "data", tmp_path / "monday") == 2
    assert "monday.partial exists" in capsys.readouterr().err
    assert names(tmp_path / "monday.partial") == ["mine"]


async def test_a_pin_that_ends_too_early(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A copy that may be of another moment gets no name, and nothing is left."""
    data, target = tmp_path / "data", tmp_path / "monday"
    data.mkdir()
    asked: list[str] = []

    def post(self: Channel, path: str, **more: Any) -> Any:
        asked.append(path)
        if path == "/v1/pins/renew":
            raise Refusal("the pin has ended")
        return original(self, path, **more)

    original = Channel.post
    monkeypatch.setattr(Channel, "post", post)
    async with running(data, SMALL) as broker:
        await fill(broker)
        assert await run(data, target, broker.broker.describe()["http"]) == 1

    assert "the pin has ended" in capsys.readouterr().err
    assert asked[-1] == "/v1/pins/release"
    assert names(tmp_path) == ["data"]


async def test_a_pin_that_takes_long(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Hundreds of thousands of segments get a link each; a broker that hangs is noticed before."""
    data = tmp_path / "data"
    data.mkdir()
    asked: list[tuple[str, float]] = []

    def note(self: Channel, method: str, path: str, *given: Any) -> Any:
        asked.append((path, given[2] if len(given) > 2 else asking.TIMEOUT_SECONDS))
        return original(self, method, path, *given)

    original = Channel._ask
    monkeypatch.setattr(Channel, "_ask", note)
    async with running(data, SMALL) as broker:
        await fill(broker)
        assert await run(data, tmp_path / "monday", broker.broker.describe()["http"]) == 0

    assert asked[:2] == [("/v1/status", 10), ("/v1/pins", 600)]


async def test_a_pin_whose_files_are_gone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Why it has ended is said, not which of its links is missing."""
    data, target = tmp_path / "data", tmp_path / "monday"
    data.mkdir()

    def copy_all(self: Any, *given: Any) -> None:
        self._release()
        original(self, *given)

    original = backup._Backup._copy_all
    monkeypatch.setattr(backup._Backup, "_copy_all", copy_all)
    async with running(data, SMALL) as broker:
        await fill(broker)
        assert await run(data, target, broker.broker.describe()["http"]) == 1

    error = capsys.readouterr().err
    assert "siltstone: there is no pin " in error
    assert "it kept more than pins.max.bytes" in error
    assert names(tmp_path) == ["data"]


async def test_damage_is_told_and_kept(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """It may be the only copy: the batch is named, the others can be read, and the code is 1."""
    data, target = tmp_path / "data", tmp_path / "monday"
    data.mkdir()
    async with running(data, SMALL) as broker:
        await fill(broker)
        segment = broker.topics.logs["orders", 0].segments[-2]
        with flipped(segment.log_path, -1):
            assert await run(data, target, broker.broker.describe()["http"]) == 1

    told = capsys.readouterr()
    fault = f"orders-0/{segment.log_path.name} position 0: the checksum is wrong"
    assert json.loads(told.out)["faults"] == [fault]
    assert fault in told.err
    assert names(tmp_path) == ["data", "monday"]


async def test_topics_that_come_while_the_pin_is_made(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The catalogue has them already, and clients do not yet: the copy is as clients see it."""
    data, target = tmp_path / "data", tmp_path / "monday"
    data.mkdir()
    goes_on = asyncio.Event()
    original = registry.create_partitions

    async def create_partitions(*given: Any) -> None:
        await goes_on.wait()
        await original(*given)

    async with running(data, SMALL) as broker:
        await fill(broker)
        before = facts_of(broker)
        monkeypatch.setattr(registry, "create_partitions", create_partitions)
        topics = broker.topics
        coming = [
            asyncio.ensure_future(topics.create("coming", 1, {})),
            asyncio.ensure_future(topics.add_partitions(topics.topics["orders"], 3)),
        ]
        await give_turns_until(lambda: _catalogued(data, "coming", 3), "both in the catalogue")
        assert await run(data, target, broker.broker.describe()["http"]) == 0
        goes_on.set()
        await asyncio.gather(*coming)

    async with running(target, SMALL) as restored:
        assert facts_of(restored) == before


def _catalogued(data: Path, topic: str, partitions: int) -> bool:
    catalog = Catalog([data])
    catalog.load()
    there = catalog.state.topics
    return topic in there and there["orders"].partitions == partitions


async def test_a_partition_that_was_set_aside(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """It keeps no other from being copied, and is named."""
    data, target = tmp_path / "data", tmp_path / "monday"
    data.mkdir()
    async with running(data, SMALL) as broker:
        await fill(broker)
        await broker.topics.create("broken", 2, {})
    index = next((data / "broken-1").glob("*.index"))
    index.unlink()
    index.mkdir()
    async with running(data, SMALL) as broker:
        assert broker.topics.is_unserved("broken", 1)
        assert await run(data, target, broker.broker.describe()["http"]) == 1

    told = capsys.readouterr()
    fault = "broken-1 was set aside by the start, and the copy lacks it"
    assert json.loads(told.out)["faults"] == [fault]
    assert fault in told.err
    assert (target / "broken-0").exists()
    async with running(target, SMALL) as restored:
        assert end(restored, "orders") == 3
        assert restored.topics.topics["broken"].partitions == 2

"""Answers over HTTP while a broker still opens its logs: later, and never that a thing is gone."""

import asyncio
import threading
from collections.abc import AsyncIterator, Callable
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from siltstone.broker.commands.asking import Channel, Refusal
from siltstone.broker.http.control.token import read_address, read_token
from siltstone.broker.server import Broker
from siltstone.config.load import load
from siltstone.protocol.messages.consumer_offsets import OffsetCommitValue
from siltstone.storage.clock import Clock
from siltstone.storage.files import CONTROL_ADDRESS
from siltstone.storage.manager import LogManager
from tests.support.committed import new_offsets
from tests.support.http_client import Answer, ask
from tests.support.ports import address_of
from tests.support.running import Running, running
from tests.support.waiting import give_turns_until, within

PAGES = (
    ("GET", "/v1/explain?topic=orders"),
    ("GET", "/v1/explain"),
    ("POST", "/v1/dry-run?topic=orders"),
    ("POST", "/v1/clean?topic=orders"),
    ("GET", "/v1/cleaner-history"),
    ("GET", "/v1/topics"),
    ("GET", "/v1/pins"),
    ("POST", "/v1/pins"),
    ("POST", "/v1/reload"),
    ("POST", "/v1/diff"),
)


class Starting:
    """A broker over a folder with a compacted topic, whose start waits until it may go on."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.settings = [
            f"log.dirs={folder}",
            "listeners=PLAINTEXT://127.0.0.1:0",
            "http.listener=127.0.0.1:0",
        ]
        self.broker = Broker(load(None, {}, self.settings), Clock(), asyncio.Event())
        self.task = asyncio.create_task(self.broker.start())

    async def address(self) -> str:
        """Return where HTTP answers, once it does."""
        address = await give_turns_until(partial(read_address, self.folder), "an address of HTTP")
        assert address is not None
        return address

    async def ask(self, method: str, path: str) -> Answer:
        """Ask a page, with the token."""
        _, port = address_of(await self.address())
        token = read_token(self.folder)
        return await ask(port, path, method, headers=f"Authorization: Bearer {token}\r\n")


@pytest.fixture
def go_on(monkeypatch: pytest.MonkeyPatch) -> threading.Event:
    """Logs are opened when this is set."""
    event = threading.Event()
    opens: Callable[..., Any] = LogManager.load

    def wait(manager: LogManager, *given: Any) -> Any:
        assert event.wait(60)
        return opens(manager, *given)

    monkeypatch.setattr(LogManager, "load", wait)
    return event


@pytest.fixture
async def starting(tmp_path: Path, go_on: threading.Event) -> AsyncIterator[Starting]:
    """A broker in the middle of its start."""
    go_on.set()
    async with running(tmp_path) as before:
        await before.topics.create("orders", 1, {"cleanup.policy": "compact"})
    (tmp_path / CONTROL_ADDRESS).unlink()
    go_on.clear()
    starting = Starting(tmp_path)
    yield starting
    go_on.set()
    with suppress(asyncio.CancelledError):
        await starting.task
    await starting.broker.stop()


@pytest.mark.parametrize(("method", "path"), PAGES)
async def test_topics_are_not_there_yet(
    starting: Starting, go_on: threading.Event, method: str, path: str
) -> None:
    """503 while logs are opened, whatever is asked about them; then the answer."""
    early = await starting.ask(method, path)
    go_on.set()
    await starting.task
    late = await starting.ask(method, path)

    assert early.status == 503
    assert b"the broker is still starting: the logs are still being opened" in early.body
    assert early.headers["retry-after"] == "1"
    assert late.status in {200, 201, 409}


async def test_a_command_says_that_the_broker_starts(starting: Starting) -> None:
    """`siltstone explain` and `clean` tell it as it is."""
    address = await starting.address()
    sets = [*starting.settings[:-1], f"http.listener={address}"]
    channel = Channel(load(None, {}, sets))

    with pytest.raises(Refusal, match="the broker is still starting"):
        await asyncio.to_thread(channel.get, "/v1/explain")


async def test_a_scrape_during_the_start_costs_no_offsets(
    tmp_path: Path, go_on: threading.Event
) -> None:
    """The coordinators read their journals, though a scrape came before there were topics."""
    go_on.set()
    async with running(tmp_path) as before:
        await before.topics.create("orders", 1, {})
        groups = before.groups
        await groups.journal.ensure_created()
        committed = new_offsets(("orders", 0, OffsetCommitValue(7, -1, "", 1)))
        groups.offsets.append("g", groups.journal.partition_for("g"), committed)
    (tmp_path / CONTROL_ADDRESS).unlink()
    go_on.clear()
    starting = Starting(tmp_path)
    try:
        scraped = await starting.ask("GET", "/metrics")
        go_on.set()
        await starting.task
        groups = Running(starting.broker).groups
        await within(groups.loaded.wait(), "the offsets to be read")
        found = groups.offsets.find("g", "orders", 0)
    finally:
        go_on.set()
        await starting.broker.stop()

    assert scraped.status == 200
    assert b"kafka_coordinator_group_groupmetadatamanager_numoffsets 0" in scraped.body
    assert found is not None
    assert found.offset == 7

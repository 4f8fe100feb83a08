"""Leases and limits of pins, their pages, and what a killed broker leaves of them."""

import errno
import json
import os
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from siltstone.broker.commands.http_client import ControlAnswer, ask
from siltstone.broker.http.control.pin_pages import PinPages
from siltstone.broker.http.control.token import read_token
from siltstone.broker.http.server import Routes
from siltstone.broker.http.values import HttpRequest, HttpResponse
from siltstone.broker.topics.pins import PinRoom
from siltstone.protocol.errors import CorruptMessage
from siltstone.storage import files
from tests.support.appending import append_unchecked
from tests.support.broker import SiltstoneProcess
from tests.support.clients.confluent import Confluent
from tests.support.messages import Message
from tests.support.ports import address_of
from tests.support.services import ServicesOnDisk


class Home(ServicesOnDisk):
    """A broker's services with one for pins, and topic `orders` of two partitions."""

    async def start(self) -> "Home":
        """Open everything and make the topic."""
        await self.open()
        self.pins = PinRoom(lambda: self.services.settings.server, self.clock, lambda _: 7)
        self.pages = PinPages(self.pins, self.services.topics, self.io, lambda: "cluster")
        await self.services.topics.create("orders", 2, {})
        for log in self.services.logs.all_logs():
            append_unchecked(log, [(b"k", b"v")])
        return self

    async def end(self) -> None:
        """Stop as the server does."""
        await self.pins.close()
        await self.close()

    async def post(self, path: str, **asked: Any) -> HttpResponse:
        """Ask a page that wants no token here."""
        routes = Routes(self.pages.routes(lambda page: page))
        return await routes.answer(
            HttpRequest(method="POST", path=path, body=json.dumps(asked).encode())
        )

    async def pin(self, **asked: Any) -> dict[str, Any]:
        """Return the manifest of a new pin."""
        response = await self.post("/v1/pins", **asked)
        assert response.status == 201, response.body
        manifest: dict[str, Any] = json.loads(text(response))
        return manifest

    @property
    def folder(self) -> Path:
        """Where the links are."""
        return self.paths[0] / files.PINS


def text(response: HttpResponse) -> str:
    """Return an answer's body as text."""
    assert isinstance(response.body, bytes)
    return response.body.decode()


@pytest.fixture
async def home(tmp_path: Path) -> AsyncIterator[Home]:
    """The services, open."""
    home = await Home(tmp_path, pins_max_count="2", pins_max_lease_ms="60000").start()
    yield home
    await home.end()


async def test_manifest(home: Home) -> None:
    """It tells the offsets of the moment, and which files belong to it."""
    manifest = await home.pin(topics=["orders"], lease_ms=5000)

    assert manifest["lease_ms"] == 5000
    assert manifest["cluster_id"] == "cluster"
    for number, partition in enumerate(manifest["partitions"]):
        log = home.services.topics.logs["orders", number]
        assert (partition["topic"], partition["partition"]) == ("orders", number)
        assert partition["folder"] == str(home.folder / manifest["pin"] / f"orders-{number}")
        assert (partition["log_start_offset"], partition["end_offset"]) == (0, 1)
        assert partition["last_stable_offset"] == 1
        assert partition["first_dirty_offset"] == 7
        (segment,) = partition["segments"]
        assert segment["size"] == log.size
        assert segment["is_active"] is True


async def test_single_partitions(home: Home) -> None:
    """Partitions may be named one by one, and twice."""
    manifest = await home.pin(partitions=[["orders", 1], ["orders", 1]])

    assert [each["partition"] for each in manifest["partitions"]] == [1]


async def test_no_names_mean_everything(home: Home) -> None:
    """A pin without names is of all topics."""
    await home.services.topics.create("another", 1, {})

    manifest = await home.pin()

    assert [each["topic"] for each in manifest["partitions"]] == ["another", "orders", "orders"]


@pytest.mark.parametrize(
    ("asked", "status"),
    [
        ({"topics": ["nobody"]}, 404),
        ({"partitions": [["orders", 2]]}, 404),
        ({"partitions": ["orders-0"]}, 400),
        ({"topics": ["orders"], "lease_ms": "soon"}, 400),
        ({"topics": 7}, 400),
    ],
)
async def test_bad_requests(home: Home, asked: dict[str, Any], status: int) -> None:
    """An unknown thing is 404, nonsense 400; nothing is pinned."""
    response = await home.post("/v1/pins", **asked)

    assert response.status == status
    assert home.pins.all_pins() == []


async def test_lease_ends(home: Home) -> None:
    """A pin that nobody renews goes with its links; a renewed one stays."""
    lost, kept = await home.pin(lease_ms=10_000), await home.pin(lease_ms=10_000)
    home.clock.advance(6000)
    assert (await home.post("/v1/pins/renew", id=kept["pin"])).status == 200
    home.clock.advance(6000)

    await home.pins.look()

    assert [each.name for each in home.folder.iterdir()] == [kept["pin"]]
    response = await home.post("/v1/pins/renew", id=lost["pin"])
    assert response.status == 410
    assert "pin again" in text(response)
    assert home.pins.counts.ended["expired"] == 1


async def test_longest_lease(home: Home) -> None:
    """A lease is cut to what the settings allow."""
    assert (await home.pin(lease_ms=10**9))["lease_ms"] == 60_000


async def test_release(home: Home) -> None:
    """A released pin leaves no folder, and cannot be released a second time."""
    manifest = await home.pin()

    assert (await home.post("/v1/pins/release", id=manifest["pin"])).status == 200

    assert not home.folder.exists()
    assert (await home.post("/v1/pins/release", id=manifest["pin"])).status == 410


async def test_most_pins(home: Home) -> None:
    """One pin more than pins.max.count is refused with a sentence that says so."""
    await home.pin()
    await home.pin()

    response = await home.post("/v1/pins")

    assert response.status == 503
    assert "pins.max.count" in text(response)
    assert home.pins.counts.refused == 1


@pytest.mark.parametrize("number", [errno.EPERM, errno.EOPNOTSUPP, errno.EXDEV, errno.ENOSPC])
async def test_no_hard_links(home: Home, monkeypatch: pytest.MonkeyPatch, number: int) -> None:
    """Where the disk takes no links the answer says what to do instead, and nothing is left."""

    def refuse(*_: object) -> None:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(files, "link", refuse)
    response = await home.post("/v1/pins")

    assert response.status == 503
    assert os.strerror(number) in text(response)
    assert "needs a file system with hard links and room for names" in text(response)
    assert "fetch transport instead" in text(response)
    assert home.pins.all_pins() == []
    assert not list(home.folder.iterdir())
    monkeypatch.undo()
    assert len((await home.pin())["partitions"]) == 2


async def test_a_damaged_log_takes_no_place(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    """A pin that ends in any error counts no more: two of them leave room for two others."""

    def refuse(_name: str, _folder: int) -> tuple[int, int]:
        raise CorruptMessage("no batch begins there")

    with monkeypatch.context() as patch:
        patch.setattr(files, "find_identity", refuse)
        for _ in range(2):
            response = await home.post("/v1/pins", topics=["orders"])
            assert "no batch begins there" in text(response)

    await home.pin(topics=["orders"])
    await home.pin(topics=["orders"])
    assert len(home.pins.all_pins()) == 2


async def test_most_bytes(tmp_path: Path) -> None:
    """When pins alone keep more than pins.max.bytes, the oldest goes."""
    home = await Home(tmp_path, pins_max_bytes="0").start()
    first = await home.pin(topics=["orders"])
    await home.services.topics.create("quiet", 1, {})
    second = await home.pin(topics=["quiet"])
    await home.services.topics.delete(home.services.topics.topics["orders"])
    home.clock.advance(3_600_000)
    home.pins.renew(first["pin"])
    home.pins.renew(second["pin"])
    home.services.logs.deletions.run_due()
    home.services.logs.background.drain()

    await home.pins.look()

    assert [pin.pin_id for pin in home.pins.all_pins()] == [second["pin"]]
    assert home.pins.held_bytes() == 0
    assert home.pins.counts.ended["over-budget"] == 1
    await home.end()


async def test_pin_outlives_its_topic(home: Home) -> None:
    """The files of a deleted topic stay until the pin goes."""
    manifest = await home.pin(topics=["orders"])
    await home.services.topics.delete(home.services.topics.topics["orders"])
    home.clock.advance(3_600_000)
    home.services.logs.deletions.run_due()
    home.services.logs.background.drain()

    links = list((home.folder / manifest["pin"]).glob("orders-*/*.log"))

    assert len(links) == 2
    assert all(path.stat().st_nlink == 1 and path.stat().st_size for path in links)


async def test_stop_releases_all(home: Home) -> None:
    """A broker that stops leaves no pin behind, and gives none any more."""
    await home.pin()

    await home.pins.close()

    assert not home.folder.exists()
    assert (await home.post("/v1/pins")).status == 503


class Asked:
    """Questions to a real process."""

    def __init__(self, broker: SiltstoneProcess) -> None:
        self._address = address_of(broker.http)
        self._token = read_token(broker.folder)

    def post(self, path: str, token: str = "", **asked: Any) -> ControlAnswer:
        """Ask a guarded page."""
        body = json.dumps(asked).encode()
        return ask(self._address, "POST", path, token=token or self._token, body=body)

    def metrics(self) -> bytes:
        """Return what is scraped."""
        return ask(self._address, "GET", "/metrics").body


@pytest.mark.slow
@pytest.mark.timeout(180)
def test_pins_of_a_process(tmp_path: Path) -> None:
    """Token, command and metrics; what `kill -9` leaves is swept by the next start."""
    broker = SiltstoneProcess(tmp_path).start()
    try:
        client = Confluent(broker.bootstrap)
        client.create("orders", 1, {})
        client.produce("orders", [Message(b"k", b"v", (), 0)])
        asked = Asked(broker)
        assert asked.post("/v1/pins", token="no" * 32).status == 401
        answer = asked.post("/v1/pins", topics=["orders"], holder="me")
        assert answer.status == 201
        shown = broker.run("pins").stdout
        assert "for me: orders; 1 partition, 1 segment," in shown
        assert b"\nsiltstone_pins 1\n" in asked.metrics()
        pinned = json.loads(answer.body)["partitions"][0]
        assert pinned["folder"].startswith(str(broker.folder / files.PINS))
        noted = (broker.folder / files.CONTROL_ADDRESS).read_text().strip()
        assert noted == broker.http

        broker.kill()
        broker.start()

        assert not (broker.folder / files.PINS).exists()
        assert b"\nsiltstone_pins 0\n" in asked.metrics()
    finally:
        broker.close()

"""Clients that come and do not go on: they are closed in time, and leave nothing behind."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from siltstone.broker.security.plain import PLAIN, PLAIN_HASH
from siltstone.broker.security.scram import make_verifier
from siltstone.broker.security.users import UserStore
from tests.support.authority import Authority
from tests.support.broker import ADDRESS, SiltstoneProcess
from tests.support.ports import address_of
from tests.support.strangers import Strangers
from tests.support.waiting import give_turns_until

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterator

    from tests.support.traffic import Traffic

    Connect = Callable[[SiltstoneProcess, str], Awaitable[Traffic]]

pytestmark = pytest.mark.slow

COUNT = 200
MIB = 1 << 20
PAUSE = 0.2


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[SiltstoneProcess]:
    """One with listeners of three kinds, which closes clients that are idle for some seconds."""
    broker = SiltstoneProcess(tmp_path)
    broker.folder.mkdir()
    UserStore(broker.folder).write({"ann": {PLAIN: make_verifier(PLAIN_HASH, "secret")}})
    broker.settings |= {
        "listeners": f"PLAINTEXT://{broker.listener},SASL://127.0.0.1:0,SSL://127.0.0.1:0",
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,SASL:SASL_PLAINTEXT,SSL:SSL",
        "sasl.enabled.mechanisms": PLAIN,
        "ssl.keystore.location": str(Authority(tmp_path / "tls").issue("server").store),
        "connections.max.idle.ms": "10000",
    }
    broker.start()
    yield broker
    broker.close()


def descriptors(broker: SiltstoneProcess) -> int:
    """Return how many descriptors the process has open."""
    return len([*Path(f"/proc/{broker.daemon.pid}/fd").iterdir()])


async def test_they_are_closed_and_others_are_served(
    broker: SiltstoneProcess, connect: Connect
) -> None:
    """Silence, or half a handshake, is closed; a client that drips costs little until it leaves."""
    other = await connect(broker, "orders")
    await other.create()
    assert await other.produce(b"warm") == 0
    ports = [
        address_of(broker.daemon.wait_for(ADDRESS.format(name))[1])[1]
        for name in ("PLAINTEXT", "SASL", "SSL")
    ]
    before, memory = descriptors(broker), broker.resident_bytes
    strangers = Strangers(ports[0], ports[1], ports[2], COUNT)
    try:

        async def left() -> int:
            strangers.drip()
            assert await other.produce(b"a") == 0
            await asyncio.sleep(PAUSE)
            return sum(not each.is_closed for each in (*strangers.unknown, *strangers.half))

        await left()
        assert broker.resident_bytes - memory < 15 * MIB
        await give_turns_until(left, "no stranger that waits", lambda count: count == 0)

        assert not any(each.is_closed for each in strangers.slow)
    finally:
        strangers.close()

    async def opened() -> int:
        assert await other.produce(b"a") == 0
        return descriptors(broker)

    await give_turns_until(
        opened, f"at most {before + 5} descriptors", lambda count: count <= before + 5
    )
    assert "Traceback" not in broker.daemon.printed()

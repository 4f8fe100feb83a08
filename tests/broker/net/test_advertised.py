"""What is said of the addresses that clients are told."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING

import pytest

from siltstone.broker.net.advertised import try_all, who_for
from tests.support.ports import free_ports
from tests.support.running import running
from tests.support.waiting import PATIENCE

if TYPE_CHECKING:
    from pathlib import Path

NOWHERE = "kafka.invalid"  # RFC 6761: such a name never resolves


@pytest.mark.parametrize(
    ("host", "clients"),
    [
        ("127.0.0.1", "clients on this machine"),
        ("localhost", "clients on this machine"),
        ("::1", "clients on this machine"),
        ("10.1.2.3", "clients of the same private network"),
        ("fe80::1%eth0", "clients on the same link"),
        ("8.8.8.8", "clients anywhere"),
        ("kafka", "clients that find kafka by name"),
    ],
)
def test_an_address_is_for_some_clients(host: str, clients: str) -> None:
    """In words that somebody understands who never read about listeners."""
    assert who_for(host) == clients


async def test_what_fails_is_said_in_one_line_each(caplog: pytest.LogCaptureFixture) -> None:
    """Which clients fail, and why; what can be reached is not spoken of."""
    server = await asyncio.start_server(lambda _, writer: writer.close(), "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    (nobody,) = free_ports(1)
    with caplog.at_level(logging.WARNING):
        async with server:
            faults = await try_all(
                {
                    "FINE": ("127.0.0.1", port),
                    "NAME": (NOWHERE, 9092),
                    "DEAF": ("127.0.0.1", nobody),
                    "ODD": ("a" * 70, 9092),
                }
            )

    assert faults.keys() == {"NAME", "DEAF", "ODD"}
    assert f"{NOWHERE} does not resolve here" in faults["NAME"]
    assert f"told to go to {NOWHERE}:9092; set advertised.listeners" in faults["NAME"]
    assert f"127.0.0.1:{nobody} cannot be reached from here (" in faults["DEAF"]
    lines = [record.getMessage() for record in caplog.records]
    assert [line.partition(": ")[0] for line in lines] == [
        f"advertised address fails clients listener={name}" for name in ("NAME", "DEAF", "ODD")
    ]
    assert all("\n" not in line for line in lines)


@pytest.mark.parametrize("host", ["127.0.0.1", "", "0.0.0.0", "::"])
async def test_what_is_bound_here_is_not_tried(host: str) -> None:
    """A try would take a place among max.connections."""
    (nobody,) = free_ports(1)

    assert await try_all({"OURS": ("localhost", nobody)}, [(host, nobody)]) == {}


async def test_a_name_that_takes_too_long_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """A resolver that hangs costs the line, and not the broker."""

    async def hang(*_: object) -> None:
        await asyncio.Event().wait()

    monkeypatch.setattr(asyncio.get_running_loop(), "getaddrinfo", hang)

    faults = await try_all({"SLOW": ("kafka", 9092)}, seconds=0.01)

    assert "kafka does not resolve here (no answer within 0.01 s)" in faults["SLOW"]


async def test_the_start_tells_where_and_for_whom(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Folder, cluster id, each advertised address; an address that fails does not stop it."""
    told = f"PLAINTEXT://127.0.0.1:0,LAN://{NOWHERE}:9093"
    with caplog.at_level(logging.INFO):
        async with running(
            tmp_path,
            "listeners=PLAINTEXT://127.0.0.1:0,LAN://127.0.0.1:0",
            "listener.security.protocol.map=PLAINTEXT:PLAINTEXT,LAN:PLAINTEXT",
            f"advertised.listeners={told}",
        ) as broker:
            port = broker.listeners[0].port
            cluster_id = broker.broker.logs.cluster_id
            async with asyncio.timeout(PATIENCE):
                while "fails clients" not in caplog.text:
                    await asyncio.sleep(0)

    said = [record.getMessage() for record in caplog.records]
    assert f"serving data log_dirs={tmp_path} cluster_id={cluster_id} node_id=1" in said
    assert (
        f"advertised listener=PLAINTEXT address=127.0.0.1:{port} for='clients on this machine'"
        in said
    )
    assert (
        f"advertised listener=LAN address={NOWHERE}:9093 for='clients that find {NOWHERE} by name'"
        in said
    )
    (failing,) = [line for line in said if "fails clients" in line]
    assert "listener=LAN" in failing

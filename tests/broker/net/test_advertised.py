"""Lines about the addresses that clients are told."""

import asyncio
import logging
import struct
from pathlib import Path

import pytest

from siltstone.broker.net.advertised import find_faults, try_all, who_for
from siltstone.broker.server import Broker
from siltstone.config.load import load
from siltstone.storage.clock import Clock
from tests.support import group_requests
from tests.support.common_requests import metadata, software
from tests.support.http_client import exchange, parse
from tests.support.kio_messages import request
from tests.support.limited import alter_configs
from tests.support.ports import free_ports
from tests.support.running import Caller, Client, running
from tests.support.waiting import PATIENCE

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
    """In words that a reader understands without having read about listeners."""
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


async def test_unbound_addresses_are_only_resolved() -> None:
    """Where no broker runs, none can be reached, and that says nothing."""
    (nobody,) = free_ports(1)
    told = {"FINE": ("127.0.0.1", nobody), "NAME": (NOWHERE, 9092)}

    assert (await find_faults(told, connects=False)).keys() == {"NAME"}


async def test_auto_tells_each_client_the_address_that_it_reached(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """In Metadata, FindCoordinator and DescribeCluster; nothing kept for one is told another."""
    with caplog.at_level(logging.INFO):
        async with running(
            tmp_path, "listeners=PLAINTEXT://0.0.0.0:0", "advertised.listeners=PLAINTEXT://auto:0"
        ) as broker:
            await broker.topics.create("orders", 1, {})
            port = broker.listeners[0].port
            assert broker.broker.describe()["bootstrap_servers"] == f"127.0.0.1:{port}"
            for host in ("127.0.0.1", "127.0.0.2", "127.0.0.1"):
                reader, writer = await asyncio.open_connection(host, port)
                caller = Caller(Client(reader, writer))
                addresses = await caller.ask(request(3, 12))
                coordinator = await caller.ask(group_requests.find("g"))
                cluster = await caller.ask(request(60, 1))
                writer.close()

                for each in (*addresses.brokers, *coordinator.coordinators, *cluster.brokers):
                    assert (each.host, each.port) == (host, port)

    assert f"address=auto:{port} for='each client as the address that it has reached'" in (
        caplog.text
    )
    assert "fails clients" not in caplog.text


async def test_debug_lines_show_connections_and_software(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """The client, its software, what was refused, that it went; the page counts by software."""
    with caplog.at_level(logging.DEBUG):
        async with running(tmp_path) as broker:
            caller = await broker.call()
            caller.client_id = "billing"
            await caller.ask(software("librdkafka", "2.6"))
            (named,) = [each for each in broker.listeners[0].connections if each.software[0]]
            assert named.software == ("librdkafka", "2.6")
            await caller.ask(software("-", "1"))
            newer = struct.pack(">hhih", 18, 99, 1, -1)
            await caller.client.ask(newer)
            peer = named.peer

    assert f"connection opened listener=PLAINTEXT peer={peer}" in caplog.messages
    assert (
        f"client listener=PLAINTEXT peer={peer} client='billing' software='librdkafka 2.6'"
        in caplog.messages
    )
    refused = [line for line in caplog.messages if line.startswith("handshake refused")]
    assert [line.partition("reason=")[2] for line in refused] == [
        "the name of its software is no name",
        "version 99 of ApiVersions is not served",
    ]
    assert any(line.startswith(f"connection closed peer={peer}") for line in caplog.messages)


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


async def alter(caller: Caller, value: str, name: str = "1") -> tuple[int, str | None]:
    """Set advertised.listeners as kafka-configs does; return the error of the answer."""
    (told,) = (await caller.ask(alter_configs(4, [name], advertised_listeners=value))).responses
    return told.error_code, told.error_message


async def told_to(caller: Caller) -> list[tuple[str, int]]:
    """Return the addresses in Metadata."""
    return [(each.host, each.port) for each in (await caller.ask(metadata())).brokers]


async def test_it_is_altered_while_the_broker_runs(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """The next client is told, on connections that are open too; a mapped port comes only then."""
    async with running(tmp_path) as broker:
        port = broker.listeners[0].port
        caller = await broker.call()
        assert await told_to(caller) == [("127.0.0.1", port)]
        with caplog.at_level(logging.INFO):
            assert await alter(caller, f"PLAINTEXT://{NOWHERE}:32768") == (0, None)

        assert await told_to(caller) == [(NOWHERE, 32768)]
        assert f"advertised listener=PLAINTEXT address={NOWHERE}:32768" in caplog.text
        http = int(broker.broker.describe()["http"].rpartition(":")[2])
        named = f"GET /healthz HTTP/1.1\r\nHost: {NOWHERE}\r\nConnection: close\r\n\r\n"
        assert parse(await exchange(http, named.encode())).status == 200

    async with running(tmp_path) as broker:  # it is kept, as every dynamic setting
        assert await told_to(await broker.call()) == [(NOWHERE, 32768)]

    with caplog.at_level(logging.ERROR):
        lan = ("listeners=LAN://127.0.0.1:0", "listener.security.protocol.map=LAN:PLAINTEXT")
        async with running(tmp_path, *lan) as broker:  # the listener that it was for is gone
            (told,) = await told_to(await broker.call())
            assert told == ("127.0.0.1", broker.listeners[0].port)
    assert "stored setting is left out: advertised.listeners names the listener" in caplog.text


@pytest.mark.parametrize(
    ("value", "name", "words"),
    [
        ("LAN://127.0.0.1:1", "1", "advertised.listeners names the listener LAN, which"),
        ("PLAINTEXT://0.0.0.0:1", "1", "an address that no client can reach"),
        ("PLAINTEXT://nothing", "1", "advertised.listeners has the entry"),
        ("PLAINTEXT://a:1", "", "advertised.listeners can only be altered for one broker"),
    ],
)
async def test_a_faulty_change_changes_nothing(
    tmp_path: Path, value: str, name: str, words: str
) -> None:
    """The answer says what is wrong."""
    async with running(tmp_path) as broker:
        caller = await broker.call()
        before = await told_to(caller)
        code, message = await alter(caller, value, name)

        assert code != 0
        assert words in (message or "")
        assert await told_to(caller) == before


async def test_a_reload_alters_it_too(tmp_path: Path) -> None:
    """From the file; but not for a listener that only a restart opens."""
    file = tmp_path / "server.yaml"
    always = f"log.dirs: {tmp_path / 'data'}\nlisteners: PLAINTEXT://127.0.0.1:0\n"
    always += "http.listener: 127.0.0.1:0\n"
    file.write_text(always)
    broker = Broker(load(file, {}, []), Clock(), asyncio.Event())
    await broker.start()
    port = broker.listeners[0].port
    try:
        file.write_text(f"{always}advertised.listeners: PLAINTEXT://localhost:32768\n")
        await broker.reload()
        assert broker.describe()["bootstrap_servers"] == "localhost:32768"

        file.write_text(
            always.replace("PLAINTEXT:", "LAN:")
            + "listener.security.protocol.map: LAN:PLAINTEXT\n"
            + "advertised.listeners: LAN://localhost:32769\nlog.retention.ms: 5000\n"
        )
        await broker.reload()
        assert broker.describe()["bootstrap_servers"] == "localhost:32768"

        file.write_text(always)
        await broker.reload()
        assert broker.describe()["bootstrap_servers"] == f"127.0.0.1:{port}"
    finally:
        await broker.stop()

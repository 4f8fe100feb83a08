"""The parts that a listener gives its connections."""

import asyncio
import errno
import logging
import socket
import struct
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import uvloop

from siltstone.broker.net.channel import PlainChannel
from siltstone.broker.net.connection import Connection
from siltstone.broker.process.bounded_lines import MAX_PER_SECOND
from tests.support.running import Client, running
from tests.support.waiting import equals, give_turns_until, within

_API_VERSIONS = struct.pack(">hhih", 18, 0, 1, -1)


def socket_of(connection: Connection) -> socket.socket:
    """Return the broker's end of a plain connection."""
    channel = connection._channel
    assert isinstance(channel, PlainChannel)
    return channel._find_socket()


@pytest.mark.parametrize(
    ("setting", "option"),
    [
        ("socket.send.buffer.bytes", socket.SO_SNDBUF),
        ("socket.receive.buffer.bytes", socket.SO_RCVBUF),
    ],
)
async def test_connections_get_the_buffers_of_the_settings(
    tmp_path: Path, setting: str, option: int
) -> None:
    """The kernel grants twice what is asked, for its own needs; -1 leaves it to the kernel."""
    granted = {}
    for size in (-1, 30_000, 102_400):
        async with running(tmp_path / str(size), f"{setting}={size}") as started:
            await (await started.connect()).ask(_API_VERSIONS)
            (accepted,) = started.listeners[0].connections
            granted[size] = socket_of(accepted).getsockopt(socket.SOL_SOCKET, option)

    assert granted[30_000] == 60_000
    assert granted[102_400] == 204_800
    assert granted[-1] not in {60_000, 204_800}


async def test_connections_send_at_once_and_notice_hosts_that_are_gone(tmp_path: Path) -> None:
    """Each has it from the listening socket: no delay of Nagle's, and probes of the kernel."""
    async with running(tmp_path) as started:
        await (await started.connect()).ask(_API_VERSIONS)
        (accepted,) = started.listeners[0].connections
        sock = socket_of(accepted)

        assert sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)
        assert sock.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE)


async def test_the_system_watches_no_more_sockets_for_a_while(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The listener tries again each second, also where the pause itself ends in the fault."""
    async with running(tmp_path) as started:
        (listener,) = started.listeners
        refusals = [OSError(errno.ENOSPC, "No space left on device")] * 2
        loop = listener._loop

        def add_reader(*arguments: Any) -> None:
            if refusals:
                raise refusals.pop()
            loop.add_reader(*arguments)

        def call_later(_seconds: float, act: Callable[[], None]) -> None:
            loop.call_soon(act)

        with monkeypatch.context() as full:
            full.setattr(
                listener,
                "_loop",
                SimpleNamespace(
                    add_reader=add_reader, call_later=call_later, remove_reader=loop.remove_reader
                ),
            )
            listener._pause_accepting(1.0)
            await give_turns_until(lambda: refusals, "no fault left", equals([]))
        reader, writer = await asyncio.open_connection("127.0.0.1", listener.port)
        writer.write(struct.pack(">i", len(_API_VERSIONS)) + _API_VERSIONS)
        assert await within(reader.readexactly(4), "an answer")
        writer.close()


async def test_a_call_from_within_that_cannot_be_watched_leaves_no_descriptor(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Both ends of the pair are closed."""

    def refuse(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    async with running(tmp_path) as started:
        (listener,) = started.listeners
        made: list[tuple[Any, ...]] = []
        pair = socket.socketpair

        def note_pair() -> tuple[Any, ...]:
            made.append(pair())
            return made[-1]

        with monkeypatch.context() as full:
            full.setattr(socket, "socketpair", note_pair)
            full.setattr(PlainChannel, "start_reading", refuse)
            with pytest.raises(OSError, match="No space"):
                await listener.dial()
        await give_turns_until(made[0][1].fileno, "closed", equals(-1))


@pytest.mark.parametrize("encrypts", [False, True])
async def test_a_socket_that_the_system_does_not_watch_is_closed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, encrypts: bool
) -> None:
    """Its descriptor would stay open, and count for its address, until the broker stops."""

    def refuse(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    async with running(tmp_path, "max.connections.per.ip=9") as started:
        (listener,) = started.listeners
        addresses = listener._addresses
        assert addresses is not None
        with monkeypatch.context() as full:
            full.setattr(PlainChannel, "start_reading", refuse)
            if encrypts:
                full.setattr(listener, "handshakes", SimpleNamespace(begin=refuse, open={}))
            reader, writer = await asyncio.open_connection("127.0.0.1", listener.port)
            assert await within(reader.read(), "the end of the connection") == b""
        writer.close()

        await give_turns_until(lambda: addresses._counts, "no connection", equals({}))


@pytest.mark.parametrize("sent", [b"\0\0", struct.pack(">i", 200_000) + bytes(150_000)])
def test_who_sends_a_part_and_resets_leaves_no_connection(tmp_path: Path, sent: bytes) -> None:
    """Uvloop reports both at once, and the reset never again; a look for it finds them."""

    async def left() -> int:
        async with running(tmp_path) as started:
            (listener,) = started.listeners
            for _ in range(20):
                with socket.create_connection(("127.0.0.1", listener.port)) as client:
                    client.sendall(sent)
                    client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            await give_turns_until(lambda: listener.accepted_count >= 20, "they are accepted")
            staying = await started.connect()
            await staying.ask(_API_VERSIONS)
            listener.close_idle()
            await staying.ask(_API_VERSIONS)
            return len(listener.connections)

    assert uvloop.run(left()) == 1


async def test_connections_of_all_listeners_count_together(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """max.connections is a limit of the broker: two listeners do not have twice as many."""
    sets = (
        "max.connections=3",
        "listeners=ONE://127.0.0.1:0,TWO://127.0.0.1:0",
        "listener.security.protocol.map=ONE:PLAINTEXT,TWO:PLAINTEXT",
    )
    async with running(tmp_path, *sets) as started:
        one, two = started.listeners
        clients = []
        for listener in (one, two, two):
            client = Client(*await asyncio.open_connection("127.0.0.1", listener.port))
            await client.ask(_API_VERSIONS)
            clients.append(client)
        for listener in (one, two):
            more = Client(*await asyncio.open_connection("127.0.0.1", listener.port))
            assert await more.is_closed()
            clients.append(more)
        for client in clients:
            await client.close()

    assert sum("reason=max.connections is reached" in line for line in caplog.messages) == 2


@pytest.mark.parametrize(
    "sets",
    [
        ("max.connections.per.ip=2",),
        ("max.connections.per.ip=0", "max.connections.per.ip.overrides=::1:9, 127.0.0.1:2"),
    ],
)
async def test_connections_of_an_address_have_a_limit(
    tmp_path: Path, sets: tuple[str, ...]
) -> None:
    """One too many is closed at once; when another has gone there is room again."""
    async with running(tmp_path, *sets) as started:
        first, second = await started.connect(), await started.connect()
        for client in (first, second):
            await client.ask(_API_VERSIONS)
        assert await (await started.connect()).is_closed()
        await first.close()
        addresses = started.broker.addresses
        await give_turns_until(lambda: addresses.count("127.0.0.1") == 1, "one has gone")
        await (await started.connect()).ask(_API_VERSIONS)

        assert started.refused == {"max.connections.per.ip": 1}
    assert addresses.count("127.0.0.1") == 0


TWO = (
    "listeners=ONE://127.0.0.1:0,TWO://127.0.0.1:0",
    "listener.security.protocol.map=ONE:PLAINTEXT,TWO:PLAINTEXT",
)
FULL = "listener.name.NAME.max.connections"


async def test_one_too_many_of_a_listener_waits_for_room(tmp_path: Path) -> None:
    """It is neither closed nor served until another has gone; another listener serves meanwhile."""
    async with running(tmp_path, *TWO, "listener.name.one.max.connections=2") as home:
        first, second = await home.connect(), await home.connect()
        for client in (first, second):
            await client.ask(_API_VERSIONS)
        third = await home.connect()
        await third.send(len(_API_VERSIONS).to_bytes(4, "big") + _API_VERSIONS)
        await give_turns_until(lambda: home.refused.get(FULL), "somebody waits")
        await (await home.connect(1)).ask(_API_VERSIONS)
        counted = home.listeners[0].open_count
        await first.close()
        await third.receive()

        assert counted == home.listeners[0].open_count == 2


async def test_a_limit_of_a_listener_that_is_raised_lets_the_next_one_in(tmp_path: Path) -> None:
    """At the next look at the connections; one that is lowered closes nobody."""
    limit = "listener.name.plaintext.max.connections"
    async with running(tmp_path, f"{limit}=1") as home:
        first = await home.connect()
        await first.ask(_API_VERSIONS)
        second = await home.connect()
        await second.send(len(_API_VERSIONS).to_bytes(4, "big") + _API_VERSIONS)
        await give_turns_until(lambda: home.refused.get(FULL), "somebody waits")
        await home.broker._settings.alter(broker={limit: "2"})
        home.listeners[0].close_idle()
        await second.receive()
        await home.broker._settings.alter(broker={limit: "0"})

        await first.ask(_API_VERSIONS)
        await second.ask(_API_VERSIONS)


async def test_a_listener_has_a_rate_of_its_own(tmp_path: Path) -> None:
    """Above it the next ones wait in the kernel, and those of another listener do not."""
    name = "listener.name.NAME.max.connection.creation.rate"
    rate = name.replace("NAME", "one") + "=1"
    windows = "quota.window.num=1", "quota.window.size.seconds=1"  # half a connection at once
    async with running(tmp_path, *TWO, rate, *windows) as home:
        await (await home.connect()).ask(_API_VERSIONS)
        slowed = home.refused
        for _ in range(3):
            await (await home.connect(1)).ask(_API_VERSIONS)

        assert slowed.keys() == home.refused.keys() == {name}


@pytest.mark.parametrize(("fault", "lines"), [(MemoryError(), 1), ("Broken pipe", MAX_PER_SECOND)])
async def test_connections_that_fail_in_a_loop_do_not_fill_the_log(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    fault: str | Exception,
    lines: int,
) -> None:
    """A client that finds a fault connects again at once; the next second has the number."""
    caplog.set_level(logging.INFO)
    now = 100.0
    async with running(tmp_path) as started:
        (listener,) = started.listeners
        for each in (listener._failed, listener._closed):
            monkeypatch.setattr(each, "_monotonic", lambda: now)

        async def fail() -> list[str]:
            caplog.clear()
            client = await started.connect()
            await client.ask(_API_VERSIONS)
            (accepted,) = listener.connections
            accepted.close(fault)
            return [each for each in caplog.messages if " others=" in each]

        logged = [len(await fail()) for _ in range(lines + 7)]
        now += 1.0
        (last,) = await fail()

    assert logged == [1] * lines + [0] * 7
    assert "others=7" in last

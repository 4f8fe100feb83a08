"""Listeners that speak TLS, spoken to by Python's own: what is served, and what is refused."""

import asyncio
import errno
import gc
import json
import logging
import os
import random
import socket
import ssl
import sys
from collections.abc import AsyncIterator, Mapping
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from siltstone.broker.net.connection import Connection
from siltstone.broker.net.tls import handshakes as module
from siltstone.broker.net.tls.contexts import Endpoint
from siltstone.broker.process.bounded_lines import BoundedLines
from siltstone.config.errors import ConfigError
from siltstone.config.tls import TlsConfig
from siltstone.storage.files import disk
from tests.support.authority import Authority, Pair
from tests.support.batches import make_batch
from tests.support.kio_messages import request
from tests.support.latency import measure
from tests.support.produce_requests import request_entity
from tests.support.quotas import set_quota
from tests.support.running import Caller, Running, running
from tests.support.tls_clients import LOWEST, client_hello, connect, trusting
from tests.support.waiting import at_least, equals, give_turns_until, within

TWO = "listeners=SSL://127.0.0.1:0,PLAINTEXT://127.0.0.1:0"
ENCRYPTED, PLAIN = 0, 1
ASK = bytes.fromhex("0000000a 0012 0000 00000001 ffff")


@pytest.fixture
async def home(disk_path: Path, server: Pair) -> AsyncIterator[Running]:
    """A broker with a listener that encrypts, and one that does not."""
    async with running(disk_path / "data", TWO, f"ssl.keystore.location={server.store}") as started:
        await started.topics.create("t", 1, {})
        yield started


def lines(caplog: pytest.LogCaptureFixture) -> list[str]:
    """Return the log lines about handshakes that failed."""
    return [each.getMessage() for each in caplog.records if "TLS handshake" in each.getMessage()]


def produce(records: bytes) -> Any:
    """Return a request that appends records to the topic."""
    return request_entity(9, 1, 5_000, None, [("t", [(0, records)])])


def fetch(offset: int, max_bytes: int) -> Any:
    """Return a request for what lies behind an offset."""
    row = {"fetch_offset": offset, "log_start_offset": -1, "partition_max_bytes": max_bytes}
    topics = [{"topic": "t", "partitions": [row]}]
    return request(1, 12, min_bytes=1, max_bytes=max_bytes, topics=topics)


def batch(size: int) -> bytes:
    """Return a batch of random bytes."""
    return bytes(make_batch([(b"k", random.randbytes(size))]))


async def produced(caller: Caller, records: bytes) -> int:
    """Append a batch; return its offset."""
    answer = await caller.ask(produce(records))
    partition = answer.responses[0].partition_responses[0]
    assert partition.error_code == 0
    return int(partition.base_offset)


async def fetched(caller: Caller, offset: int, max_bytes: int = 8 << 20) -> bytes:
    """Return what lies behind an offset."""
    answer = await caller.ask(fetch(offset, max_bytes))
    partition = answer.responses[0].partitions[0]
    assert partition.error_code == 0
    return bytes(partition.records)


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
async def test_both_versions_are_served(
    home: Running, authority: Authority, version: ssl.TLSVersion
) -> None:
    """And what comes back is what was written."""
    caller = await connect(home, trusting(authority, version=version))
    records = batch(1000)

    offset = await produced(caller, records)

    assert (await fetched(caller, offset))[16:] == records[16:]
    (connection,) = home.listeners[ENCRYPTED].connections
    assert connection.principal == "User:ANONYMOUS"


async def test_a_connection_that_is_closed_is_gone(home: Running, authority: Authority) -> None:
    """Without a look for garbage, in which it would stay if objects are frozen meanwhile."""
    gc.collect()
    gc.disable()
    try:
        caller = await connect(home, trusting(authority))
        await produced(caller, batch(1000))
        await caller.client.close()
        await give_turns_until(lambda: not home.listeners[ENCRYPTED].connections, "it is closed")
        kept = [each for each in gc.get_objects() if isinstance(each, Connection)]
    finally:
        gc.enable()

    assert [each for each in kept if each.listener is home.listeners[ENCRYPTED]] == []


@pytest.mark.parametrize(
    ("version", "ciphers", "reason"),
    [
        (ssl.TLSVersion.TLSv1, LOWEST, "no version of TLS in ssl.enabled.protocols"),
        (ssl.TLSVersion.TLSv1_1, LOWEST, "no version of TLS in ssl.enabled.protocols"),
        (ssl.TLSVersion.TLSv1_2, "AES128-GCM-SHA256", "no cipher suite that is served"),
        (ssl.TLSVersion.TLSv1_2, "ECDHE-ECDSA-AES128-SHA", "no cipher suite that is served"),
    ],
)
async def test_what_is_weak_is_refused(
    home: Running,
    authority: Authority,
    caplog: pytest.LogCaptureFixture,
    version: ssl.TLSVersion,
    ciphers: str,
    reason: str,
) -> None:
    """The client is told by TLS, the operator by a line."""
    with pytest.raises(ssl.SSLError):
        await connect(home, trusting(authority, version=version, ciphers=ciphers))

    await give_turns_until(lambda: len(lines(caplog)), "a line", at_least(1))
    assert reason in lines(caplog)[0]


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
async def test_a_client_that_comes_back_has_a_ticket(
    home: Running, authority: Authority, version: ssl.TLSVersion
) -> None:
    """So that its second handshake needs no asymmetric cryptography."""
    context = trusting(authority, version=version)
    port = home.listeners[ENCRYPTED].port

    def ask(session: ssl.SSLSession | None) -> tuple[bool | None, ssl.SSLSession | None]:
        with (
            socket.create_connection(("127.0.0.1", port)) as sock,
            context.wrap_socket(sock, server_hostname="localhost", session=session) as tls,
        ):
            tls.sendall(ASK)
            assert len(tls.recv(65536)) > 100
            return tls.session_reused, tls.session

    reused, session = await asyncio.to_thread(ask, None)
    again, _ = await asyncio.to_thread(ask, session)

    assert not reused
    assert again


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
async def test_large_answers_are_those_of_a_plain_listener(
    home: Running, authority: Authority, version: ssl.TLSVersion
) -> None:
    """Byte for byte, whether the loop encrypts them or a sender does."""
    plain = await connect_plainly(home)
    caller = await connect(home, trusting(authority, version=version))
    for size in (10, 20_000, 60_000, 130_000, 400_000, 900_000):
        for _ in range(4):
            await produced(plain, batch(size))

    for max_bytes in (1000, 64 * 1024, 128 * 1024, 200_000, 1 << 20, 8 << 20):
        assert await fetched(caller, 0, max_bytes) == await fetched(plain, 0, max_bytes)
    whole = await fetched(caller, 0)
    assert len(whole) > 5 << 20


async def connect_plainly(home: Running) -> Caller:
    """Open a connection to the listener without TLS."""
    port = home.listeners[PLAIN].port
    return Caller(home.keep(await asyncio.open_connection("127.0.0.1", port)))


async def test_a_client_that_reads_slowly_gets_all(home: Running, authority: Authority) -> None:
    """Bytes that its socket does not take wait, and others are served meanwhile."""
    plain = await connect_plainly(home)
    for _ in range(6):
        await produced(plain, batch(900_000))
    other = await connect(home, trusting(authority))
    context = trusting(authority)
    port = home.listeners[ENCRYPTED].port
    frame = plain.frame(fetch(0, 8 << 20))
    went_on = asyncio.Event()
    loop = asyncio.get_running_loop()

    def read_slowly() -> int:
        with socket.socket() as sock:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            sock.connect(("127.0.0.1", port))
            with context.wrap_socket(sock, server_hostname="localhost") as tls:
                tls.sendall(frame)
                size = int.from_bytes(tls.recv(4), "big")
                asyncio.run_coroutine_threadsafe(went_on.wait(), loop).result()
                received = 0
                while received < size:
                    received += len(tls.recv(10_000))
                return received

    reading = asyncio.create_task(asyncio.to_thread(read_slowly))
    assert len(await within(fetched(other, 0), "another client's answer")) > 5 << 20
    went_on.set()
    assert await within(reading, "the whole answer") > 5 << 20


async def test_requests_behind_a_large_one_are_served(home: Running, authority: Authority) -> None:
    """Also those whose bytes came in the same record, about which the kernel says nothing more."""
    caller = await connect(home, trusting(authority))
    frames = b"".join(caller.frame(produce(batch(size))) for size in (300_000, 10, 200_000, 10))

    await caller.client.send(frames + ASK * 200)

    for _ in range(204):
        assert await within(caller.client.receive(), "an answer")


async def test_bytes_that_come_one_by_one_are_requests(home: Running, authority: Authority) -> None:
    """A record for each byte."""
    context = trusting(authority)
    port = home.listeners[ENCRYPTED].port

    def ask() -> bytes:
        with (
            socket.create_connection(("127.0.0.1", port)) as sock,
            context.wrap_socket(sock, server_hostname="localhost") as tls,
        ):
            for each in ASK:
                tls.sendall(bytes((each,)))
            return tls.recv(65536)

    assert len(await asyncio.to_thread(ask)) > 100


async def test_the_end_is_told(home: Running, authority: Authority) -> None:
    """A client knows that nothing is missing when the broker closes a connection of its own."""
    context = trusting(authority)
    port = home.listeners[ENCRYPTED].port

    def end() -> bytes:
        sock = socket.create_connection(("127.0.0.1", port))
        with context.wrap_socket(
            sock, server_hostname="localhost", suppress_ragged_eofs=False
        ) as tls:
            tls.sendall(b"\x7f\xff\xff\xff")
            return tls.recv(100)  # raises where the end is not told

    assert await asyncio.to_thread(end) == b""


async def test_who_does_not_speak_tls_is_told_apart(
    home: Running, caplog: pytest.LogCaptureFixture
) -> None:
    """A plain client is closed, and a line says what to set."""
    port = home.listeners[ENCRYPTED].port
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(ASK)

    assert await within(reader.read(), "the end") == b""
    (line,) = lines(caplog)
    assert "does not speak TLS; set security.protocol=SSL or SASL_SSL" in line
    writer.close()


async def test_tls_on_a_plain_port_is_told_apart(
    home: Running, authority: Authority, caplog: pytest.LogCaptureFixture
) -> None:
    """The first bytes of a handshake are no request."""
    with pytest.raises((ssl.SSLError, ConnectionError)):
        await connect(home, trusting(authority), PLAIN)

    refused = [each.getMessage() for each in caplog.records if "refused" in each.getMessage()]
    assert len(refused) == 1
    assert "TLS" in refused[0]


async def test_who_makes_room_is_of_the_address_with_the_most(home: Running) -> None:
    """Its oldest handshake, and not that of an earlier client."""
    port = home.listeners[ENCRYPTED].port
    handshakes = home.listeners[ENCRYPTED].handshakes
    assert handshakes is not None
    streams = []
    for number, host in enumerate(("127.0.0.2", "127.0.0.1", "127.0.0.1")):
        streams.append(await asyncio.open_connection("127.0.0.1", port, local_addr=(host, 0)))
        await give_turns_until(lambda: len(handshakes.open), "a handshake", equals(number + 1))
    handshakes.close_oldest()

    with suppress(ConnectionResetError):
        assert await within(streams[1][0].read(), "the end of the second") == b""
    assert not streams[0][0].at_eof()
    assert not streams[2][0].at_eof()
    for _, writer in streams:
        writer.close()


async def test_a_check_of_the_port_leaves_no_line(
    home: Running, caplog: pytest.LogCaptureFixture
) -> None:
    """Load balancers connect and close, all day."""
    _, writer = await asyncio.open_connection("127.0.0.1", home.listeners[ENCRYPTED].port)
    open_handshakes = home.listeners[ENCRYPTED].handshakes
    assert open_handshakes is not None
    await give_turns_until(lambda: len(open_handshakes.open), "a handshake", equals(1))

    writer.close()

    await give_turns_until(lambda: len(open_handshakes.open), "its end", equals(0))
    assert lines(caplog) == []


@pytest.mark.parametrize("sends", [0, 1, 5, 200])
async def test_half_a_handshake_ends(
    home: Running,
    authority: Authority,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
    sends: int,
) -> None:
    """A client that does not go on is closed, however much it has sent."""
    monkeypatch.setattr(module, "HANDSHAKE_SECONDS", 0.1)
    reader, writer = await asyncio.open_connection("127.0.0.1", home.listeners[ENCRYPTED].port)
    writer.write(client_hello(trusting(authority))[:sends])

    assert await within(reader.read(), "the end") == b""

    (line,) = lines(caplog)
    assert "within 0.1 s" in line
    writer.close()


async def test_a_byte_a_second_costs_nothing(
    home: Running, authority: Authority, monkeypatch: pytest.MonkeyPatch
) -> None:
    """OpenSSL is not asked before a whole record has come."""
    steps = 0
    real = module._Handshake.step

    def step(self: Any) -> Any:
        nonlocal steps
        steps += 1
        return real(self)

    monkeypatch.setattr(module._Handshake, "step", step)
    hello = client_hello(trusting(authority))
    reader, writer = await asyncio.open_connection("127.0.0.1", home.listeners[ENCRYPTED].port)
    for each in hello[:-1]:
        writer.write(bytes((each,)))
        await writer.drain()
        await asyncio.sleep(0)
    other = await connect(home, trusting(authority))
    await other.ask(request(18, 0))
    before = steps
    writer.write(hello[-1:])

    assert await within(reader.readexactly(5), "the broker's answer")
    assert before <= 2  # the other client's
    writer.close()


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
@pytest.mark.parametrize("cut", [7, 11, 20])
async def test_a_flight_that_comes_in_two_segments(
    home: Running,
    authority: Authority,
    monkeypatch: pytest.MonkeyPatch,
    version: ssl.TLSVersion,
    cut: int,
) -> None:
    """Where the first ends within a record, OpenSSL has a part of it; the rest is waited for."""
    steps = 0
    real = module._Handshake.step

    def step(self: Any) -> Any:
        nonlocal steps
        done = real(self)
        steps += 1
        return done

    monkeypatch.setattr(module._Handshake, "step", step)
    context = trusting(authority)
    context.maximum_version = version
    received, sent = ssl.MemoryBIO(), ssl.MemoryBIO()
    client = context.wrap_bio(received, sent, server_hostname="localhost")
    reader, writer = await asyncio.open_connection("127.0.0.1", home.listeners[ENCRYPTED].port)
    with suppress(ssl.SSLWantReadError):
        client.do_handshake()
    writer.write(sent.read())
    while not sent.pending:
        received.write(await within(reader.read(1 << 16), "the broker's flight"))
        with suppress(ssl.SSLWantReadError):
            client.do_handshake()
    await give_turns_until(lambda: steps, "the first step's end", at_least(1))
    flight = sent.read()
    if version is ssl.TLSVersion.TLSv1_2:
        cut += 5 + int.from_bytes(flight[3:5], "big")  # behind the key, a change of ciphers comes
    writer.write(flight[:cut])
    await give_turns_until(lambda: steps, "a step with the first segment", at_least(2))
    writer.write(flight[cut:])

    found = home.listeners[ENCRYPTED].handshakes
    assert found is not None
    await give_turns_until(lambda: len(found.open), "its end", equals(0))
    assert (found.succeeded, found.failed) == (1, 0)
    writer.close()


async def test_bytes_before_a_handshake_are_bounded(home: Running) -> None:
    """A message of 16 MiB that is announced and sent is refused long before its end."""
    message = b"\x01\xff\xff\xff" + bytes(16 * 1024 - 4)
    records = (b"\x16\x03\x01" + len(message).to_bytes(2, "big") + message) + (
        b"\x16\x03\x01\x40\x00" + bytes(16 * 1024)
    ) * 1000
    reader, writer = await asyncio.open_connection("127.0.0.1", home.listeners[ENCRYPTED].port)

    async def send() -> None:
        for start in range(0, len(records), 1 << 16):
            writer.write(records[start : start + (1 << 16)])
            await writer.drain()

    with suppress(ConnectionError):
        await within(send(), "the end")
    with suppress(ConnectionError):
        await within(reader.read(), "the end")
    handshakes = home.listeners[ENCRYPTED].handshakes
    assert handshakes is not None
    assert handshakes.failed == 1
    await give_turns_until(lambda: len(handshakes.open), "the end", equals(0))
    writer.close()


async def test_connections_in_handshake_count(tmp_path: Path, server: Pair) -> None:
    """max.connections knows them."""
    sets = (TWO, f"ssl.keystore.location={server.store}", "max.connections=3")
    async with running(tmp_path, *sets) as home:
        port = home.listeners[ENCRYPTED].port
        open_ones = [await asyncio.open_connection("127.0.0.1", port) for _ in range(3)]
        reader, writer = await asyncio.open_connection("127.0.0.1", port)

        assert await within(reader.read(), "the end of the fourth") == b""
        for _, each in [*open_ones, (reader, writer)]:
            each.close()


async def test_an_address_has_a_limit_in_handshakes_and_after(
    home: Running, authority: Authority
) -> None:
    """Each connection counts once from its first byte to its end, whether it gets in or not."""
    addresses = home.broker.addresses
    caller = await connect(home, trusting(authority))
    assert await caller.ask(request(18, 0))
    stranger = await home.connect(ENCRYPTED)
    await stranger.send(ASK)
    assert await stranger.is_closed()
    await stranger.close()
    await give_turns_until(lambda: addresses.count("127.0.0.1"), "one is left", equals(1))
    await caller.client.close()

    await give_turns_until(lambda: addresses.count("127.0.0.1"), "none is left", equals(0))


async def test_a_client_above_its_quota_waits(home: Running, authority: Authority) -> None:
    """Requests that it has sent meanwhile, encrypted and read already or not, are served then."""
    await set_quota(await connect_plainly(home), "producer_byte_rate", 100_000.0)
    caller = await connect(home, trusting(authority))
    caller.client_id = "app"
    loop = asyncio.get_running_loop()
    request = produce(batch(520_000))
    await caller.client.send(caller.frame(request) + ASK * 3)
    told = (await caller.receive(request)).throttle_time.total_seconds()
    answered = loop.time()
    for _ in range(3):
        assert await within(caller.client.receive(), "an answer")

    assert 0.15 < told < 0.3
    assert loop.time() - answered >= told - 0.02


async def test_handshakes_at_once_do_not_hold_up_others(
    home: Running, authority: Authority
) -> None:
    """Hundreds that begin one and go no further are not noticed by connected clients."""
    hello = client_hello(trusting(authority))
    port = home.listeners[ENCRYPTED].port
    base = await measure(home.listeners[PLAIN].port)
    handshakes = home.listeners[ENCRYPTED].handshakes
    assert handshakes is not None

    async def begin() -> asyncio.StreamWriter:
        _, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(hello)
        return writer

    async def flood() -> list[asyncio.StreamWriter]:
        return [await begin() for _ in range(300)]

    begun = asyncio.create_task(flood())
    beside = await measure(home.listeners[PLAIN].port, base.noise)
    writers = await begun
    assert not beside.is_noticed_beside(base), (beside, base)
    assert len(handshakes.open) == 300
    for each in writers:
        each.close()


# Client certificates


def mutual(server: Pair, authority: Authority, auth: str, *more: str) -> tuple[str, ...]:
    """Return the settings of a listener that asks for certificates."""
    return (
        TWO,
        f"ssl.keystore.location={server.store}",
        f"ssl.truststore.location={authority.certificate}",
        f"ssl.client.auth={auth}",
        *more,
    )


async def ask_once(home: Running, context: ssl.SSLContext) -> None:
    """Connect and have one answer."""
    caller = await connect(home, context)
    await caller.ask(request(18, 0))


async def principal_of(home: Running, context: ssl.SSLContext) -> str:
    """Connect, and return the principal that the broker sees in the client."""
    await ask_once(home, context)
    (connection,) = home.listeners[ENCRYPTED].connections
    return connection.principal


@pytest.mark.parametrize(
    ("rules", "principal"),
    [
        ("DEFAULT", "User:CN=Ann Lee,OU=Ops,O=Mill"),
        ("RULE:^CN=(.*?) (.*?),.*$/$2.$1/L,DEFAULT", "User:lee.ann"),
    ],
)
async def test_a_certificate_says_who_the_client_is(
    tmp_path: Path, server: Pair, ann: Pair, authority: Authority, rules: str, principal: str
) -> None:
    """By its name, or as the rules make of it."""
    rule = f"ssl.principal.mapping.rules={rules}"
    async with running(tmp_path, *mutual(server, authority, "required", rule)) as home:
        assert await principal_of(home, trusting(authority, ann)) == principal


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
async def test_the_name_stays_with_a_ticket(
    tmp_path: Path, server: Pair, ann: Pair, authority: Authority, version: ssl.TLSVersion
) -> None:
    """A client that comes back shows no certificate, and is the same."""
    context = trusting(authority, ann, version=version)
    async with running(tmp_path, *mutual(server, authority, "required")) as home:
        port = home.listeners[ENCRYPTED].port

        def ask(session: ssl.SSLSession | None) -> ssl.SSLSession | None:
            with (
                socket.create_connection(("127.0.0.1", port)) as sock,
                context.wrap_socket(sock, server_hostname="localhost", session=session) as tls,
            ):
                tls.sendall(ASK)
                assert tls.recv(65536)
                assert bool(tls.session_reused) == (session is not None)
                seen.extend(each.principal for each in home.listeners[ENCRYPTED].connections)
                return tls.session

        seen: list[str] = []
        await asyncio.to_thread(ask, await asyncio.to_thread(ask, None))
        assert set(seen) == {"User:CN=Ann Lee,OU=Ops,O=Mill"}


async def test_no_certificate_where_one_is_requested(
    tmp_path: Path, server: Pair, ann: Pair, authority: Authority
) -> None:
    """Such a client is nobody in particular."""
    async with running(tmp_path, *mutual(server, authority, "requested")) as home:
        assert await principal_of(home, trusting(authority)) == "User:ANONYMOUS"


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
async def test_certificates_that_are_not_taken(
    tmp_path: Path,
    server: Pair,
    authority: Authority,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
    version: ssl.TLSVersion,
) -> None:
    """None, a stranger's, an expired one, one without a name, one without a rule: a line each."""
    monkeypatch.setattr(BoundedLines, "takes", lambda _: True)
    stranger = Authority(tmp_path / "stranger")
    expired = authority.issue("late", days=("20200101000000Z", "20200102000000Z"))
    nobody = authority.issue("nobody")
    empty = authority.issue("empty", "/")
    rules = "ssl.principal.mapping.rules=RULE:^CN=somebody$/x/,RULE:^$/y/"
    async with running(tmp_path / "data", *mutual(server, authority, "required", rules)) as home:
        for pair, reason in (
            (None, "it shows no certificate"),
            (stranger.issue("eve"), "its certificate is not taken: "),
            (expired, "its certificate is not taken: certificate has expired"),
            (nobody, "no rule of ssl.principal.mapping.rules matches"),
            (empty, "the subject of its certificate is empty"),
        ):
            caplog.clear()
            with pytest.raises((ssl.SSLError, ConnectionError, asyncio.IncompleteReadError)):
                await ask_once(home, trusting(authority, pair, version=version))
            await give_turns_until(lambda: len(lines(caplog)), "a line", at_least(1))
            assert reason in lines(caplog)[0]
        assert home.listeners[ENCRYPTED].connections == {}


# Reloading


async def test_a_reload_takes_new_certificates(
    tmp_path: Path, authority: Authority, caplog: pytest.LogCaptureFixture
) -> None:
    """For new connections; those that are open go on."""
    store = tmp_path / "store.pem"
    store.write_bytes(authority.issue("first").store.read_bytes())
    async with running(tmp_path / "data", TWO, f"ssl.keystore.location={store}") as home:
        old = await connect(home, trusting(authority))
        assert subject_of(old) == "first"

        caplog.set_level(logging.INFO)
        store.write_bytes(authority.issue("second").store.read_bytes())
        await home.broker.reload()

        await old.ask(request(18, 0))
        new = await connect(home, trusting(authority))
        assert subject_of(new) == "second"
        assert any("CN=second" in each.getMessage() for each in caplog.records)


async def test_a_faulty_file_leaves_what_runs(
    tmp_path: Path, authority: Authority, caplog: pytest.LogCaptureFixture
) -> None:
    """And a line says what is wrong with it, whatever asked for the reload."""
    store = tmp_path / "store.pem"
    store.write_bytes(authority.issue("first").store.read_bytes())
    async with running(tmp_path / "data", TWO, f"ssl.keystore.location={store}") as home:
        certificates = home.broker.certificates
        assert certificates is not None
        store.write_text("nothing")

        await home.broker.reload()
        with pytest.raises(ConfigError, match="has no block of PEM"):
            await certificates.make()
        await certificates.look()  # has been read, and is known to be wrong

        told = [each.getMessage() for each in caplog.records if "no block" in each.getMessage()]
        assert len(told) == 1
        assert "nothing has changed" in told[0]
        assert subject_of(await connect(home, trusting(authority))) == "first"


async def test_what_was_read_before_is_not_put_over_what_was_read_later(
    tmp_path: Path, authority: Authority
) -> None:
    """A reload waits for its other files while the look at the certificates finds newer ones."""
    store = tmp_path / "store.pem"
    store.write_bytes(authority.issue("first").store.read_bytes())
    async with running(tmp_path / "data", TWO, f"ssl.keystore.location={store}") as home:
        certificates = home.broker.certificates
        assert certificates is not None
        older = await certificates.make()
        store.write_bytes(authority.issue("second").store.read_bytes())
        await certificates.look()
        certificates.take(older)

        assert subject_of(await connect(home, trusting(authority))) == "second"


async def test_a_look_puts_no_older_settings_in_force(
    tmp_path: Path, authority: Authority, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It has read by settings that a reload has replaced since, and reads by the new ones."""
    store = tmp_path / "store.pem"
    store.write_bytes(authority.issue("first").store.read_bytes())
    other = authority.issue("other").store
    async with running(tmp_path / "data", TWO, f"ssl.keystore.location={store}") as home:
        certificates = home.broker.certificates
        assert certificates is not None
        newer = await certificates.make(
            {
                name: replace(each, ssl_keystore_location=str(other))
                for name, each in certificates._settings.items()
            }
        )
        read = certificates._make

        async def reload_meanwhile(settings: Mapping[str, TlsConfig]) -> dict[str, Endpoint]:
            made = await read(settings)
            certificates.take(newer)
            return made

        monkeypatch.setattr(certificates, "_make", reload_meanwhile)
        store.write_bytes(authority.issue("second").store.read_bytes())
        await certificates.look()

        assert subject_of(await connect(home, trusting(authority))) == "other"


async def test_a_changed_file_is_taken(tmp_path: Path, authority: Authority) -> None:
    """Nobody need send a signal."""
    store = tmp_path / "store.pem"
    store.write_bytes(authority.issue("first").store.read_bytes())
    async with running(tmp_path / "data", TWO, f"ssl.keystore.location={store}") as home:
        certificates = home.broker.certificates
        assert certificates is not None
        endpoint = certificates.handshakes["SSL"].endpoint
        await certificates.look()
        assert certificates.handshakes["SSL"].endpoint is endpoint

        store.write_bytes(authority.issue("second").store.read_bytes())
        await certificates.look()

        assert subject_of(await connect(home, trusting(authority))) == "second"


async def test_a_file_that_cannot_be_opened_now_is_tried_again(
    tmp_path: Path,
    authority: Authority,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """A broker without a descriptor left goes on with what it has, and does not end."""
    store = tmp_path / "store.pem"
    store.write_bytes(authority.issue("first").store.read_bytes())

    def refuse(*_: object) -> int:
        raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))

    async with running(tmp_path / "data", TWO, f"ssl.keystore.location={store}") as home:
        certificates = home.broker.certificates
        assert certificates is not None
        store.write_bytes(authority.issue("second").store.read_bytes())
        with monkeypatch.context() as patch:
            patch.setattr(disk, "memfd_create", refuse)
            await certificates.look()
        assert subject_of(await connect(home, trusting(authority))) == "first"
        assert "Too many open files" in caplog.text

        await certificates.look()
        assert subject_of(await connect(home, trusting(authority))) == "second"


async def test_a_handshake_imports_nothing(
    home: Running, authority: Authority, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first one may come when the broker has no descriptor left, and without one none can."""

    class Full:
        @staticmethod
        def find_spec(*_: object) -> None:
            raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))

    monkeypatch.delitem(sys.modules, "termios", raising=False)
    monkeypatch.setattr(sys, "meta_path", [Full, *sys.meta_path])

    assert subject_of(await connect(home, trusting(authority)))


def subject_of(caller: Caller) -> str:
    """Return the common name that the broker has shown a client."""
    tls = caller.client._writer.get_extra_info("ssl_object")
    return str(dict(part[0] for part in tls.getpeercert()["subject"])["commonName"])


async def test_the_audit_log_has_certificates(
    tmp_path: Path, server: Pair, ann: Pair, authority: Authority
) -> None:
    """The principal that came in by one, and that another client did not."""
    audit = tmp_path / "audit.log"
    sets = mutual(server, authority, "required", f"audit.log.file={audit}")
    async with running(tmp_path / "data", *sets) as home:
        await ask_once(home, trusting(authority, ann))
        with suppress(ssl.SSLError, ConnectionError, asyncio.IncompleteReadError):
            await ask_once(home, trusting(authority))
        handshakes = home.listeners[ENCRYPTED].handshakes
        assert handshakes is not None
        await give_turns_until(lambda: handshakes.failed, "a failure", equals(1))

    came, went = [json.loads(line) for line in audit.read_text().splitlines()]
    assert (came["event"], came["mechanism"], came["listener"]) == ("login", "TLS", "SSL")
    assert came["principal"] == "User:CN=Ann Lee,OU=Ops,O=Mill"
    assert (went["event"], went["mechanism"]) == ("login failed", "TLS")
    assert "shows no certificate" in went["reason"]


@pytest.mark.parametrize("max_bytes", [20_000, 8 << 20])
async def test_cold_files_are_read_as_well(
    home: Running, authority: Authority, max_bytes: int
) -> None:
    """An io thread brings them into memory, and the answer is the same."""
    plain = await connect_plainly(home)
    for size in (15_000, 700_000, 15_000, 900_000):
        await produced(plain, batch(size))
    wanted = await fetched(plain, 0, max_bytes)
    for log in home.logs.all_logs():
        for path in log.path.glob("*.log"):
            with path.open("rb") as file:
                os.fsync(file.fileno())
                os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)

    caller = await connect(home, trusting(authority))

    assert await within(fetched(caller, 0, max_bytes), "the answer") == wanted


async def test_a_client_that_leaves_in_mid_answer(home: Running, authority: Authority) -> None:
    """Its sender lets go of the socket, and others are served."""
    plain = await connect_plainly(home)
    for _ in range(6):
        await produced(plain, batch(900_000))
    context = trusting(authority)
    frame = plain.frame(fetch(0, 8 << 20))

    def ask_and_leave() -> None:
        sock = socket.create_connection(("127.0.0.1", home.listeners[ENCRYPTED].port))
        with context.wrap_socket(sock, server_hostname="localhost") as tls:
            tls.sendall(frame)
            assert tls.recv(4)

    for _ in range(3):
        await asyncio.to_thread(ask_and_leave)

    connections = home.listeners[ENCRYPTED].connections
    await give_turns_until(lambda: len(connections), "their end", equals(0))
    assert len(await fetched(await connect(home, context), 0)) > 5 << 20


async def test_a_stop_ends_answers_that_nobody_takes(
    tmp_path: Path, server: Pair, authority: Authority
) -> None:
    """A client that does not read holds up the stop no longer than it may take."""
    sets = (TWO, f"ssl.keystore.location={server.store}", "graceful.shutdown.timeout.ms=3000")
    with socket.socket() as sock:
        async with running(tmp_path, *sets) as home:
            await home.topics.create("t", 1, {})
            plain = await connect_plainly(home)
            for _ in range(6):
                await produced(plain, batch(900_000))
            port, frame = home.listeners[ENCRYPTED].port, plain.frame(fetch(0, 8 << 20))

            def ask() -> ssl.SSLSocket:
                sock.connect(("127.0.0.1", port))
                tls = trusting(authority).wrap_socket(sock, server_hostname="localhost")
                tls.sendall(frame)
                assert tls.recv(4)
                return tls

            tls = await asyncio.to_thread(ask)
        tls.close()
    assert home.listeners[ENCRYPTED].connections == {}

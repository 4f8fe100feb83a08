"""Logins over a socket: in both forms, in the order that Kafka asks for, and again."""

import asyncio
import base64
import gc
import hashlib
import logging
import struct
import threading
from collections.abc import AsyncIterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from kafka.net.sasl.scram import ScramClient
from kio.schema.errors import ErrorCode

from siltstone.broker.net.connection import Connection
from siltstone.broker.security.plain import PlainServer
from siltstone.broker.security.scram import MECHANISMS, SaslFailure, make_verifier
from siltstone.broker.security.users import FILE_NAME, UserStore
from siltstone.config.errors import StartError
from tests.support.common_requests import authenticate, handshake, metadata
from tests.support.kio_messages import request
from tests.support.running import Caller, Running, running
from tests.support.waiting import give_turns_until

PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule"
LISTENERS = (
    "listeners=LAN://127.0.0.1:0",
    "listener.security.protocol.map=LAN:SASL_PLAINTEXT",
    "sasl.enabled.mechanisms=PLAIN,SCRAM-SHA-256",
    f"listener.name.lan.plain.sasl.jaas.config={PLAIN} required user_alice=secret user_bob=other;",
    "connection.failed.authentication.delay.ms=0",
)
ALICE = b"\0alice\0secret"


def broker(folder: Path, *sets: str) -> Any:
    """Return a broker whose only listener asks for SASL; carol has SCRAM credentials."""
    folder.mkdir()
    UserStore(folder).write(
        {"carol": {"SCRAM-SHA-256": make_verifier(MECHANISMS["SCRAM-SHA-256"], "scram")}}
    )
    return running(folder, *LISTENERS, *sets)


@pytest.fixture
async def home(tmp_path: Path) -> AsyncIterator[Running]:
    """A broker."""
    async with broker(tmp_path / "data") as started:
        yield started


def versions(version: int = 3) -> Any:
    """Return an ApiVersions."""
    return request(18, version, client_software_name="a", client_software_version="1")


async def log_in(caller: Caller, token: bytes = ALICE, version: int = 2) -> Any:
    """Return the answer to a login by PLAIN."""
    assert (await caller.ask(handshake())).error_code is ErrorCode.none
    return await caller.ask(authenticate(token, version))


async def test_nobody_is_served_before_the_login_and_everybody_after(home: Running) -> None:
    """The probe goes on meanwhile, without a password."""
    caller = await home.call()
    assert (await caller.ask(versions())).error_code is ErrorCode.none
    shaken = await caller.ask(handshake())
    done = await caller.ask(authenticate(ALICE))

    assert shaken.mechanisms == ("PLAIN", "SCRAM-SHA-256")
    assert (done.error_code, done.auth_bytes) == (ErrorCode.none, b"")
    assert len((await caller.ask(metadata())).brokers) == 1
    (connection,) = home.listeners[0].connections
    assert connection.principal == "User:alice"
    await home.probe.round_trip()


@pytest.mark.parametrize(
    "requests",
    [
        [metadata()],
        [versions(), metadata()],
        [versions(), versions()],
        [authenticate(ALICE)],
        [handshake(), metadata()],
        [handshake(), versions()],
    ],
    ids=["metadata", "versions-metadata", "versions-twice", "authenticate", "early", "late"],
)
async def test_what_may_not_come_yet_ends_the_connection(
    home: Running, requests: list[Any], caplog: pytest.LogCaptureFixture
) -> None:
    """And leaves a line that says what would have to come."""
    caller = await home.call()
    for each in requests[:-1]:
        await caller.ask(each)
    with caplog.at_level(logging.WARNING):
        await caller.client.send(caller.frame(requests[-1]))
        assert await caller.client.is_closed()

    assert "reason=ILLEGAL_SASL_STATE: " in caplog.text


async def test_versions_that_are_refused_may_be_asked_again(home: Running) -> None:
    """A newer client learns by it which versions there are."""
    caller = await home.call()
    head = struct.pack(">hhih", 18, 99, 7, -1) + b"\0"
    answer = await caller.client.ask(head)
    assert struct.unpack(">ih", answer[:6]) == (7, 35)

    assert (await caller.ask(versions())).error_code is ErrorCode.none


async def test_a_large_request_of_a_stranger_is_not_even_received(home: Running) -> None:
    """CVE-2022-34917: half a MiB is the most before a login, and it is not set aside."""
    stranger, known = await home.connect(), await home.call()
    await log_in(known)
    await stranger.send((524_289).to_bytes(4, "big"))

    assert await stranger.is_closed()
    await known.client.send((524_289).to_bytes(4, "big"))
    await home.probe.round_trip()

    assert "User:alice" in {each.principal for each in home.listeners[0].connections}


@pytest.mark.parametrize("token", [b"\0alice\0wrong", b"\0nobody\0secret"])
async def test_a_wrong_password_is_answered_and_closed(
    home: Running, token: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    """In the same words whether there is such a user; the log has neither password nor name."""
    caller = await home.call()
    with caplog.at_level(logging.DEBUG):
        answer = await log_in(caller, token)
        assert await caller.client.is_closed()

    assert answer.error_code is ErrorCode.sasl_authentication_failed
    assert answer.error_message == "Authentication failed: Invalid username or password"
    assert "login failed listener=LAN peer=127.0.0.1:" in caplog.text
    assert not any(word in caplog.text for word in ("wrong", "nobody", "secret", "alice"))


@pytest.mark.parametrize("cut", [1, 5, 30, 60])
async def test_what_is_sent_behind_a_login_waits_for_it(home: Running, cut: int) -> None:
    """It is served once the password is checked, and never if that is wrong; as by Kafka."""
    good, bad = await home.call(), await home.call()
    for caller, token in ((good, ALICE), (bad, b"\0alice\0wrong")):
        whole = b"".join(map(caller.frame, (handshake(), authenticate(token), metadata())))
        await caller.client.send(whole[:cut])
        await asyncio.sleep(0)
        await caller.client.send(whole[cut:])
        assert (await caller.receive(handshake())).error_code is ErrorCode.none

    assert (await good.receive(authenticate(ALICE))).error_code is ErrorCode.none
    assert len((await good.receive(metadata())).brokers) == 1
    refused = await bad.receive(authenticate(ALICE))
    assert refused.error_code is ErrorCode.sasl_authentication_failed
    assert await bad.client.is_closed()


async def test_strangers_do_not_take_all_io_threads(
    home: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two passwords are checked at a time, also if their clients have gone meanwhile."""
    begun: list[bytes] = []
    go_on = threading.Event()

    def step(_: PlainServer, token: bytes) -> bytes:
        begun.append(token)
        go_on.wait(60)
        raise SaslFailure("no")

    monkeypatch.setattr(PlainServer, "step", step)
    callers = [await home.call() for _ in range(6)]
    for caller in callers:
        await caller.ask(handshake())
        await caller.client.send(caller.frame(authenticate(ALICE)))
    await give_turns_until(lambda: len(begun) >= 2, "two checks")
    try:
        for caller in callers[:2]:
            await caller.client.close()
        await give_turns_until(lambda: len(home.listeners[0].connections) == 4, "two are gone")
        await home.probe.round_trip()

        assert len(begun) == 2
    finally:
        go_on.set()
    for caller in callers[2:]:
        answer = await caller.receive(authenticate(ALICE))
        assert answer.error_code is ErrorCode.sasl_authentication_failed


async def from_address(home: Running, host: str) -> Caller:
    """Connect from an address of this machine."""
    port = home.listeners[0].port
    return Caller(home.keep(await asyncio.open_connection("127.0.0.1", port, local_addr=(host, 0))))


async def test_many_of_one_address_do_not_hold_up_another(
    home: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its password is checked as soon as one of theirs is done; a user let in needs no check."""
    begun: list[bytes] = []
    places = threading.Semaphore(0)
    real = PlainServer.step

    def step(server: PlainServer, token: bytes) -> bytes:
        if server.blocks(token):
            begun.append(token)
            assert places.acquire(timeout=60)
        return real(server, token)

    await log_in(await home.call())
    monkeypatch.setattr(PlainServer, "step", step)
    for _ in range(8):
        stranger = await from_address(home, "127.0.0.2")
        await stranger.ask(handshake())
        await stranger.client.send(stranger.frame(authenticate(b"\0nobody\0wrong")))
    await give_turns_until(lambda: len(begun) >= 2, "two checks of theirs")

    assert (await log_in(await home.call())).error_code is ErrorCode.none
    bob = await home.call()
    await bob.ask(handshake())
    await bob.client.send(bob.frame(authenticate(b"\0bob\0other")))
    await home.probe.round_trip()
    places.release(2)
    await give_turns_until(lambda: len(begun) >= 4, "two more checks")
    places.release(8)

    assert b"\0bob\0other" in begun[2:4]
    assert (await bob.receive(authenticate(ALICE))).error_code is ErrorCode.none


async def test_who_leaves_before_the_answer_leaves_nothing_in_the_log(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """A wrong password that nobody waits for is no fault of the broker's."""
    begun, go_on = threading.Event(), threading.Event()

    def step(_: PlainServer, token: bytes) -> bytes:
        begun.set()
        go_on.wait(60)
        raise SaslFailure("no")

    monkeypatch.setattr(PlainServer, "step", step)
    async with broker(tmp_path / "data") as home:
        caller = await home.call()
        await caller.ask(handshake())
        await caller.client.send(caller.frame(authenticate(ALICE)))
        await give_turns_until(begun.is_set, "the check")
        try:
            await caller.client.close()
            await give_turns_until(lambda: not home.listeners[0].connections, "the client is gone")
        finally:
            go_on.set()
    await asyncio.sleep(0)
    gc.collect()

    assert "Traceback" not in caplog.text
    assert "never retrieved" not in caplog.text


async def test_who_fails_waits(tmp_path: Path) -> None:
    """For connection.failed.authentication.delay.ms, before it is answered."""
    async with broker(tmp_path / "data", "connection.failed.authentication.delay.ms=300") as home:
        caller = await home.call()
        began = asyncio.get_running_loop().time()
        await log_in(caller, b"\0alice\0wrong")
        waited = asyncio.get_running_loop().time() - began

    assert waited >= 0.3


async def test_a_mechanism_that_is_not_enabled_is_answered_with_those_that_are(
    home: Running,
) -> None:
    """So that the client can say so."""
    caller = await home.call()
    answer = await caller.ask(handshake(mechanism="GSSAPI"))

    assert answer.error_code is ErrorCode.unsupported_sasl_mechanism
    assert answer.mechanisms == ("PLAIN", "SCRAM-SHA-256")
    assert await caller.client.is_closed()


async def test_a_second_handshake_instead_of_a_token(home: Running) -> None:
    """ILLEGAL_SASL_STATE, then the end."""
    caller = await home.call()
    await caller.ask(handshake())

    assert (await caller.ask(handshake())).error_code is ErrorCode.illegal_sasl_state
    assert await caller.client.is_closed()


async def scram(caller: Caller, password: str, *, raw: bool = False, user: str = "carol") -> Any:
    """Log in by SCRAM and return the last answer."""
    client = ScramClient(user, password, "SCRAM-SHA-256")
    await caller.ask(handshake(0 if raw else 1, "SCRAM-SHA-256"))
    if raw:
        client.process_server_first_message(await caller.client.ask(client.first_message()))
        client.process_server_final_message(await caller.client.ask(client.final_message()))
        return None
    first = await caller.ask(authenticate(client.first_message()))
    client.process_server_first_message(first.auth_bytes)
    final = await caller.ask(authenticate(client.final_message()))
    if final.error_code is ErrorCode.none:
        client.process_server_final_message(final.auth_bytes)
    return final


async def test_a_connection_that_is_closed_is_gone(home: Running) -> None:
    """Without a look for garbage, which thousands of logins a second would cause."""
    gc.collect()
    gc.disable()
    try:
        caller = await home.call()
        await scram(caller, "scram")
        await caller.client.close()
        await give_turns_until(lambda: not home.listeners[0].connections, "it is closed")
        kept = [each for each in gc.get_objects() if isinstance(each, Connection)]
    finally:
        gc.enable()

    assert "User:carol" not in {each.principal for each in kept}


@pytest.mark.parametrize("raw", [False, True])
async def test_scram_in_both_forms(home: Running, raw: bool) -> None:
    """By SaslAuthenticate, and by bare tokens after a handshake of version 0."""
    caller = await home.call()
    await scram(caller, "scram", raw=raw)

    assert len((await caller.ask(metadata())).brokers) == 1


async def test_plain_by_bare_tokens(home: Running) -> None:
    """An empty token says yes; a closed connection says no (KIP-43)."""
    good, bad = await home.call(), await home.call()
    for caller in (good, bad):
        await caller.ask(handshake(0))

    assert await good.client.ask(ALICE) == b""
    assert len((await good.ask(metadata())).brokers) == 1
    await bad.client.send(len(ALICE).to_bytes(4, "big") + ALICE[:-1] + b"T")
    assert await bad.client.is_closed()


@pytest.mark.parametrize(("user", "password"), [("carol", "wrong"), ("nobody", "scram")])
async def test_scram_fails_alike_for_whom_there_is_not(
    home: Running, user: str, password: str
) -> None:
    """At the second token, in the same words."""
    caller = await home.call()
    answer = await scram(caller, password, user=user)

    assert answer.error_code is ErrorCode.sasl_authentication_failed
    assert answer.error_message == "Authentication failed: Invalid user credentials"
    assert await caller.client.is_closed()


async def test_a_login_that_does_not_end_is_not_made_again(home: Running) -> None:
    """ILLEGAL_SASL_STATE, and the connection stays."""
    caller = await home.call()
    answer = await log_in(caller)

    assert answer.session_lifetime == timedelta(0)
    assert (await caller.ask(handshake())).error_code is ErrorCode.illegal_sasl_state
    late = await caller.ask(authenticate(ALICE))
    assert late.error_code is ErrorCode.illegal_sasl_state
    assert late.error_message == "SaslAuthenticate request received after successful authentication"
    assert len((await caller.ask(metadata())).brokers) == 1


async def test_a_login_ends_and_is_made_again(tmp_path: Path) -> None:
    """KIP-368: as the same user; a client that does not is closed at the next request."""
    async with broker(tmp_path / "data", "connections.max.reauth.ms=60000") as home:
        caller, late = await home.call(), await home.call()
        assert (await log_in(caller)).session_lifetime == timedelta(seconds=60)
        assert (await caller.ask(handshake())).error_code is ErrorCode.none
        assert (await caller.ask(authenticate(ALICE, 1))).error_code is ErrorCode.none
        assert len((await caller.ask(metadata())).brokers) == 1
        # At most once a second.
        assert (await caller.ask(handshake())).error_code is ErrorCode.illegal_sasl_state
        await log_in(late)
        for connection in home.listeners[0].connections:
            assert connection.login is not None
            connection.login._expires = 0.0
        await late.client.send(late.frame(metadata()))

        assert await late.client.is_closed()
        assert home.listeners[0].logins is not None
        assert home.listeners[0].logins.expired == 1


@pytest.mark.parametrize(
    ("again", "token", "code"),
    [
        ("PLAIN", b"\0bob\0other", ErrorCode.sasl_authentication_failed),
        ("SCRAM-SHA-256", b"", ErrorCode.unsupported_sasl_mechanism),
    ],
)
async def test_nobody_becomes_another_in_mid_connection(
    tmp_path: Path, again: str, token: bytes, code: ErrorCode
) -> None:
    """CVE-2017-12610: neither by another user nor by another mechanism."""
    async with broker(tmp_path / "data", "connections.max.reauth.ms=60000") as home:
        caller = await home.call()
        await log_in(caller)
        answer = await caller.ask(handshake(mechanism=again))
        if token:
            answer = await caller.ask(authenticate(token))

        assert answer.error_code is code
        assert await caller.client.is_closed()


async def test_users_are_made_and_removed_while_the_broker_runs(home: Running) -> None:
    """KIP-554: a new user can log in at once, a removed one no more."""
    mechanism = MECHANISMS["SCRAM-SHA-256"]
    salted = hashlib.pbkdf2_hmac("sha256", b"new", b"salt", 4096)
    admin = await home.call()
    await log_in(admin)
    dave = {"name": "dave", "mechanism": 1, "iterations": 4096, "salt": b"salt"}
    dave["salted_password"] = salted
    gone = {"name": "carol", "mechanism": mechanism.code}
    results = (await admin.ask(request(51, 0, deletions=[gone], upsertions=[dave]))).results
    described = (await admin.ask(request(50, 0))).results

    assert [(each.user, each.error_code) for each in results] == [
        ("carol", ErrorCode.none),
        ("dave", ErrorCode.none),
    ]
    assert [each.user for each in described] == ["dave"]
    (info,) = described[0].credential_infos
    assert (info.mechanism, info.iterations) == (1, 4096)
    answers = [await scram(await home.call(), *who) for who in (("new",), ("scram",))]
    entered = await scram(await home.call(), "new", user="dave")
    assert entered.error_code is ErrorCode.none
    assert {each.error_code for each in answers} == {ErrorCode.sasl_authentication_failed}


@pytest.mark.parametrize(
    ("change", "code", "message"),
    [
        ({"name": ""}, ErrorCode.unacceptable_credential, "Username must not be empty"),
        ({"mechanism": 3}, ErrorCode.unsupported_sasl_mechanism, "Unknown SCRAM mechanism"),
        ({"iterations": 4095}, ErrorCode.unacceptable_credential, "Too few iterations"),
        ({"iterations": 16_385}, ErrorCode.unacceptable_credential, "Too many iterations"),
        ({"salt": b""}, ErrorCode.unacceptable_credential, "The salt must not be empty"),
    ],
)
async def test_credentials_that_cannot_be_taken(
    home: Running, change: dict[str, Any], code: ErrorCode, message: str
) -> None:
    """Each with Kafka's error; nothing is stored."""
    admin = await home.call()
    await log_in(admin)
    row = {
        "name": "eve",
        "mechanism": 1,
        "iterations": 4096,
        "salt": base64.b64decode("W22Z"),
        "salted_password": bytes(32),
        **change,
    }
    (result,) = (await admin.ask(request(51, 0, upsertions=[row]))).results

    assert result.error_code is code
    assert result.error_message.startswith(message)
    assert set(home.broker._security.users.get().credentials) == {"carol"}


async def test_a_file_of_users_that_others_may_read_stops_the_start(tmp_path: Path) -> None:
    """In a sentence that says what to do."""
    folder = tmp_path / "data"
    starting = broker(folder)
    (folder / FILE_NAME).chmod(0o644)

    with pytest.raises(StartError, match=r"has the rights 0644.*chmod 0600"):
        async with starting:
            pass

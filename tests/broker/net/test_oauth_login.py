"""OAUTHBEARER over a socket: which clients log in, for how long, and what the log has of it."""

import json
import logging
from collections.abc import AsyncIterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from kio.schema.errors import ErrorCode

from siltstone.config.errors import StartError
from siltstone.config.oauth import UNSECURED
from tests.support.clock import FakeClock
from tests.support.common_requests import authenticate, metadata
from tests.support.common_requests import handshake as handshake_of
from tests.support.kio_messages import request
from tests.support.quotas import set_quota
from tests.support.running import Caller, Running, running
from tests.support.tokens import AUDIENCE, ISSUER, Issuer, claims, message, unsigned
from tests.support.waiting import give_turns_until

CLOCK = FakeClock()
NOW_MS = CLOCK.now_ms()
REFUSAL = b'{"status":"invalid_token"}'


@pytest.fixture(scope="module")
def issuer() -> Issuer:
    """The signer of tokens."""
    return Issuer()


def broker(folder: Path, issuer: Issuer, *sets: str, clock: FakeClock = CLOCK) -> Any:
    """Return a broker whose only listener takes the tokens of an issuer."""
    folder.mkdir()
    return running(
        folder / "data",
        "listeners=LAN://127.0.0.1:0",
        "listener.security.protocol.map=LAN:SASL_PLAINTEXT",
        "sasl.enabled.mechanisms=OAUTHBEARER,SCRAM-SHA-256",
        f"sasl.oauthbearer.jwks.endpoint.url={issuer.write(folder / 'keys.json')}",
        f"sasl.oauthbearer.expected.audience={AUDIENCE}",
        f"sasl.oauthbearer.expected.issuer={ISSUER}",
        "connection.failed.authentication.delay.ms=0",
        f"audit.log.file={folder / 'audit.log'}",
        *sets,
        clock=clock,
    )


@pytest.fixture
async def home(tmp_path: Path, issuer: Issuer) -> AsyncIterator[Running]:
    """A broker."""
    async with broker(tmp_path / "home", issuer) as started:
        yield started


def handshake(version: int = 1) -> Any:
    """Return a SaslHandshake."""
    return handshake_of(version, "OAUTHBEARER")


async def log_in(caller: Caller, token: str) -> Any:
    """Return the answer to a token."""
    assert (await caller.ask(handshake())).error_code is ErrorCode.none
    return await caller.ask(authenticate(message(token)))


async def test_a_token_lets_its_user_in(home: Running, issuer: Issuer) -> None:
    """For as long as it is good, though connections.max.reauth.ms says nothing."""
    caller = await home.call()
    answer = await log_in(caller, issuer.sign(claims(NOW_MS)))

    assert (answer.error_code, answer.auth_bytes) == (ErrorCode.none, b"")
    assert answer.session_lifetime == timedelta(minutes=10)
    assert len((await caller.ask(metadata())).brokers) == 1
    assert {each.principal for each in home.listeners[0].connections} == {"User:alice"}


@pytest.mark.parametrize(("limit_ms", "seconds"), [(60_000, 60), (3_600_000, 600)])
async def test_the_shorter_life_counts(
    tmp_path: Path, issuer: Issuer, limit_ms: int, seconds: int
) -> None:
    """That of the token, or of connections.max.reauth.ms."""
    async with broker(tmp_path / "home", issuer, f"connections.max.reauth.ms={limit_ms}") as home:
        answer = await log_in(await home.call(), issuer.sign(claims(NOW_MS)))

    assert answer.session_lifetime == timedelta(seconds=seconds)


async def test_a_login_ends_with_its_token(home: Running, issuer: Issuer) -> None:
    """A client without a new one is closed at the next request."""
    caller, late = await home.call(), await home.call()
    for each in (caller, late):
        await log_in(each, issuer.sign(claims(NOW_MS)))
    again = await log_in(caller, issuer.sign(claims(NOW_MS, exp=NOW_MS // 1000 + 9)))
    assert again.session_lifetime == timedelta(seconds=9)
    assert len((await caller.ask(metadata())).brokers) == 1
    for connection in home.listeners[0].connections:
        assert connection.login is not None
        connection.login._expires = 0.0
    await late.client.send(late.frame(metadata()))

    assert await late.client.is_closed()


async def test_a_login_has_no_quota_and_the_next_one_has(home: Running, issuer: Issuer) -> None:
    """Before the first it is not known whose quota would count."""
    admin, caller = await home.call(), await home.call()
    caller.client_id = "app"
    await log_in(admin, issuer.sign(claims(NOW_MS)))
    await set_quota(admin, "request_percentage", 50.0)
    meter = home.broker.meter.get()
    known = meter.known_count
    await caller.ask(request(18, 0))
    await log_in(caller, issuer.sign(claims(NOW_MS, "bob")))
    assert meter.known_count == known
    answer = await log_in(caller, issuer.sign(claims(NOW_MS, "bob")))

    assert answer.error_code is ErrorCode.none
    assert meter.known_count == known + 1
    assert len((await caller.ask(metadata())).brokers) == 1


async def test_nobody_becomes_another_by_a_token(home: Running, issuer: Issuer) -> None:
    """CVE-2017-12610: a token of another user, in mid-connection."""
    caller = await home.call()
    await log_in(caller, issuer.sign(claims(NOW_MS)))
    answer = await log_in(caller, issuer.sign(claims(NOW_MS, "bob")))

    assert answer.error_code is ErrorCode.sasl_authentication_failed
    assert await caller.client.is_closed()


async def test_a_bad_token_is_answered_refused_and_closed(
    home: Running, issuer: Issuer, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """RFC 7628: with JSON, then with Kafka's error; one line each, without a word of the token."""
    token = issuer.sign(claims(NOW_MS, "mallory", aud="elsewhere"))
    caller = await home.call()
    with caplog.at_level(logging.DEBUG):
        first = await log_in(caller, token)
        second = await caller.ask(authenticate(b"\x01"))
        assert await caller.client.is_closed()

    assert (first.error_code, first.auth_bytes) == (ErrorCode.none, REFUSAL)
    assert second.error_code is ErrorCode.sasl_authentication_failed
    assert second.error_message == REFUSAL.decode()
    assert "mechanism=OAUTHBEARER others=0 reason=the token is for another audience" in caplog.text
    audit = (tmp_path / "home" / "audit.log").read_text()
    (line,) = [json.loads(each) for each in audit.splitlines()]
    assert (line["event"], line["mechanism"]) == ("login failed", "OAUTHBEARER")
    assert line["reason"] == "the token is for another audience"
    for text in (caplog.text, audit):
        assert not any(part in text for part in (*token.split("."), "mallory", "elsewhere"))
    assert home.listeners[0].logins is not None
    assert home.listeners[0].logins.failed == 1


async def test_who_leaves_after_the_answer_is_noted_too(home: Running, issuer: Issuer) -> None:
    """The second message is not needed for the login to have failed."""
    caller = await home.call()
    await log_in(caller, issuer.sign(claims(NOW_MS, exp=1)))
    await caller.client.close()
    await give_turns_until(lambda: not home.listeners[0].connections, "it is gone")

    assert home.listeners[0].logins is not None
    assert home.listeners[0].logins.failed == 1


async def test_another_handshake_after_a_refused_token_is_answered(
    home: Running, issuer: Issuer
) -> None:
    """As any second one is, before the connection closes."""
    caller = await home.call()
    await log_in(caller, issuer.sign(claims(NOW_MS, exp=1)))

    assert (await caller.ask(handshake())).error_code is ErrorCode.illegal_sasl_state
    assert await caller.client.is_closed()


async def test_bare_tokens(home: Running, issuer: Issuer) -> None:
    """After a handshake of version 0 (KIP-43)."""
    good, bad = await home.call(), await home.call()
    for caller in (good, bad):
        await caller.ask(handshake(0))

    assert await good.client.ask(message(issuer.sign(claims(NOW_MS)))) == b""
    assert len((await good.ask(metadata())).brokers) == 1
    assert await bad.client.ask(message(issuer.sign(claims(NOW_MS, exp=1)))) == REFUSAL
    await bad.client.send(b"\0\0\0\1\1")
    assert await bad.client.is_closed()


async def test_a_new_key_is_found(tmp_path: Path) -> None:
    """An issuer that has changed its key puts the new one into the file."""
    old, new, clock = Issuer(), Issuer("ES384"), FakeClock()
    async with broker(tmp_path / "home", old, clock=clock) as home:
        refused = await log_in(await home.call(), new.sign(claims(NOW_MS), "ES384"))
        new.write(tmp_path / "home" / "keys.json")
        clock.advance(10_000)
        taken = await log_in(await home.call(), new.sign(claims(NOW_MS), "ES384"))

    assert (refused.auth_bytes, taken.auth_bytes) == (REFUSAL, b"")


async def test_a_file_without_keys_stops_the_start(tmp_path: Path, issuer: Issuer) -> None:
    """In a sentence that says which."""
    starting = broker(tmp_path / "home", issuer)
    (tmp_path / "home" / "keys.json").write_text('{"keys": []}')

    with pytest.raises(StartError, match=r"keys\.json of the listener LAN cannot be used: it has"):
        async with starting:
            pass


async def test_unsigned_tokens_are_said_loudly(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """A warning at the start, and every client has the name that it gives."""
    with caplog.at_level(logging.WARNING):
        async with running(
            tmp_path / "data",
            "listeners=LAN://127.0.0.1:0",
            "listener.security.protocol.map=LAN:SASL_PLAINTEXT",
            "sasl.enabled.mechanisms=OAUTHBEARER",
            f"listener.name.lan.oauthbearer.sasl.server.callback.handler.class={UNSECURED}",
            clock=CLOCK,
        ) as home:
            answer = await log_in(await home.call(), unsigned({"sub": "x", "exp": 2_000_000_000}))

    assert answer.auth_bytes == b""
    assert "LAN takes tokens that nobody has signed" in caplog.text

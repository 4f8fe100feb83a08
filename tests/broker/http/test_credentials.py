"""The cost of a password over HTTP: the same for everybody, and few are checked at a time."""

import asyncio
import base64
import hashlib
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from siltstone.broker.http.credentials import Credentials
from siltstone.broker.http.values import HttpRequest
from siltstone.broker.process.io import IoThreads
from siltstone.broker.security.audit import Audit
from siltstone.broker.security.plain import PLAIN, PLAIN_HASH
from siltstone.broker.security.scram import MECHANISMS, make_verifier
from siltstone.broker.security.users import UserStore
from tests.support.clock import FakeClock
from tests.support.waiting import equals, give_turns_until


def request(user: str, password: str = "wrong") -> HttpRequest:
    """Return a request with a user and its password."""
    said = base64.b64encode(f"{user}:{password}".encode())
    return HttpRequest(
        method="GET",
        path="/metrics",
        headers={b"authorization": b"Basic " + said},
        peer="192.0.2.1:1",
    )


def credentials(users: UserStore, io: Any, audit: Audit | None = None) -> Credentials:
    """Return what asks for passwords; no delay after a failure, and a user may read."""
    return Credentials(users, io, lambda _: False, lambda: 0.0, lambda _: True, audit)


async def test_a_user_that_is_not_there_costs_as_much(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Or the time of an answer would tell which users there are, and by which mechanism."""
    users = UserStore(tmp_path)
    scram = MECHANISMS["SCRAM-SHA-256"]
    users.write(
        {
            "alice": {PLAIN: make_verifier(PLAIN_HASH, "secret")},
            "bob": {scram.name: make_verifier(scram, "secret")},
        }
    )
    done: list[tuple[str, int]] = []
    salted = hashlib.pbkdf2_hmac

    def note(digest: str, password: bytes, salt: bytes, iterations: int) -> bytes:
        done.append((digest, iterations))
        return salted(digest, password, salt, iterations)

    monkeypatch.setattr(hashlib, "pbkdf2_hmac", note)
    io = IoThreads(2)
    asked = credentials(users, io)
    costs = []
    for user in ("alice", "bob", "eve"):
        done.clear()
        answer = await asked.refuse(request(user))
        assert answer is not None
        assert answer.status == 401
        costs.append(list(done))
    io.close()

    assert costs[0] == costs[1] == costs[2]


class Threads:
    """Threads whose work ends when a test says so."""

    def __init__(self) -> None:
        self.begun: list[asyncio.Future[bool]] = []

    def run(self, _function: Callable[..., bool], *_arguments: str) -> asyncio.Future[bool]:
        """Begin."""
        work = asyncio.get_running_loop().create_future()
        self.begun.append(work)
        return work


async def test_few_passwords_are_checked_at_a_time(tmp_path: Path) -> None:
    """Strangers leave the io threads to others, also those that go away meanwhile."""
    io = Threads()
    asked = credentials(UserStore(tmp_path), io)
    tasks = [asyncio.create_task(asked.refuse(request(f"user-{each}"))) for each in range(5)]
    await give_turns_until(lambda: len(io.begun), "two checks", equals(2))
    tasks[0].cancel()
    with pytest.raises(asyncio.CancelledError):
        await tasks[0]
    assert len(io.begun) == 2

    for number in range(5):
        io.begun[number].set_result(True)
        await give_turns_until(lambda: len(io.begun), "the next", equals(min(5, 3 + number)))
    assert await asyncio.gather(*tasks[1:]) == [None] * 4


async def test_a_password_that_was_right_is_not_hashed_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Prometheus asks every few seconds, and others may be waiting; a wrong one is."""
    users = UserStore(tmp_path)
    users.write({"alice": {PLAIN: make_verifier(PLAIN_HASH, "secret")}})
    io = IoThreads(1)
    asked = credentials(users, io)
    assert await asked.refuse(request("alice", "secret")) is None
    monkeypatch.setattr(io, "run", lambda *_: pytest.fail("a thread is asked"))

    assert await asked.refuse(request("alice", "secret")) is None
    users.write({})
    with pytest.raises(pytest.fail.Exception):
        await asked.refuse(request("alice", "secret"))
    io.close()


async def test_a_failed_login_is_in_the_audit_log(tmp_path: Path) -> None:
    """As one at a listener; without the name, which may be a password."""
    audit = Audit(FakeClock(), tmp_path / "audit.log")
    io = IoThreads(1)
    await credentials(UserStore(tmp_path), io, audit).refuse(request("mallory"))
    audit.close()
    io.close()
    (line,) = (tmp_path / "audit.log").read_text().splitlines()

    said = json.loads(line)
    assert said["event"] == "login failed"
    assert said["peer"] == "192.0.2.1:1"
    assert said["listener"] == "http"
    assert "mallory" not in line

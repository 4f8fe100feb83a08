"""Passwords that were right before."""

import hashlib
from typing import Any

import pytest

from siltstone.broker.security.plain import PLAIN_HASH, PlainServer
from siltstone.broker.security.proven import ProvenPasswords
from siltstone.broker.security.scram import SaslFailure, Verifier, make_verifier

ALICE = b"\0alice\0secret"


class Listener:
    """Where alice logs in, with the hashes that were computed."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.found: tuple[Verifier, bool] = make_verifier(PLAIN_HASH, "secret"), True
        self.hashes = 0
        self._proven = ProvenPasswords()
        real = hashlib.pbkdf2_hmac

        def derive(*given: Any) -> bytes:
            self.hashes += 1
            return real(*given)

        monkeypatch.setattr(hashlib, "pbkdf2_hmac", derive)

    def log_in(self, token: bytes = ALICE) -> tuple[bool, bool]:
        """Return whether the token is right, and whether it was said to block."""
        server = PlainServer(lambda _: self.found, self._proven)
        blocks = server.blocks(token)
        try:
            server.step(token)
        except SaslFailure:
            return False, blocks
        return True, blocks


@pytest.fixture
def listener(monkeypatch: pytest.MonkeyPatch) -> Listener:
    """A listener that knows alice."""
    return Listener(monkeypatch)


def test_a_password_that_was_right_is_not_hashed_again(listener: Listener) -> None:
    """A wrong one is, beside it too, and is not remembered."""
    assert listener.log_in() == (True, True)
    assert listener.log_in() == (True, False)
    assert listener.hashes == 1
    for _ in range(2):
        assert listener.log_in(b"\0alice\0wrong") == (False, True)
    assert listener.log_in(b"\0bob\0secret")[1]
    assert listener.hashes == 4


@pytest.mark.parametrize(
    "after",
    [(make_verifier(PLAIN_HASH, "other"), True), (make_verifier(PLAIN_HASH, "other"), False), None],
    ids=["changed", "removed", "hidden"],
)
def test_it_does_not_outlive_a_password_or_a_user(
    listener: Listener, after: tuple[Verifier, bool] | None
) -> None:
    """A password of another verifier, or of a user that is gone, is hashed and refused."""
    listener.log_in()
    listener.found = (listener.found[0], False) if after is None else after

    assert listener.log_in() == (False, True)


def test_neither_password_nor_name_is_kept(listener: Listener) -> None:
    """But a digest whose key is another at each start."""
    listener.log_in()
    proven = listener._proven

    assert "secret" not in repr(vars(proven))
    assert "alice" not in repr(vars(proven))
    assert not ProvenPasswords().has(listener.found[0], "alice", "secret")


def test_long_passwords_are_hashed_each_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """The loop does not digest half a megabyte that a stranger sends."""
    listener = Listener(monkeypatch)
    listener.found = make_verifier(PLAIN_HASH, "x" * 1025), True

    for _ in range(2):
        assert listener.log_in(b"\0alice\0" + b"x" * 1025) == (True, True)


def test_few_are_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    """The oldest go, so that no number of users fills memory."""
    monkeypatch.setattr("siltstone.broker.security.proven._MAX_KNOWN", 2)
    proven = ProvenPasswords()
    users = [Verifier(b"salt", 1, bytes([each]), b"") for each in range(3)]
    for each in users:
        proven.note(each, "user", "secret")

    assert [proven.has(each, "user", "secret") for each in users] == [False, True, True]

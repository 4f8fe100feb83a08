"""Which keys are taken from a set, and when the set is read again."""

import json
import logging
import threading
from collections.abc import Callable
from typing import Any

import jwt
import pytest
from cryptography.hazmat.primitives.asymmetric import rsa

from siltstone.broker.security.oauth.key_sources import SourceError
from siltstone.broker.security.oauth.keys import Keys, parse_keys
from tests.support.clock import FakeClock
from tests.support.tokens import Issuer, make_key, row, settings


class Source:
    """Where keys come from, and how often they were asked for."""

    def __init__(self, *names: str) -> None:
        self.names = [*names]
        self.asked = 0
        self.fault: str | None = None

    def read(self) -> bytes:
        """Return a set, or fail."""
        self.asked += 1
        if self.fault is not None:
            raise SourceError(self.fault)
        key = make_key("ES256")
        return json.dumps({"keys": [row(key, "ES256", name) for name in self.names]}).encode()


def make(source: Source) -> tuple[Keys, FakeClock]:
    """Return keys that have been read once."""
    clock = FakeClock()
    keys = Keys(settings(), clock, source.read)
    keys.load()
    return keys, clock


def test_keys_are_read_again_when_they_are_old() -> None:
    """After sasl.oauthbearer.jwks.endpoint.refresh.ms: one that is gone is good no more."""
    source = Source("a")
    keys, clock = make(source)
    source.names = ["b"]
    assert keys.find("a", "ES256") is not None
    clock.advance(3_600_000)

    assert keys.find("a", "ES256") is None
    assert keys.find("b", "ES256") is not None
    assert source.asked == 2


def test_an_unknown_key_is_looked_for_and_not_often() -> None:
    """The issuer may have a new one; a stranger may have many names."""
    source = Source("a")
    keys, clock = make(source)
    source.names = ["a", "b"]
    assert [keys.find(f"x{number}", "ES256") for number in range(100)] == [None] * 100
    assert source.asked == 1  # just read
    clock.advance(10_000)

    assert keys.find("b", "ES256") is not None
    assert [keys.find(f"x{number}", "ES256") for number in range(100)] == [None] * 100
    assert source.asked == 2


def test_keys_stay_when_no_new_ones_can_be_had(caplog: pytest.LogCaptureFixture) -> None:
    """And are asked for less and less often, up to the longest wait."""
    source = Source("a")
    keys, clock = make(source)
    source.fault = "it answers 500"
    clock.advance(3_600_000)
    waits = []
    with caplog.at_level(logging.WARNING):
        for _ in range(9):
            before, waited = source.asked, 0
            while source.asked == before:
                assert keys.find("a", "ES256") is not None
                clock.advance(100)
                waited += 100
            waits.append(waited)

    assert waits[:4] == [100, 100, 200, 400]
    assert waits[-1] == 10_000
    assert "no new keys for tokens; 1 stay; reason=it answers 500" in caplog.text
    source.fault, source.names = None, ["b"]
    clock.advance(10_000)
    assert keys.find("b", "ES256") is not None


def test_one_thread_reads_and_the_others_go_on() -> None:
    """A slow issuer does not hold the logins of those whose key is known."""
    clock = FakeClock()
    content = Source("a").read()
    begun, go_on = threading.Event(), threading.Event()
    asked: list[int] = []

    def read() -> bytes:
        asked.append(1)
        if len(asked) > 1:
            begun.set()
            go_on.wait(60)
        return content

    keys = Keys(settings(), clock, read)
    keys.load()
    clock.advance(3_600_000)
    slow = threading.Thread(target=keys.find, args=("a", "ES256"))
    slow.start()
    try:
        assert begun.wait(60)
        assert keys.find("a", "ES256") is not None
        assert keys.find("b", "ES256") is None
    finally:
        go_on.set()
        slow.join()

    assert len(asked) == 2


def _weak(good: dict[str, Any]) -> dict[str, Any]:
    del good
    return row(rsa.generate_private_key(public_exponent=65_537, key_size=1024), "RS256", "weak")


@pytest.mark.parametrize(
    "change",
    [
        lambda good: {**good, "use": "enc"},
        lambda good: {**good, "key_ops": ["sign"]},
        lambda good: {**good, "key_ops": "verify"},
        lambda good: {**good, "alg": "ES384"},
        lambda good: {**good, "alg": "HS256"},
        lambda good: {**good, "alg": "none"},
        lambda good: {**good, "alg": None},
        lambda good: {**good, "kty": "oct", "k": "c2VjcmV0", "alg": "HS256"},
        lambda good: {**good, "crv": "secp256k1"},
        lambda good: {**good, "crv": ["P-256"]},
        lambda good: {**good, "x": "!"},
        lambda good: {**good, "x": good["y"]},
        lambda good: {**good, "x": 7},
        lambda good: {**good, "kid": 7},
        lambda good: {each: value for each, value in good.items() if each != "y"},
        lambda _: {"kty": "RSA", "kid": "a"},
        lambda _: "key",
        _weak,
    ],
)
def test_what_is_no_key_to_sign_with_is_left_out(change: Callable[[dict[str, Any]], Any]) -> None:
    """The others of the set are taken."""
    good = Issuer("ES256").rows()[0]
    (key,) = parse_keys(json.dumps({"keys": [change(dict(good)), good]}).encode())

    assert key.name == "ES256"


def test_a_private_key_in_the_set_is_taken_for_its_public_half() -> None:
    """The broker can check with it, and never sign."""
    private = make_key("ES256")
    whole = jwt.get_algorithm_by_name("ES256").to_jwk(private, as_dict=True)
    assert "d" in whole
    whole.pop("key_ops", None)
    (key,) = parse_keys(json.dumps({"keys": [whole]}).encode())

    assert not hasattr(key.key, "sign")


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"{}",
        b"[]",
        b"null",
        b'{"keys": 7}',
        b'{"keys": []}',
        b"\xff",
        b"[" * 100_000,
        json.dumps({"keys": [{}] * 257}).encode(),
    ],
)
def test_what_is_no_set_of_keys(content: bytes) -> None:
    """Is a fault in a sentence, and the known keys stay."""
    with pytest.raises(SourceError):
        parse_keys(content)

"""Logging in: what is said, what is believed, and which settings name the user."""

import base64
import hashlib
import hmac

import pytest

from siltstone.pipeline.client.login import Login, for_librdkafka, read_login
from siltstone.pipeline.errors import BadOption, SourceUnavailable

JAAS = 'org.apache.kafka.common.security.scram.ScramLoginModule required username="a,b=c" '
HASHES = {"SCRAM-SHA-256": "sha256", "SCRAM-SHA-512": "sha512"}


class Server:
    """The broker's side of SCRAM, after RFC 5802."""

    def __init__(self, mechanism: str, password: str, *, iterations: int = 4096) -> None:
        self._hash = HASHES[mechanism]
        self._iterations = iterations
        self._salted = hashlib.pbkdf2_hmac(self._hash, password.encode(), b"salt", iterations)
        self._said: list[str] = []
        self.username = ""

    def answer(self, message: bytes) -> bytes:
        """Answer the first and the last message of a client."""
        text = message.decode()
        if not self._said:
            name, nonce = text.removeprefix("n,,").split(",")
            self.username = name.removeprefix("n=")
            salt = base64.b64encode(b"salt").decode()
            first = f"{nonce}more,s={salt},i={self._iterations}"
            self._said = [text.removeprefix("n,,"), first]
            return first.encode()
        last, _, proof = text.rpartition(",p=")
        said = ",".join([*self._said, last]).encode()
        key = hmac.digest(self._salted, b"Client Key", self._hash)
        stored = hashlib.new(self._hash, key).digest()
        signature = hmac.digest(stored, said, self._hash)
        claimed = bytes(
            one ^ other for one, other in zip(base64.b64decode(proof), signature, strict=True)
        )
        assert hashlib.new(self._hash, claimed).digest() == stored, "a wrong proof"
        server_key = hmac.digest(self._salted, b"Server Key", self._hash)
        return b"v=" + base64.b64encode(hmac.digest(server_key, said, self._hash))


@pytest.mark.parametrize("mechanism", HASHES)
def test_both_sides_know_the_password(mechanism: str) -> None:
    """The proof is right, and a name with the separators of the protocol arrives escaped."""
    server = Server(mechanism, "secret")

    Login(mechanism, "a,b=c", "secret").perform(server.answer)

    assert server.username == "a=2Cb=3Dc"


@pytest.mark.parametrize(
    "answers",
    [
        (b"r=someone-elses,s=c2FsdA==,i=4096",),
        (b"e=other-error",),
        (b"r={nonce},s=c2FsdA==,i=1",),
        (b"r={nonce},s=c2FsdA==,i=4096", b"v=AAAA"),
        (b"r={nonce},s=c2FsdA==,i=4096", b""),
    ],
)
def test_a_stranger_is_not_believed(answers: tuple[bytes, ...]) -> None:
    """A peer that changes our nonce, weakens the hash or cannot sign is no broker of ours."""
    left = list(answers)

    def answer(message: bytes) -> bytes:
        nonce = message.rpartition(b"r=")[2]
        return left.pop(0).replace(b"{nonce}", nonce)

    with pytest.raises(SourceUnavailable, match="does not know the password either"):
        Login("SCRAM-SHA-256", "a", "secret").perform(answer)
    assert not left


def test_settings_of_both_kinds_of_clients() -> None:
    """A login is read as Java clients write it and as librdkafka's do, and told to the latter."""
    settings = {"sasl.mechanism": "scram-sha-256", "sasl.jaas.config": f"{JAAS}password='p\"q';"}
    named = {"sasl.mechanism": "PLAIN", "sasl.username": "u", "sasl.password": "p"}

    assert read_login(settings) == Login("SCRAM-SHA-256", "a,b=c", 'p"q')
    assert read_login(named) == Login("PLAIN", "u", "p")
    assert for_librdkafka(settings | {"ssl.truststore.location": "/ca.pem"}) == {
        "sasl.mechanism": "scram-sha-256",
        "sasl.username": "a,b=c",
        "sasl.password": 'p"q',
        "ssl.ca.location": "/ca.pem",
    }
    assert for_librdkafka({"linger.ms": "5"}) == {"linger.ms": "5"}


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"sasl.mechanism": "GSSAPI"}, "GSSAPI is not spoken by the fetch transport, which knows"),
        ({}, "is not spoken"),
        ({"sasl.mechanism": "PLAIN", "sasl.username": "u"}, "needs username="),
    ],
)
def test_a_login_that_is_not_possible(settings: dict[str, str], words: str) -> None:
    """A mechanism that is not spoken, or not named, is one sentence."""
    with pytest.raises(BadOption, match=words):
        read_login(settings)

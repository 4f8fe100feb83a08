"""SCRAM and PLAIN by the RFCs' own examples, by kafka-python's client, and by what liars send."""

import base64
import time
from collections.abc import Callable

import pytest
from kafka.net.sasl.scram import ScramClient

from siltstone.broker.security.plain import PLAIN_HASH, PlainServer
from siltstone.broker.security.proven import ProvenPasswords
from siltstone.broker.security.scram import (
    MECHANISMS,
    SHA_256,
    AbsentUsers,
    Mechanism,
    SaltForm,
    SaslFailure,
    ScramServer,
    Verifier,
    form_of,
    make_verifier,
    salt_password,
    verifier_of,
)

SECRET = b"s" * 32
SALT = base64.b64decode("W22ZaJ0SNY7soEsUEjb6gQ==")
FIRST = b"n,,n=user,r=rOprNGfwEbeRWgbNEkqO"
SERVER_NONCE = "%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0"
NONCE = "rOprNGfwEbeRWgbNEkqO" + SERVER_NONCE
PROOF = "dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ="
FINAL = f"c=biws,r={NONCE},p={PROOF}".encode()


def users(
    mechanism: Mechanism = SHA_256, **passwords: str
) -> Callable[[str], tuple[Verifier, bool]]:
    """Return what finds verifiers."""
    found = {
        name: make_verifier(mechanism, password, salt=SALT) for name, password in passwords.items()
    }

    def find(name: str) -> tuple[Verifier, bool]:
        if name in found:
            return found[name], True
        return AbsentUsers(mechanism, SECRET).verifier_of(name), False

    return find


def test_the_conversation_of_rfc_7677() -> None:
    """Every byte of it."""
    server = ScramServer(SHA_256, users(user="pencil"), SERVER_NONCE)

    first = server.step(FIRST)
    assert not server.is_complete
    final = server.step(FINAL)

    assert first == f"r={NONCE},s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096".encode()
    assert final == b"v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4="
    assert (server.is_complete, server.user) == (True, "user")


@pytest.mark.parametrize("name", MECHANISMS)
def test_the_client_of_kafka_python_is_let_in(name: str) -> None:
    """And it takes our signature for the server's."""
    server = ScramServer(MECHANISMS[name], users(MECHANISMS[name], alice="secret"))
    client = ScramClient("alice", "secret", name)

    client.process_server_first_message(server.step(client.first_message()))
    client.process_server_final_message(server.step(client.final_message()))

    assert server.is_complete


@pytest.mark.parametrize(("user", "password"), [("alice", "wrong"), ("nobody", "secret")])
def test_a_wrong_password_and_a_user_that_is_not_there_fail_alike(user: str, password: str) -> None:
    """At the same moment, in the same words, after a salt of the same size."""
    server = ScramServer(SHA_256, users(alice="secret"))
    client = ScramClient(user, password, "SCRAM-SHA-256")
    first = server.step(client.first_message()).decode()
    client.process_server_first_message(first.encode())

    with pytest.raises(SaslFailure, match=r"^Authentication failed: Invalid user credentials$"):
        server.step(client.final_message())

    assert not server.is_complete
    assert first.endswith(",i=4096")


def test_a_user_that_is_not_there_keeps_its_salt() -> None:
    """Else asking twice would tell."""
    one, again, other = (AbsentUsers(SHA_256, SECRET).verifier_of(name).salt for name in "aab")

    assert one == again != other
    assert AbsentUsers(SHA_256, b"t" * 32).verifier_of("a").salt != one


@pytest.mark.parametrize(
    ("salt", "iterations"),
    [(b"1q2w3e4r5t6y7u8i9o0pasdfg", 8192), (bytes(range(200, 232)), 4096)],
    ids=["of kafka-configs", "random"],
)
def test_a_user_that_is_not_there_looks_like_those_that_are(salt: bytes, iterations: int) -> None:
    """Kafka's tools make salts of text; ours beside them would show which users do not exist."""
    form = form_of(verifier_of(SHA_256, b"salted", salt, iterations))

    users = AbsentUsers(SHA_256, SECRET, {form})
    absent = [users.verifier_of(f"user {number}") for number in range(200)]

    assert {form_of(each) for each in absent} == {form}
    assert len({each.salt for each in absent}) == 200
    assert {len(each.salt) for each in absent} <= {24, 25, 26, len(salt)}


def test_a_user_that_is_not_there_keeps_its_form_when_others_come_and_go() -> None:
    """Known names keep theirs, so that a change would tell; a later one may get any."""
    ours, theirs, rare = SaltForm(4096, 20), SaltForm(8192, 0), SaltForm(5000, 16)
    names = [f"{number}" for number in range(200)]
    users = AbsentUsers(SHA_256, SECRET)
    none = users.verifier_of("none")
    users = users.beside([theirs])
    first = [users.verifier_of(each) for each in names]
    users = users.beside([theirs, rare])
    second = [users.verifier_of(each) for each in names]
    users = users.beside([ours])
    late = {form_of(users.verifier_of(f"late {each}")) for each in range(10_000)}

    assert first == second == [users.verifier_of(each) for each in names]
    assert {form_of(each) for each in first} == {theirs}
    assert users.verifier_of("none") == none
    assert late == {ours, theirs, rare}


@pytest.mark.parametrize(
    ("token", "why"),
    [
        (b"p=tls-unique,,n=user,r=abc", "channel binding is not supported"),
        (b"y,,n=user,r=abc", "channel binding is not supported"),
        (b"n,,n=,r=abc", "the first message is malformed"),
        (b"n,,n=us=2Xer,r=abc", "the first message is malformed"),
        (b"n,,n=us,er,r=abc", "the first message is malformed"),
        (b"n,,n=user", "the first message is malformed"),
        (b"n,,n=user,r=a,b", "the first message is malformed"),
        (b"", "the first message is malformed"),
        (b"n,,m=x,n=user,r=abc", "a mandatory extension is not supported"),
        (b"n,,n=user,r=abc,tokenauth=true", "delegation tokens are not supported"),
        (b"\xff\xfe", "a token is not UTF-8"),
        (b"n" * 8193, "a token of 8193 bytes"),
    ],
)
def test_a_first_message_that_cannot_be_taken(token: bytes, why: str) -> None:
    """The client is told one sentence whatever it was; the log has the reason."""
    with pytest.raises(SaslFailure, match="due to invalid credentials") as caught:
        ScramServer(SHA_256, users(user="pencil")).step(token)

    assert caught.value.why == why


@pytest.mark.parametrize(
    ("token", "why"),
    [
        # CVE-2024-56128: the nonce must be the one that was sent, whole
        (FINAL.replace(NONCE.encode(), SERVER_NONCE.encode()), "the nonce is not the one"),
        (FINAL.replace(b"r=rO", b"r=xO"), "the nonce is not the one"),
        (FINAL.replace(b"c=biws", b"c=eSws"), "the channel binding is not that of the first"),
        (FINAL.replace(b"c=biws", b"c=biw"), "a value is not base64"),
        (FINAL.split(b",p=")[0], "the last message is malformed"),
        (FINAL.replace(b",p=", b",p=\n"), "the last message is malformed"),
        (f"c=biws,r={NONCE},p=".encode(), "Invalid user credentials"),
        (f"c=biws,r={NONCE},p=dHzb".encode(), "Invalid user credentials"),
        (f"c=biws,r={NONCE},p={PROOF[:-1]}AAA=".encode(), "a value is not base64"),
    ],
)
def test_a_last_message_that_cannot_be_taken(token: bytes, why: str) -> None:
    """Nobody gets in by a part of the nonce, another binding or a short proof."""
    server = ScramServer(SHA_256, users(user="pencil"), SERVER_NONCE)
    server.step(FIRST)

    with pytest.raises(SaslFailure) as caught:
        server.step(token)

    assert not server.is_complete
    assert any(part in caught.value.why for part in why.split("|"))


@pytest.mark.parametrize(
    "token",
    [
        b"n,,n=" + b"=2C" * 2700 + b"=2",
        b"n,a=" + b"a" * 8100,
        b"n,,n=a,r=b" + b",a=b" * 2000 + b",=",
        b"n,,n=a,r=" + b"!" * 8000 + b"\0",
    ],
)
def test_a_long_message_is_not_matched_again_and_again(token: bytes) -> None:
    """Each takes a fraction of a millisecond; Apache Kafka needs seconds for some of them."""
    began = time.thread_time()
    with pytest.raises(SaslFailure):
        ScramServer(SHA_256, users(user="pencil")).step(token)

    assert time.thread_time() - began < 0.25


def test_authorization_ids_and_names_with_commas() -> None:
    """An id must be the user's; ``=2C`` and ``=3D`` are a comma and an equals sign."""
    find = users(SHA_256, **{"a,b=c": "x"})
    server = ScramServer(SHA_256, find)
    server.step(b"n,a=a=2Cb=3Dc,n=a=2Cb=3Dc,r=abc")

    assert server.user == "a,b=c"
    with pytest.raises(SaslFailure, match="authorization id that is different"):
        ScramServer(SHA_256, find).step(b"n,a=root,n=a=2Cb=3Dc,r=abc")


def test_unknown_extensions_are_passed_over() -> None:
    """As by Kafka."""
    server = ScramServer(SHA_256, users(user="pencil"), SERVER_NONCE)

    assert server.step(FIRST + b",tokenauth=false,other=1").startswith(b"r=")


def test_nothing_comes_after_the_last_message() -> None:
    """The conversation is over."""
    server = ScramServer(SHA_256, users(user="pencil"), SERVER_NONCE)
    server.step(FIRST)
    server.step(FINAL)

    with pytest.raises(SaslFailure):
        server.step(FINAL)


def test_nonces_are_not_used_twice() -> None:
    """Each conversation has its own, long enough that nobody guesses it."""
    find = users(user="pencil")
    nonces = {ScramServer(SHA_256, find).step(FIRST).split(b",")[0] for _ in range(50)}

    assert len(nonces) == 50
    assert all(len(nonce) >= len("r=rOprNGfwEbeRWgbNEkqO") + 24 for nonce in nonces)


def test_a_verifier_of_a_salted_password_is_that_of_the_password() -> None:
    """Administrators send the salted password (KIP-554)."""
    salted = salt_password(SHA_256, "pencil", SALT, 4096)

    assert verifier_of(SHA_256, salted, SALT, 4096) == make_verifier(SHA_256, "pencil", salt=SALT)


def test_a_verifier_prints_no_secret() -> None:
    """A traceback with one in it says nothing."""
    assert repr(make_verifier(SHA_256, "pencil", salt=SALT)) == "Verifier(iterations=4096)"


def plain(token: bytes) -> PlainServer:
    """Return a conversation after its token."""
    find = users(PLAIN_HASH, alice="secret")
    server = PlainServer(find, ProvenPasswords())
    assert server.step(token) == b""
    return server


@pytest.mark.parametrize("token", [b"\0alice\0secret", b"alice\0alice\0secret"])
def test_plain_lets_in_who_has_the_password(token: bytes) -> None:
    """With or without an authorization id, which must be the name."""
    server = plain(token)

    assert (server.user, server.is_complete) == ("alice", True)


@pytest.mark.parametrize(
    ("token", "words"),
    [
        (b"\0alice\0wrong", "Authentication failed: Invalid username or password"),
        (b"\0nobody\0secret", "Authentication failed: Invalid username or password"),
        (b"\0alice\0secret\0", "Invalid SASL/PLAIN response: expected 3 tokens, got 4"),
        (b"alice\0secret", "Invalid SASL/PLAIN response: expected 3 tokens, got 2"),
        (b"\0\0secret", "Authentication failed: username not specified"),
        (b"\0alice\0", "Authentication failed: password not specified"),
        (b"root\0alice\0secret", "authorization id that is different from username"),
        (b"\0alice\0\xff", "Authentication failed: Invalid username or password"),
    ],
)
def test_plain_keeps_out_everybody_else(token: bytes, words: str) -> None:
    """In Kafka's words."""
    with pytest.raises(SaslFailure, match=words):
        plain(token)

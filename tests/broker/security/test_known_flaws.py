"""Flaws that Apache Kafka had once, by their numbers: each has a test that it does not exist here.

CVE-2023-25194, CVE-2024-31141 and CVE-2025-27817 to -27819 stand in test_values_as_code.py,
CVE-2023-34455 where snappy is read: tests/protocol/records/test_compression.py,
tests/broker/test_hostile_batches.py and tests/pipeline/reading/test_scan.py. CVE-2018-17196 and
CVE-2018-1288 stand in test_refused_beside.py, CVE-2024-27309 in test_acl_store.py,
CVE-2017-12610 in tests/broker/net/test_rights.py and test_login.py.
"""

import base64
import gc
import hashlib
import hmac
import struct
import tracemalloc
from functools import partial
from typing import Any

import pytest

from siltstone.broker.security.plain import PLAIN_HASH, PlainServer
from siltstone.broker.security.proven import ProvenPasswords
from siltstone.broker.security.scram import (
    SHA_256,
    AbsentUsers,
    Mechanism,
    SaslFailure,
    ScramServer,
    Verifier,
    make_verifier,
)
from tests.support.running import Running, a_broker

PLAIN_MODULE = "org.apache.kafka.common.security.plain.PlainLoginModule"
SALT = b"0123456789abcdef"
HUGE = b"\xff\xff\xff\xff\x07"
"""2^31 - 1 as an unsigned varint: a length that nothing of the kind follows."""


def find(mechanism: Mechanism, user: str) -> tuple[Verifier, bool]:
    """Return the verifier of alice, or of a user that does not exist."""
    if user == "alice":
        return make_verifier(mechanism, "secret", salt=SALT), True
    return AbsentUsers(mechanism, b"s" * 32).verifier_of(user), False


home = a_broker(
    "listeners=LAN://127.0.0.1:0",
    "listener.security.protocol.map=LAN:SASL_PLAINTEXT",
    "sasl.enabled.mechanisms=PLAIN",
    f"listener.name.lan.plain.sasl.jaas.config={PLAIN_MODULE} required user_a=b;",
)


@pytest.mark.parametrize(
    "body",
    [
        struct.pack(">hhih", 18, 3, 1, -1) + b"\0" + HUGE,
        struct.pack(">hhih", 18, 3, 1, -1) + HUGE + b"\0",
        struct.pack(">hhih", 18, 3, 1, 32767),
        struct.pack(">hhih", 17, 1, 1, -1) + struct.pack(">h", 32767),
        struct.pack(">hhih", 3, 0, 1, -1) + struct.pack(">i", 2**31 - 1),
        struct.pack(">hhih", 36, 2, 1, -1) + b"\0" + HUGE,
    ],
    ids=["string", "tags", "client-id", "mechanism", "array", "token"],
)
async def test_cve_2022_34917_a_length_is_no_reason_to_set_memory_aside(
    home: Running, body: bytes
) -> None:
    """A stranger that says that much is coming is closed, and costs what it sent."""
    stranger = await home.connect()
    gc.collect()
    tracemalloc.start()
    try:
        await stranger.send(len(body).to_bytes(4, "big") + body)
        assert await stranger.is_closed()
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()

    assert peak < 1 << 20
    assert await (await home.connect()).ask(struct.pack(">hhih", 18, 0, 7, -1))


@pytest.mark.parametrize("user", ["alice", "nobody"])
def test_cve_2021_38153_a_password_is_compared_in_constant_time(
    user: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By the one function that takes as long for every byte, and only on keys derived from it."""
    compared: list[tuple[Any, Any]] = []
    real = hmac.compare_digest

    def compare(left: Any, right: Any) -> bool:
        compared.append((left, right))
        return real(left, right)

    monkeypatch.setattr(hmac, "compare_digest", compare)
    with pytest.raises(SaslFailure):
        PlainServer(lambda name: find(PLAIN_HASH, name), ProvenPasswords()).step(
            f"\0{user}\0wrong".encode()
        )

    _, (tried, stored) = compared  # the first is of a keyed digest
    assert len(tried) == len(stored) == PLAIN_HASH.size
    assert b"wrong" not in tried


def test_cve_2021_38153_who_is_not_there_costs_as_much(monkeypatch: pytest.MonkeyPatch) -> None:
    """The same derivation with as many rounds, so that time does not tell which users exist."""
    rounds: list[int] = []
    real = hashlib.pbkdf2_hmac

    def derive(name: str, password: bytes, salt: bytes, count: int, *rest: Any) -> bytes:
        rounds.append(count)
        return real(name, password, salt, count, *rest)

    verifier = make_verifier(PLAIN_HASH, "secret", salt=SALT)
    absent = AbsentUsers(PLAIN_HASH, b"s" * 32).verifier_of("nobody")
    monkeypatch.setattr(hashlib, "pbkdf2_hmac", derive)
    for found in ((verifier, True), (absent, False)):
        with pytest.raises(SaslFailure):
            PlainServer(
                lambda _, each=found: each,  # type: ignore[misc]
                ProvenPasswords(),
            ).step(b"\0x\0wrong")

    assert len(rounds) == 2
    assert len(set(rounds)) == 1


@pytest.mark.parametrize("cut", ["client", "server", "longer", "other"])
def test_cve_2024_56128_the_last_message_must_have_the_whole_nonce(cut: str) -> None:
    """A proof that is right for another nonce than the broker's lets nobody in.

    The proof is made of the message that is sent, so that only the nonce is wrong.
    """
    server = ScramServer(SHA_256, partial(find, SHA_256))
    first = server.step(b"n,,n=alice,r=abcdefgh").decode()
    nonce = first.split(",")[0].removeprefix("r=")
    sent = {
        "client": "abcdefgh",
        "server": nonce.removeprefix("abcdefgh"),
        "longer": f"{nonce}x",
        "other": "abcdefgh" + "x" * (len(nonce) - 8),
    }[cut]
    with pytest.raises(SaslFailure) as failed:
        server.step(_final(first, sent))

    assert failed.value.why == "the nonce is not the one that was sent"
    again = ScramServer(SHA_256, partial(find, SHA_256))
    first = again.step(b"n,,n=alice,r=abcdefgh").decode()
    again.step(_final(first, first.split(",")[0].removeprefix("r=")))
    assert again.is_complete


def _final(first: str, nonce: str) -> bytes:
    """Return the last message of a client that knows the password, with a nonce."""
    bare = f"c=biws,r={nonce}"
    rounds = int(first.rpartition("i=")[2])
    salted = hashlib.pbkdf2_hmac("sha256", b"secret", SALT, rounds)
    client_key = hmac.digest(salted, b"Client Key", "sha256")
    message = f"n=alice,r=abcdefgh,{first},{bare}".encode()
    signature = hmac.digest(hashlib.sha256(client_key).digest(), message, "sha256")
    proof = bytes(a ^ b for a, b in zip(client_key, signature, strict=True))
    return f"{bare},p={base64.b64encode(proof).decode()}".encode()

"""The messages of OAUTHBEARER: what a client may send, and what it is answered."""

import json

import pytest

from siltstone.broker.security.oauth.conversation import MAX_MESSAGE_BYTES, OAuthBearerServer
from siltstone.broker.security.oauth.tokens import TokenChecker
from siltstone.broker.security.scram import SaslFailure
from tests.support.clock import FakeClock
from tests.support.tokens import claims, message, settings, unsigned

CLOCK = FakeClock()
GOOD = unsigned(claims(CLOCK.now_ms()))


def server() -> OAuthBearerServer:
    """Return a conversation that takes unsigned tokens: here the messages count."""
    return OAuthBearerServer(TokenChecker(settings(is_unsecured=True), CLOCK, None))


@pytest.mark.parametrize(
    "sent",
    [
        message(GOOD),
        message(GOOD, "alice"),
        message(GOOD, extra="host=broker.example\x01port=9092\x01"),
        message(GOOD).replace(b"Bearer ", b"bEARER  "),
    ],
)
def test_a_good_token_is_answered_with_nothing(sent: bytes) -> None:
    """Whatever else the client says of itself."""
    conversation = server()

    assert conversation.step(sent) == b""
    assert (conversation.user, conversation.is_complete) == ("alice", True)
    assert conversation.lifetime_ms == 600_000
    with pytest.raises(SaslFailure):
        conversation.step(sent)


def test_a_bad_token_is_answered_with_json_and_then_refused() -> None:
    """RFC 7628, section 3.2.2: in the words of Kafka; a good token does not follow."""
    for second in (b"\x01", message(GOOD)):
        conversation = server()
        answer = conversation.step(message(unsigned(claims(CLOCK.now_ms(), exp=1))))

        assert json.loads(answer) == {"status": "invalid_token"}
        assert (conversation.is_complete, conversation.user) == (False, "")
        assert conversation.refusal == "the token has expired"
        with pytest.raises(SaslFailure) as caught:
            conversation.step(second)
        assert str(caught.value) == answer.decode()
        assert not conversation.is_complete


def test_nobody_asks_for_the_rights_of_another() -> None:
    """An authorization id that is not the token's user."""
    with pytest.raises(SaslFailure, match="authorization id"):
        server().step(message(GOOD, "admin"))


@pytest.mark.parametrize(
    "sent",
    [
        b"",
        b"\x01",
        b"\x01\x01\x01",
        b"n,,",
        b"n,,\x01\x01",
        b"y,,\x01auth=Bearer a.b.c\x01\x01",
        b"p=tls-unique,,\x01auth=Bearer a.b.c\x01\x01",
        b"n,a=,\x01auth=Bearer a.b.c\x01\x01",
        b"n,a=b,c,\x01auth=Bearer a.b.c\x01\x01",
        b"n,,\x01auth=Basic a.b.c\x01\x01",
        b"n,,\x01auth=Bearer\x01\x01",
        b"n,,\x01auth=Bearer a b\x01\x01",
        b"n,,\x01auth=Bearer a.b.c\x01",
        b"n,,\x01auth=Bearer a.b.c\x01\x01\x01",
        b"n,,\x01auth=Bearer a.b.c\x01auth=Bearer a.b.c\x01\x01",
        b"n,,\x01auth=Bearer a.b.c\x01k3y=v\x01\x01",
        b"n,,\x01auth=Bearer a.b.c\x01key=\x01\x01",
        b"n,,\x01auth=Bearer \xff\x01\x01",
        b"n,,\x01host=x\x01\x01",
    ],
)
def test_a_malformed_message_is_refused_at_once(sent: bytes) -> None:
    """In words that tell nothing of it."""
    conversation = server()
    with pytest.raises(SaslFailure) as caught:
        conversation.step(sent)

    assert str(caught.value) == (
        "Authentication failed during authentication due to invalid credentials with SASL "
        "mechanism OAUTHBEARER"
    )
    assert not conversation.is_complete


def test_a_huge_token_is_not_looked_at() -> None:
    """The most is 64 KiB, whatever sasl.server.max.receive.size lets pass."""
    long = message(f"{GOOD}{'A' * MAX_MESSAGE_BYTES}")
    with pytest.raises(SaslFailure) as caught:
        server().step(long)

    assert caught.value.why == f"a message of {len(long)} bytes"

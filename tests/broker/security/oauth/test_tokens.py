"""Which tokens are good, and which are not, by what they say and by what has signed them."""

import hashlib
import hmac
import json
import warnings
from collections.abc import Callable
from typing import Any

import jwt
import pytest
from cryptography.hazmat.primitives import serialization

from siltstone.broker.security.oauth.keys import ALGORITHMS, Keys
from siltstone.broker.security.oauth.tokens import MAX_LIFETIME_MS, TokenChecker, TokenFault
from tests.support.clock import FakeClock
from tests.support.tokens import Issuer, claims, encode, make_key, row, settings, unsigned

CLOCK = FakeClock()
NOW_MS = CLOCK.now_ms()
NOW = NOW_MS // 1000


@pytest.fixture(scope="module")
def issuer() -> Issuer:
    """Keys of the three kinds."""
    return Issuer("ES256", "RS256", "EdDSA")


def checker(issuer: Issuer, **changes: Any) -> TokenChecker:
    """Return what checks tokens of these keys."""
    given = settings(**changes)
    keys = Keys(given, CLOCK, lambda: json.dumps({"keys": issuer.rows()}).encode())
    keys.load()
    return TokenChecker(given, CLOCK, keys)


def fault_of(issuer: Issuer, token: str, **changes: Any) -> str:
    """Return why a token is not good; nothing of it is said."""
    with pytest.raises(TokenFault) as caught:
        checker(issuer, **changes).check(token)
    assert not any(len(part) > 8 and part in str(caught.value) for part in token.split("."))
    return str(caught.value)


def public_pem(issuer: Issuer, name: str) -> bytes:
    """Return a public key as text, which everybody may know."""
    pem: bytes = (
        issuer.keys[name]
        .public_key()
        .public_bytes(serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo)
    )
    return pem


@pytest.mark.parametrize(
    "algorithm", ["ES256", "ES384", "ES512", "RS256", "RS384", "PS256", "PS512", "EdDSA"]
)
def test_a_signed_token_proves_its_subject(algorithm: str) -> None:
    """By each kind of algorithm, until it expires."""
    own = Issuer(algorithm)

    proven = checker(own).check(own.sign(claims(NOW_MS), algorithm))

    assert proven == ("alice", 600_000)


def test_no_algorithm_with_a_shared_secret_is_taken() -> None:
    """A client that can check such a signature can make one."""
    assert not [name for name in ALGORITHMS if name.startswith("HS") or name.lower() == "none"]


@pytest.mark.parametrize("name", ["none", "None", "NONE", ""])
def test_a_token_without_a_signature_is_none(issuer: Issuer, name: str) -> None:
    """However the word is written, and with a signature behind it, too."""
    token = unsigned(claims(NOW_MS), name)

    assert fault_of(issuer, token) == "the token has an algorithm that is not taken"
    assert fault_of(issuer, f"{token}AAAA") == "the token has an algorithm that is not taken"


@pytest.mark.parametrize("shape", ["pem", "jwk", "modulus"])
def test_a_public_key_is_no_secret(issuer: Issuer, shape: str) -> None:
    """HMAC with the public key, which everybody knows, is not taken for a signature by it."""
    (own,) = [each for each in issuer.rows() if each["kid"] == "RS256"]
    secrets = {
        "pem": public_pem(issuer, "RS256"),
        "jwk": json.dumps(own).encode(),
        "modulus": own["n"].encode(),
    }
    for name in ("HS256", "RS256"):
        head = f"{encode({'alg': name, 'kid': 'RS256'})}.{encode(claims(NOW_MS))}"
        tag = encode(hmac.new(secrets[shape], head.encode(), hashlib.sha256).digest())

        wanted = {"HS256": "an algorithm that is not taken", "RS256": "signature is not right"}
        assert wanted[name] in fault_of(issuer, f"{head}.{tag}")


def test_a_key_is_good_for_its_own_algorithms(issuer: Issuer) -> None:
    """A token that names the key of another kind, or another algorithm of the key, fits none."""
    for algorithm, kid in (("ES256", "RS256"), ("EdDSA", "ES256"), ("RS256", "ES256")):
        token = issuer.sign(claims(NOW_MS), algorithm, kid=kid)
        assert fault_of(issuer, token) == "no key fits the token"
    token = jwt.encode(claims(NOW_MS), issuer.keys["RS256"], "PS256", headers={"kid": "RS256"})
    assert fault_of(issuer, token) == "no key fits the token"


def test_an_unknown_key_fits_nothing(issuer: Issuer) -> None:
    """By its name; and by its signature under a name that is known."""
    stranger = Issuer("ES256")

    named = stranger.sign(claims(NOW_MS), kid="stranger")
    assert fault_of(issuer, named) == "no key fits the token"
    assert fault_of(issuer, stranger.sign(claims(NOW_MS))) == "the signature is not right"


def test_a_token_without_a_name_of_its_key(issuer: Issuer) -> None:
    """Is taken where one key alone can have signed it."""
    token = issuer.sign(claims(NOW_MS), kid=None)
    two = Issuer("ES256")
    rows = [*two.rows(), row(make_key("ES256"), "ES256", "other")]
    given = settings()
    keys = Keys(given, CLOCK, lambda: json.dumps({"keys": rows}).encode())
    keys.load()

    assert checker(issuer).check(token).subject == "alice"
    with pytest.raises(TokenFault, match="no key fits the token"):
        TokenChecker(given, CLOCK, keys).check(two.sign(claims(NOW_MS), kid=None))


def test_keys_and_addresses_in_a_token_are_passed_over(issuer: Issuer) -> None:
    """A stranger signs with his own key and brings it along: nothing is read or fetched."""
    stranger = Issuer("ES256")
    own: dict[str, Any] = {
        "jwk": stranger.rows()[0],
        "jku": "https://169.254.169.254/keys",
        "x5u": "file:///etc/passwd",
        "x5c": ["AAAA"],
    }

    token = stranger.sign(claims(NOW_MS), **own)

    assert fault_of(issuer, token) == "the signature is not right"


def test_a_changed_token_is_not_good(issuer: Issuer) -> None:
    """Another subject under a good signature, and each part cut."""
    head, payload, tag = issuer.sign(claims(NOW_MS)).split(".")
    other = encode(claims(NOW_MS, "admin"))

    for token in (f"{head}.{other}.{tag}", f"{head}.{payload}.{tag[:-8]}", f"{head}.{payload}."):
        assert fault_of(issuer, token) == "the signature is not right"


@pytest.mark.parametrize(
    ("change", "fault"),
    [
        ({"exp": NOW - 31}, "the token has expired"),
        ({"exp": None}, "the token has no date exp"),
        ({"exp": "soon"}, "the token has no date exp"),
        ({"exp": True}, "the token has no date exp"),
        ({"exp": float("nan")}, "the token is malformed"),  # no JSON
        ({"exp": 1e300}, "the token has no date exp"),
        ({"exp": 10**400}, "the token has no date exp"),
        ({"exp": -1}, "the token has no date exp"),
        ({"nbf": NOW + 31}, "the token is not valid yet, by its nbf"),
        ({"nbf": "later"}, "the token has no date nbf"),
        ({"iat": NOW + 31}, "the token is not valid yet, by its iat"),
        ({"iat": None}, "the token has no date iat"),
        ({"iss": "https://other.example"}, "the token is from another issuer"),
        ({"iss": None}, "the token is from another issuer"),
        ({"iss": ["https://issuer.example"]}, "the token is from another issuer"),
        ({"aud": "other"}, "the token is for another audience"),
        ({"aud": ["other", "kafkas"]}, "the token is for another audience"),
        ({"aud": None}, "the token is for another audience"),
        ({"aud": {"kafka": 1}}, "the token has no aud that can be read"),
        ({"scope": 7}, "the token has no scope that can be read"),
        ({"sub": None}, "the token names no user"),
        ({"sub": " "}, "the token names no user"),
        ({"sub": 7}, "the token names no user"),
        ({"sub": "eve\nlogin ok"}, "the token names a user with characters that no name has"),
        ({"sub": "eve\x9b2K"}, "the token names a user with characters that no name has"),
        ({"sub": "\ud800"}, "the token names a user with characters that no name has"),
    ],
)
def test_what_a_token_says_must_hold(issuer: Issuer, change: dict[str, Any], fault: str) -> None:
    """Each claim by itself, signed by a key that is known."""
    head = encode({"alg": "ES256", "kid": "ES256"})
    body = encode(claims(NOW_MS, **change))
    algorithm = jwt.get_algorithm_by_name("ES256")
    tag = encode(algorithm.sign(f"{head}.{body}".encode(), issuer.keys["ES256"]))

    assert fault_of(issuer, f"{head}.{body}.{tag}") == fault


@pytest.mark.parametrize(
    ("change", "lifetime_ms"),
    [
        ({"exp": NOW - 29}, 1),
        ({"nbf": NOW + 29, "iat": NOW + 29}, 600_000),
        ({"aud": ["other", "kafka"]}, 600_000),
        ({"exp": NOW + 0.5}, 500),
        ({"exp": 2**52}, MAX_LIFETIME_MS),
        ({"scope": "produce consume"}, 600_000),
    ],
)
def test_clocks_may_differ_a_little(
    issuer: Issuer, change: dict[str, Any], lifetime_ms: int
) -> None:
    """By the skew; a login by a token never counts for longer than the token, or for ever."""
    token = issuer.sign(claims(NOW_MS, **change))

    assert checker(issuer).check(token).lifetime_ms == lifetime_ms


@pytest.mark.parametrize("part", ["header", "claims", "within"])
def test_a_name_that_stands_twice_is_no_token(issuer: Issuer, part: str) -> None:
    """The signer may have seen the one, the reader sees the other: Kafka's jose4j refuses it."""
    said = json.dumps(claims(NOW_MS, role={"a": 1}))
    head = json.dumps({"alg": "ES256", "kid": "ES256"})
    if part == "header":
        head = head.replace("{", '{"alg": "ES256", ')
    elif part == "claims":
        said = said.replace("{", '{"sub": "admin", ', 1)
    else:
        said = said.replace('"a": 1', '"a": 1, "a": 2')
    signed = f"{encode(head.encode())}.{encode(said.encode())}"
    algorithm = jwt.get_algorithm_by_name("ES256")
    tag = encode(algorithm.sign(signed.encode(), issuer.keys["ES256"]))

    assert fault_of(issuer, f"{signed}.{tag}") == "the token is malformed"


def test_another_claim_names_the_user(issuer: Issuer) -> None:
    """By sasl.oauthbearer.sub.claim.name."""
    token = issuer.sign(claims(NOW_MS, client="bob"))

    assert checker(issuer, subject_claim="client").check(token).subject == "bob"


@pytest.mark.parametrize(
    "make",
    [
        lambda good: good[:-1] + "=",
        lambda good: good + ".",
        lambda good: good.replace(".", "", 1),
        lambda good: good.replace(".", "..", 1),
        lambda good: "e30." + good.partition(".")[2],
        lambda good: encode([]) + "." + good.partition(".")[2],
        lambda good: encode(b"{" * 60_000) + "." + good.partition(".")[2],
        lambda good: encode(b"[" * 60_000) + "." + good.partition(".")[2],
        lambda good: encode({"alg": ["ES256"]}) + "." + good.partition(".")[2],
        lambda good: encode({"alg": "ES256", "kid": 7}) + "." + good.partition(".")[2],
        lambda good: encode({"alg": "ES256", "crit": ["x"]}) + "." + good.partition(".")[2],
        lambda good: encode({"alg": "ES256", "b64": False}) + "." + good.partition(".")[2],
        lambda good: "A" + "." + good.partition(".")[2],
        lambda _: "",
        lambda _: "..",
    ],
)
def test_what_is_no_token(issuer: Issuer, make: Callable[[str], str]) -> None:
    """A fault of the token, and no other exception."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(TokenFault):
            checker(issuer).check(make(issuer.sign(claims(NOW_MS))))


def test_unsigned_tokens_where_they_are_wanted(issuer: Issuer) -> None:
    """Only these: their dates are looked at, and a signed one is refused."""
    given = settings(
        url="", is_unsecured=True, audiences=(), issuer=None, skew_ms=0, subject_claim="sub"
    )
    open_to_all = TokenChecker(given, CLOCK, None)

    assert open_to_all.check(unsigned({"sub": "bob", "exp": NOW + 1})) == ("bob", 1000)
    for token in (
        unsigned({"sub": "bob", "exp": NOW}),
        unsigned({"sub": "bob"}),
        issuer.sign(claims(NOW_MS)),
        unsigned(claims(NOW_MS)) + "AAAA",
    ):
        with pytest.raises(TokenFault):
            open_to_all.check(token)

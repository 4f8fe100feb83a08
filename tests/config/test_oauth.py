"""Settings of tokens: of all listeners, of one, and of its mechanism."""

from functools import partial

import pytest

from siltstone.config.load import load
from siltstone.config.oauth import UNSECURED, VALIDATOR, OAuthSettings
from tests.support import start_faults

MODULE = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule"
PREFIX = "listener.name.lan.oauthbearer."
SKEW = "unsecuredValidatorAllowableClockSkewMs"
HANDLER = f"{PREFIX}sasl.server.callback.handler.class"
URL = "sasl.oauthbearer.jwks.endpoint.url"
ANY = (
    "sasl.oauthbearer.allow.unverified.audience=true",
    "sasl.oauthbearer.allow.unverified.issuer=true",
)
LAN = (
    "listeners=LAN://127.0.0.1:9092",
    "listener.security.protocol.map=LAN:SASL_PLAINTEXT",
    "sasl.enabled.mechanisms=OAUTHBEARER",
)
KEYS = f"{URL}=file:///etc/keys.json"


def settings(*sets: str) -> OAuthSettings:
    """Return how the listener checks tokens."""
    server = load(None, {}, [*LAN, *ANY, *sets]).server()
    (listener,) = server.bound_listeners
    sasl = server.sasl_of(listener)
    assert sasl is not None
    assert sasl.oauth is not None
    return sasl.oauth


faults_of = partial(start_faults.faults_of, *LAN, *ANY)


def test_kafkas_names_are_taken() -> None:
    """With Kafka's defaults, and its own handler and module."""
    given = settings(
        KEYS,
        "sasl.oauthbearer.expected.audience=kafka,other",
        "sasl.oauthbearer.expected.issuer=https://issuer.example",
        f"{HANDLER}={VALIDATOR}",
        f'{PREFIX}sasl.jaas.config={MODULE} required unsecuredLoginStringClaim_sub="broker"'
        ' clientId=hush clientSecret=hush ssl.truststore.location="/ca.pem";',
    )

    assert given.url == "file:///etc/keys.json"
    assert (given.audiences, given.issuer) == (("kafka", "other"), "https://issuer.example")
    assert (given.skew_ms, given.subject_claim, given.scope_claim) == (30_000, "sub", "scope")
    assert (given.refresh_ms, given.backoff_ms, given.max_backoff_ms) == (3_600_000, 100, 10_000)
    assert (given.authorities, given.is_unsecured) == ("/ca.pem", False)


def test_the_nearest_value_counts() -> None:
    """A mechanism's before the listener's before the broker's."""
    given = settings(
        KEYS,
        "sasl.oauthbearer.clock.skew.seconds=1",
        "sasl.oauthbearer.sub.claim.name=a",
        "listener.name.lan.sasl.oauthbearer.clock.skew.seconds=2",
        "listener.name.lan.sasl.oauthbearer.sub.claim.name=b",
        f"{PREFIX}sasl.oauthbearer.clock.skew.seconds=3",
        f"{PREFIX}{URL}=file:///own.json",
    )

    assert (given.skew_ms, given.subject_claim, given.url) == (3000, "b", "file:///own.json")


def test_unsigned_tokens_are_an_explicit_choice_on_loopback() -> None:
    """By Kafka's class for it, with the options that it obeys."""
    option = f"unsecuredValidatorPrincipalClaimName=name {SKEW}=5"
    given = settings(
        f"{HANDLER}={UNSECURED}", f"{PREFIX}sasl.jaas.config={MODULE} required {option};"
    )

    assert (given.is_unsecured, given.subject_claim, given.skew_ms) == (True, "name", 5)


@pytest.mark.parametrize("host", ["0.0.0.0", "", "192.0.2.1", "127.example.com", "localhost.com"])
def test_unsigned_tokens_stop_the_start_elsewhere(host: str) -> None:
    """A client that reached it could take any name."""
    faults = faults_of(
        f"listeners=LAN://{host}:9092",
        "advertised.listeners=LAN://192.0.2.1:9092",
        f"{HANDLER}={UNSECURED}",
    )

    assert "takes tokens without a signature, and is not on loopback" in " ".join(faults)


@pytest.mark.parametrize(
    "url",
    [
        "http://127.0.0.1/keys",
        "ftp://issuer.example/keys",
        "jndi:ldap://issuer.example/keys",
        "data:application/json,{}",
        "https:///keys",
        "https://user:word@issuer.example/keys",
        "https://issuer.example/keys#a",
        "https://issuer.example:0/keys",
        "https://issuer.example:port/keys",
        "https://issuer.example/a b",
        "https://[::1/keys",
        "file://other.example/keys.json",
        "file:keys.json",
        "file:///keys.json?a",
        "/etc/keys.json",
        "keys.json",
    ],
)
def test_keys_come_from_a_file_or_an_https_url_alone(url: str) -> None:
    """Even when the URL is allowed."""
    (fault,) = faults_of(f"{URL}={url}", f"sasl.oauthbearer.allowed.urls={url}")

    assert f"a {URL} that is neither file:///PATH nor https://HOST/PATH" in fault


def test_any_audience_and_any_issuer_are_an_explicit_choice() -> None:
    """As since Apache Kafka 4.4: without it a token for another service would be a login."""
    asked = partial(start_faults.faults_of, *LAN, KEYS)
    audience, issuer = (
        f"since sasl.oauthbearer.expected.{claim} is not set; set it, or "
        f"sasl.oauthbearer.allow.unverified.{claim}=true"
        for claim in ("audience", "issuer")
    )
    both = asked()

    assert audience in both[0]
    assert issuer in both[1]
    for sets, left in (
        (("sasl.oauthbearer.expected.audience=kafka",), issuer),
        ((ANY[0],), issuer),
        ((f"{PREFIX}sasl.oauthbearer.allow.unverified.issuer=true",), audience),
        (("sasl.oauthbearer.expected.issuer=https://issuer.example",), audience),
    ):
        (fault,) = asked(*sets)
        assert left in fault
    load(None, {}, [*LAN, KEYS, *ANY])
    load(None, {}, [*LAN, f"{HANDLER}={UNSECURED}"])


def test_an_https_url_must_be_allowed() -> None:
    """Letter by letter."""
    url = "https://issuer.example/keys"
    (fault,) = faults_of(f"{URL}={url}", f"sasl.oauthbearer.allowed.urls={url}/,{url}s")

    assert f"a {URL} that sasl.oauthbearer.allowed.urls does not name" in fault
    assert settings(f"{URL}={url}", f"sasl.oauthbearer.allowed.urls={url}").url == url


@pytest.mark.parametrize(
    ("sets", "fault"),
    [
        ((), f"takes tokens, but {URL} does not say where the keys are"),
        ((KEYS, f"{HANDLER}={UNSECURED}"), "has keys and takes tokens without a signature"),
        ((KEYS, f"{HANDLER}=com.example.Hush"), "no other class is known here"),
        (
            (KEYS, f"listener.name.lan.plain.sasl.server.callback.handler.class={VALIDATOR}"),
            "promises a login that is not asked for",
        ),
        (
            (KEYS, f"sasl.server.callback.handler.class={VALIDATOR}"),
            "promises a login that is not asked for",
        ),
        (
            (KEYS, f"listener.name.lan.plain.{URL}=file:///a"),
            "promises a login that is not asked for",
        ),
        ((KEYS, f"{PREFIX}sasl.oauthbearer.allowed.urls=https://a/"), "is not a setting"),
        (
            (KEYS, f"{PREFIX}sasl.jaas.config=com.example.Hush required;"),
            f"must be {MODULE}, the only module of OAUTHBEARER",
        ),
        (
            (KEYS, f"{PREFIX}sasl.jaas.config={MODULE} required unsecuredValidatorHush=hush;"),
            "must be a module with the options ssl.truststore.location",
        ),
        (
            (KEYS, f"{PREFIX}sasl.jaas.config={MODULE} required ssl.truststore.type=JKS;"),
            "must be a module whose ssl.truststore.type is PEM",
        ),
        (
            (f"{HANDLER}={UNSECURED}", f"{PREFIX}sasl.jaas.config={MODULE} required {SKEW}=hush;"),
            f"must be a module whose {SKEW} is a number",
        ),
        ((KEYS, "sasl.oauthbearer.clock.skew.seconds=-1"), "must be at least 0"),
        ((KEYS, f"{PREFIX}sasl.oauthbearer.sub.claim.name="), "must be the name of a claim"),
        (
            (KEYS, "sasl.oauthbearer.jwt.validator.class=com.example.Hush"),
            "promises a login that is not asked for",
        ),
        (
            (KEYS, "sasl.enabled.mechanisms=PLAIN"),
            f"{URL} promises that tokens are checked, but no listener takes any",
        ),
    ],
)
def test_what_cannot_be_obeyed_stops_the_start(sets: tuple[str, ...], fault: str) -> None:
    """In a sentence that quotes no secret."""
    faults = faults_of(*sets)

    assert any(fault in each for each in faults), faults
    assert not any("hush" in each.lower().replace("hush promises", "") for each in faults)

"""Stock clients log in by tokens (OAUTHBEARER) over TLS, and are told when they may not."""

import asyncio
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import confluent_kafka
import pytest
from aiokafka.abc import AbstractTokenProvider as AioProvider
from aiokafka.errors import KafkaError as AioKafkaError
from kafka.errors import KafkaError
from kafka.net.sasl.oauth import AbstractTokenProvider

from tests.support.authority import Authority
from tests.support.clients.round_trip import (
    LEAVES_SOCKETS,
    by_aiokafka,
    by_confluent_kafka,
    by_kafka_python,
)
from tests.support.kafka import KafkaJars, KafkaTools
from tests.support.oracle import AT_ONCE
from tests.support.running import Running, running
from tests.support.tls_clients import trusting
from tests.support.tokens import AUDIENCE, ISSUER, Issuer, claims

LIFE_SECONDS = 600
PACKAGE = "org.apache.kafka.common.security.oauthbearer"

pytestmark = [pytest.mark.slow, *LEAVES_SOCKETS]


@pytest.fixture(scope="module")
def issuer() -> Issuer:
    """The signer of tokens."""
    return Issuer()


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    """The signer of the broker's certificate."""
    return Authority(tmp_path_factory.mktemp("authority"))


@pytest.fixture
async def home(tmp_path: Path, issuer: Issuer, authority: Authority) -> AsyncIterator[Running]:
    """A broker whose only listener takes tokens."""
    async with running(
        tmp_path / "data",
        "listeners=SASL_SSL://127.0.0.1:0",
        f"ssl.keystore.location={authority.issue('server').store}",
        "sasl.enabled.mechanisms=OAUTHBEARER",
        *(f"{name}={value}" for name, value in AT_ONCE.items()),
        f"sasl.oauthbearer.jwks.endpoint.url={issuer.write(tmp_path / 'keys.json')}",
        f"sasl.oauthbearer.expected.audience={AUDIENCE}",
        f"sasl.oauthbearer.expected.issuer={ISSUER}",
    ) as started:
        yield started


def address(home: Running) -> str:
    """Where clients connect."""
    return f"127.0.0.1:{home.listeners[0].port}"


def token(issuer: Issuer, **changes: Any) -> str:
    """Return a token of now."""
    now_ms = time.time_ns() // 1_000_000
    return issuer.sign(claims(now_ms, exp=now_ms // 1000 + LIFE_SECONDS, **changes))


class Provider(AbstractTokenProvider):  # type: ignore[misc]  # kafka-python has no types
    """Gives kafka-python a token."""

    def __init__(self, text: str) -> None:
        self._text = text

    def token(self) -> str:
        """Return it."""
        return self._text


class OtherProvider(AioProvider):  # type: ignore[misc]  # nor has aiokafka
    """Gives aiokafka a token."""

    def __init__(self, text: str) -> None:
        self._text = text

    async def token(self) -> str:
        """Return it."""
        return self._text


def login(
    home: Running, authority: Authority, provider: AbstractTokenProvider | AioProvider
) -> dict[str, Any]:
    """Return the settings of kafka-python or aiokafka."""
    return {
        "bootstrap_servers": address(home),
        "security_protocol": "SASL_SSL",
        "ssl_context": trusting(authority),
        "sasl_mechanism": "OAUTHBEARER",
        "sasl_oauth_token_provider": provider,
    }


def librdkafka(home: Running, authority: Authority, text: str) -> dict[str, Any]:
    """Return the settings of librdkafka."""
    return {
        "bootstrap.servers": address(home),
        "security.protocol": "sasl_ssl",
        "ssl.ca.location": str(authority.certificate),
        "sasl.mechanism": "OAUTHBEARER",
        "oauth_cb": lambda _: (text, time.time() + LIFE_SECONDS, "alice", {}),
    }


async def test_clients_log_in_by_tokens(
    home: Running, issuer: Issuer, authority: Authority
) -> None:
    """And produce and consume as they do without."""
    good = token(issuer)

    assert (
        await asyncio.to_thread(by_kafka_python, login(home, authority, Provider(good)))
        == b"kafka-python"
    )
    assert await asyncio.to_thread(by_confluent_kafka, librdkafka(home, authority, good))
    assert await by_aiokafka(login(home, authority, OtherProvider(good)))
    logins = home.listeners[0].logins
    assert logins is not None
    assert (logins.failed, logins.succeeded > 3) == (0, True)


async def test_clients_are_told_that_a_token_is_not_good(
    home: Running, issuer: Issuer, authority: Authority
) -> None:
    """By an exception of theirs, and without a storm of new tries."""
    bad = token(issuer, aud="elsewhere")

    with pytest.raises(KafkaError):
        await asyncio.to_thread(by_kafka_python, login(home, authority, Provider(bad)))
    with pytest.raises(confluent_kafka.KafkaException, match="invalid_token"):
        await asyncio.to_thread(by_confluent_kafka, librdkafka(home, authority, bad))
    with pytest.raises(AioKafkaError):
        await by_aiokafka(login(home, authority, OtherProvider(bad)))
    logins = home.listeners[0].logins
    assert logins is not None
    assert logins.succeeded == 0
    assert 3 <= logins.failed < 60


@pytest.mark.java
@pytest.mark.parametrize("audience", [AUDIENCE, "elsewhere"])
async def test_kafkas_tools_log_in_by_a_token_of_a_file(
    home: Running,
    issuer: Issuer,
    authority: Authority,
    kafka_jars: KafkaJars,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    audience: str,
) -> None:
    """With Kafka's own reader of files; another audience is an authentication exception."""
    file, config = tmp_path / "token", tmp_path / "client.properties"
    file.write_text(token(issuer, aud=audience))
    config.write_text(
        "security.protocol=SASL_SSL\nssl.truststore.type=PEM\n"
        f"ssl.truststore.location={authority.certificate}\n"
        "sasl.mechanism=OAUTHBEARER\n"
        f"sasl.jaas.config={PACKAGE}.OAuthBearerLoginModule required;\n"
        f"sasl.login.callback.handler.class={PACKAGE}.OAuthBearerLoginCallbackHandler\n"
        f"sasl.oauthbearer.jwt.retriever.class={PACKAGE}.FileJwtRetriever\n"
        f"sasl.oauthbearer.token.endpoint.url={file.as_uri()}\n"
    )
    allowed = f"-Dorg.apache.kafka.sasl.oauthbearer.allowed.urls={file.as_uri()}"
    monkeypatch.setenv("JAVA_TOOL_OPTIONS", allowed)
    tools = KafkaTools(kafka_jars)
    at = ("--bootstrap-server", address(home), "--command-config", str(config))
    made = await asyncio.to_thread(
        tools.try_run, "TopicCommand", *at, "--create", "--topic", "by-token"
    )

    logins = home.listeners[0].logins
    assert logins is not None
    if audience == AUDIENCE:
        assert "Created topic by-token" in made.stdout, made.stdout + made.stderr
        assert logins.failed == 0
    else:
        assert "SaslAuthenticationException" in made.stdout + made.stderr
        assert "invalid_token" in made.stdout + made.stderr
        assert logins.succeeded == 0

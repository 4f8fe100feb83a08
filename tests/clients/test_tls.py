"""Stock clients over TLS: they connect, and are told by exceptions of theirs when they may not."""

import asyncio
import ssl
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any

import confluent_kafka
import pytest
from aiokafka.errors import KafkaError as AioKafkaError
from kafka.errors import KafkaError

from siltstone.broker.security.plain import PLAIN, PLAIN_HASH
from siltstone.broker.security.scram import MECHANISMS, make_verifier
from siltstone.broker.security.users import UserStore
from tests.support.authority import Authority, Pair
from tests.support.clients.round_trip import (
    LEAVES_SOCKETS,
    by_aiokafka,
    by_confluent_kafka,
    by_kafka_python,
)
from tests.support.kafka import KafkaTools
from tests.support.oracle import AT_ONCE
from tests.support.running import Running, running
from tests.support.tls_clients import trusting
from tests.support.waiting import wait_until

SASL = {
    "sasl_mechanism": "SCRAM-SHA-256",
    "sasl_plain_username": "alice",
    "sasl_plain_password": "secret",
}
CONSUMER = "org.apache.kafka.tools.consumer.ConsoleConsumer"
LIFE_SECONDS = 4
STAMP = "%Y%m%d%H%M%SZ"
TRIES = 60
"""More than that in the time of a test is a storm."""

pytestmark = LEAVES_SOCKETS


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    """One that signs certificates."""
    return Authority(tmp_path_factory.mktemp("authority"))


@pytest.fixture(scope="module")
def pairs(authority: Authority) -> dict[str, Pair]:
    """Certificates of the broker and of clients."""
    return {
        "server": authority.issue("server"),
        "ann": authority.issue("ann", "/O=Mill/CN=ann"),
        "late": authority.issue("late", days=("20200101000000Z", "20200102000000Z")),
    }


@pytest.fixture
async def home(
    tmp_path: Path, authority: Authority, pairs: dict[str, Pair]
) -> AsyncIterator[Running]:
    """Listeners with TLS alone, with certificates of clients, and with logins."""
    folder = tmp_path / "data"
    folder.mkdir()
    own = {each.name: make_verifier(each, "secret") for each in MECHANISMS.values()}
    UserStore(folder).write({"alice": {PLAIN: make_verifier(PLAIN_HASH, "secret"), **own}})
    async with running(
        folder,
        "listeners=SSL://127.0.0.1:0,MUTUAL://127.0.0.1:0,SASL_SSL://127.0.0.1:0",
        "listener.security.protocol.map=SSL:SSL,MUTUAL:SSL,SASL_SSL:SASL_SSL",
        "sasl.enabled.mechanisms=PLAIN,SCRAM-SHA-256,SCRAM-SHA-512",
        *(f"{name}={value}" for name, value in AT_ONCE.items()),
        f"ssl.keystore.location={pairs['server'].store}",
        f"ssl.truststore.location={authority.certificate}",
        "listener.name.mutual.ssl.client.auth=required",
    ) as started:
        yield started


def address(home: Running, name: str) -> str:
    """Where clients of a listener connect."""
    (port,) = [each.port for each in home.listeners if each.name == name]
    return f"127.0.0.1:{port}"


def failures(home: Running, name: str) -> int:
    """Return how many handshakes of a listener have failed."""
    (handshakes,) = [each.handshakes for each in home.listeners if each.name == name]
    assert handshakes is not None
    return handshakes.failed


def settings(bootstrap: str, context: ssl.SSLContext, **more: str) -> dict[str, Any]:
    """Return the settings of kafka-python and aiokafka."""
    return {
        "bootstrap_servers": bootstrap,
        "security_protocol": "SASL_SSL" if more else "SSL",
        "ssl_context": context,
        **more,
    }


def librdkafka(
    bootstrap: str, authority: Authority, pair: Pair | None = None, **more: str
) -> dict[str, str]:
    """Return the settings of librdkafka."""
    given = {
        "bootstrap.servers": bootstrap,
        "security.protocol": "ssl",
        "ssl.ca.location": str(authority.certificate),
    }
    if pair is not None:
        given["ssl.certificate.location"] = str(pair.certificate)
        given["ssl.key.location"] = str(pair.key)
    return given | {name.replace("_", "."): value for name, value in more.items()}


async def test_clients_speak_tls(home: Running, authority: Authority) -> None:
    """And produce and consume as they do without."""
    where, context = address(home, "SSL"), trusting(authority)

    assert await asyncio.to_thread(by_kafka_python, settings(where, context)) == b"kafka-python"
    assert await asyncio.to_thread(by_confluent_kafka, librdkafka(where, authority))
    assert await by_aiokafka(settings(where, context))
    assert failures(home, "SSL") == 0


async def test_clients_show_certificates(
    home: Running, authority: Authority, pairs: dict[str, Pair]
) -> None:
    """And are known by their names."""
    where, ann = address(home, "MUTUAL"), pairs["ann"]
    context = trusting(authority, ann)

    assert await asyncio.to_thread(by_kafka_python, settings(where, context)) == b"kafka-python"
    assert await asyncio.to_thread(by_confluent_kafka, librdkafka(where, authority, ann))
    assert await by_aiokafka(settings(where, context))
    assert failures(home, "MUTUAL") == 0


async def test_clients_log_in_over_tls(home: Running, authority: Authority) -> None:
    """The login names them."""
    where, context = address(home, "SASL_SSL"), trusting(authority)
    login = librdkafka(
        where,
        authority,
        security_protocol="sasl_ssl",
        sasl_mechanism="PLAIN",
        sasl_username="alice",
        sasl_password="secret",
    )

    assert await asyncio.to_thread(by_kafka_python, settings(where, context, **SASL))
    assert await asyncio.to_thread(by_confluent_kafka, login)
    assert await by_aiokafka(settings(where, context, **SASL))
    (logins,) = [each.logins for each in home.listeners if each.name == "SASL_SSL"]
    assert logins is not None
    assert logins.failed == 0


@pytest.mark.slow
async def test_clients_that_do_not_trust_the_broker(home: Running, tmp_path: Path) -> None:
    """Each has its exception, and does not try again without end."""
    other = Authority(tmp_path / "other")
    where, context = address(home, "SSL"), trusting(other)

    with pytest.raises(KafkaError):
        await asyncio.to_thread(by_kafka_python, settings(where, context))
    with pytest.raises(confluent_kafka.KafkaException, match=r"(?i)ssl|certificate"):
        await asyncio.to_thread(by_confluent_kafka, librdkafka(where, other))
    with pytest.raises(AioKafkaError):
        await by_aiokafka(settings(where, context))
    assert 1 <= failures(home, "SSL") < TRIES


@pytest.mark.slow
@pytest.mark.parametrize("shown", [None, "late", "eve"])
async def test_clients_whose_certificate_is_not_taken(
    home: Running,
    authority: Authority,
    pairs: dict[str, Pair],
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
    shown: str | None,
) -> None:
    """None, one that has expired, one of a stranger: an exception there, and a line here."""
    stranger = Authority(tmp_path / "stranger").issue("eve")
    pair = None if shown is None else {**pairs, "eve": stranger}[shown]
    where, context = address(home, "MUTUAL"), trusting(authority, pair)

    with pytest.raises(KafkaError):
        await asyncio.to_thread(by_kafka_python, settings(where, context))
    with pytest.raises(confluent_kafka.KafkaException, match=r"(?i)ssl|certificate"):
        await asyncio.to_thread(by_confluent_kafka, librdkafka(where, authority, pair))
    with pytest.raises(AioKafkaError):
        await by_aiokafka(settings(where, context))
    assert 3 <= failures(home, "MUTUAL") < TRIES
    lines = [each.getMessage() for each in caplog.records if "TLS handshake" in each.getMessage()]
    wanted = {None: "it shows no certificate", "late": "has expired", "eve": "is not taken"}
    assert all(wanted[shown] in line or "closed the connection" in line for line in lines)
    assert any(wanted[shown] in line for line in lines)


@pytest.fixture
async def fading(tmp_path: Path, authority: Authority) -> AsyncIterator[tuple[Running, datetime]]:
    """A broker whose certificate expires soon, and when."""
    now = datetime.now(UTC)
    first, last = now - timedelta(days=1), now + timedelta(seconds=LIFE_SECONDS)
    short = authority.issue("short", days=(f"{first:{STAMP}}", f"{last:{STAMP}}"))
    async with running(
        tmp_path / "data",
        "listeners=SSL://127.0.0.1:0",
        f"ssl.keystore.location={short.store}",
        *(f"{name}={value}" for name, value in AT_ONCE.items()),
    ) as started:
        yield started, last


@pytest.mark.slow
async def test_the_brokers_certificate_expires(
    fading: tuple[Running, datetime], authority: Authority, caplog: pytest.LogCaptureFixture
) -> None:
    """While it runs: clients have their exceptions, the broker a line that says why."""
    home, last = fading
    where, context = address(home, "SSL"), trusting(authority)
    now = partial(datetime.now, UTC)
    await asyncio.to_thread(wait_until, now, "the certificate to expire", last.__lt__)

    with pytest.raises(KafkaError):
        await asyncio.to_thread(by_kafka_python, settings(where, context))
    with pytest.raises(confluent_kafka.KafkaException, match=r"(?i)ssl|certificate"):
        await asyncio.to_thread(by_confluent_kafka, librdkafka(where, authority))
    with pytest.raises(AioKafkaError):
        await by_aiokafka(settings(where, context))
    assert 3 <= failures(home, "SSL") < TRIES
    lines = [each.getMessage() for each in caplog.records]
    assert any("the broker's certificate has expired" in line for line in lines)
    caplog.clear()  # its records hold what kafka-python has not closed


# Kafka's own tools


def properties(folder: Path, authority: Authority, pair: Pair | None = None, **more: str) -> str:
    """Return a file with the settings of a Java client, whose stores are PEM."""
    given = {
        "security.protocol": "SSL",
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": str(authority.certificate),
        # A client waits that long for a broker before it says that it does not come.
        "default.api.timeout.ms": "15000",
        "request.timeout.ms": "10000",
    }
    if pair is not None:
        given |= {"ssl.keystore.type": "PEM", "ssl.keystore.location": str(pair.store)}
    given |= {name.replace("_", "."): value for name, value in more.items()}
    path = folder / "client.properties"
    path.write_text("".join(f"{name}={value}\n" for name, value in given.items()))
    return str(path)


@pytest.mark.client
@pytest.mark.java
@pytest.mark.parametrize("listener", ["SSL", "MUTUAL", "SASL_SSL"])
async def test_kafkas_tools_speak_tls(
    home: Running,
    authority: Authority,
    pairs: dict[str, Pair],
    tmp_path: Path,
    kafka_tools: KafkaTools,
    listener: str,
) -> None:
    """With PEM stores: topics, a producer and a consumer."""
    where = address(home, listener)
    login = {
        "security_protocol": "SASL_SSL",
        "sasl_mechanism": "SCRAM-SHA-512",
        "sasl_jaas_config": "org.apache.kafka.common.security.scram.ScramLoginModule required "
        'username="alice" password="secret";',
    }
    more = login if listener == "SASL_SSL" else {}
    pair = pairs["ann"] if listener == "MUTUAL" else None
    config = properties(tmp_path, authority, pair, **more)
    at = ("--bootstrap-server", where, "--command-config", config)

    def work() -> str:
        kafka_tools.run("TopicCommand", *at, "--create", "--topic", "t")
        lines = "".join(f"line {number} {'x' * 1000}\n" for number in range(500))
        kafka_tools.run("ConsoleProducer", *at, "--topic", "t", stdin=lines)
        read = kafka_tools.run(
            CONSUMER, *at, "--topic", "t", "--partition", "0", "--offset", "earliest",
            "--max-messages", "500", "--timeout-ms", "15000",
        )  # fmt: skip
        assert read == lines
        return kafka_tools.run("TopicCommand", *at, "--list")

    assert "t" in (await asyncio.to_thread(work)).split()
    assert failures(home, listener) == 0


@pytest.mark.client
@pytest.mark.java
@pytest.mark.parametrize("kind", ["wrong CA", "no certificate", "expired", "plain"])
async def test_kafkas_tools_are_told(
    home: Running,
    authority: Authority,
    pairs: dict[str, Pair],
    tmp_path: Path,
    kafka_tools: KafkaTools,
    kind: str,
) -> None:
    """By SslAuthenticationException, at once; one that does not encrypt loses the connection."""
    other = Authority(tmp_path / "other")
    pair = pairs["late"] if kind == "expired" else None
    config = properties(
        tmp_path,
        other if kind == "wrong CA" else authority,
        pair,
        **({"security_protocol": "PLAINTEXT"} if kind == "plain" else {}),
    )
    listener = "SSL" if kind in {"wrong CA", "plain"} else "MUTUAL"
    at = ("--bootstrap-server", address(home, listener), "--command-config", config)

    done = await asyncio.to_thread(kafka_tools.try_run, "TopicCommand", *at, "--list")

    said = done.stdout + done.stderr
    assert done.returncode != 0
    assert ("TimeoutException" if kind == "plain" else "SslAuthenticationException") in said
    assert 1 <= failures(home, listener) < TRIES * 5

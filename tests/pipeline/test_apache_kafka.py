"""Apache Kafka as the other side: the fetch transport logs in there, and a replay goes there."""

import random
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from confluent_kafka.admin import (
    AdminClient,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialUpsertion,
)

from siltstone.pipeline.engine import LocalEngine
from siltstone.pipeline.errors import SourceUnavailable
from siltstone.pipeline.jobs.audit import AuditSpec, audit
from siltstone.pipeline.options import ReadOptions
from siltstone.pipeline.planning.manifest import Manifest
from siltstone.pipeline.sinks.kafka import make_producer
from siltstone.pipeline.transports import open_source
from tests.support.archives import read_splits
from tests.support.broker import SiltstoneProcess, a_process
from tests.support.kafka import KafkaBroker, KafkaJars
from tests.support.missing import require
from tests.support.ports import free_ports
from tests.support.produced import create_topic, numbered, produce
from tests.support.replays import COUNT, Run, fill_source, read_rows, run_with_crashes
from tests.support.waiting import PATIENCE, wait_until

TOPIC = "guarded"
SECRET = "a secret, with = and \u00e4"
STORE_SECRET = "changeit"
SECURITY = "org.apache.kafka.common.security"
SCRAM = {
    "SCRAM-SHA-256": ScramMechanism.SCRAM_SHA_256,
    "SCRAM-SHA-512": ScramMechanism.SCRAM_SHA_512,
}
MECHANISMS = ("PLAIN", *SCRAM)
pytestmark = [pytest.mark.slow, pytest.mark.timeout(240)]


class Guarded(NamedTuple):
    """Apache Kafka with two more listeners that want a login, one of them over TLS."""

    broker: KafkaBroker
    addresses: dict[str, str]
    certificate: Path

    def options(self, protocol: str, mechanism: str, password: str = SECRET) -> dict[str, str]:
        """Return how to read the topic as alice."""
        module = "plain.PlainLoginModule" if mechanism == "PLAIN" else "scram.ScramLoginModule"
        return {
            "subscribe": TOPIC,
            "transport": "fetch",
            "kafka.bootstrap.servers": self.addresses[protocol],
            "kafka.security.protocol": protocol,
            "kafka.sasl.mechanism": mechanism,
            "kafka.sasl.jaas.config": (
                f'{SECURITY}.{module} required username="alice" password="{password}";'
            ),
            "kafka.ssl.truststore.location": str(self.certificate),
            "kafka.ssl.truststore.type": "PEM",
        }

    def view(self, protocol: str, mechanism: str, password: str = SECRET) -> Manifest:
        """Log in, and return which offsets there are."""
        options = ReadOptions.parse(self.options(protocol, mechanism, password))
        with open_source(options) as source:
            return source.view()


@pytest.fixture(scope="module")
def guarded(kafka_jars: KafkaJars, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Guarded]:
    """The broker with its topic and its user."""
    root = tmp_path_factory.mktemp("guarded")
    store, certificate = make_certificate(root)
    broker = KafkaBroker(kafka_jars, root / "kafka")
    ports = free_ports(2)
    addresses = {
        name: f"127.0.0.1:{port}"
        for name, port in zip(("SASL_PLAINTEXT", "SASL_SSL"), ports, strict=True)
    }
    more = "".join(f",{name}://{address}" for name, address in addresses.items())
    settings = broker.settings
    settings["listeners"] += more
    settings["advertised.listeners"] += more
    settings["listener.security.protocol.map"] += "".join(f",{each}:{each}" for each in addresses)
    settings["sasl.enabled.mechanisms"] = ",".join(MECHANISMS)
    settings["ssl.keystore.location"] = str(store)
    settings["ssl.keystore.type"] = "PKCS12"
    settings["ssl.keystore.password"] = settings["ssl.key.password"] = STORE_SECRET
    for name in addresses:
        prefix = f"listener.name.{name.lower()}"
        plain = f'{SECURITY}.plain.PlainLoginModule required user_alice="{SECRET}";'
        settings[f"{prefix}.plain.sasl.jaas.config"] = plain.replace("\u00e4", "\\u00e4")
        for mechanism in SCRAM:
            module = f"{SECURITY}.scram.ScramLoginModule required;"
            settings[f"{prefix}.{mechanism.lower()}.sasl.jaas.config"] = module
    try:
        broker.start()
        create_topic(broker.bootstrap, TOPIC, partitions=2)
        produce(broker.bootstrap, TOPIC, numbered(100))
        add_user(broker.bootstrap)
        yield Guarded(broker, addresses, certificate)
    finally:
        broker.close()


def make_certificate(root: Path) -> tuple[Path, Path]:
    """Return a key with a certificate for 127.0.0.1, and the certificate alone as PEM."""
    store, certificate = root / "store.p12", root / "certificate.pem"
    keytool = [require("keytool"), "-keystore", str(store), "-storepass", STORE_SECRET]
    named = ["-alias", "broker", "-storetype", "PKCS12"]
    made = ["-genkeypair", "-keyalg", "RSA", "-dname", "CN=broker", "-ext", "san=ip:127.0.0.1"]
    for more in (made, ["-exportcert", "-rfc", "-file", str(certificate)]):
        subprocess.run([*keytool, *named, *more], check=True, capture_output=True)
    return store, certificate


def add_user(bootstrap: str) -> None:
    """Give alice her password for both kinds of SCRAM, and wait until the broker knows it."""
    admin = AdminClient({"bootstrap.servers": bootstrap})
    for mechanism in SCRAM.values():
        password = ScramCredentialInfo(mechanism, 4096)
        change = UserScramCredentialUpsertion("alice", password, SECRET.encode(), b"salt-of-alice")
        admin.alter_user_scram_credentials([change])["alice"].result(PATIENCE)

    def known() -> list[Any]:
        asked: Any = admin.describe_user_scram_credentials(["alice"])
        return list(asked["alice"].result(PATIENCE).scram_credential_infos)

    wait_until(known, "a user with both passwords", lambda found: len(found) == len(SCRAM))


@pytest.mark.parametrize("protocol", ["SASL_PLAINTEXT", "SASL_SSL"])
@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_fetch_logs_in(guarded: Guarded, protocol: str, mechanism: str) -> None:
    """By each mechanism, with and without TLS, all records are read."""
    options = ReadOptions.parse(guarded.options(protocol, mechanism))

    with open_source(options) as source:
        found = read_splits(source.plan(source.view()), ("key",))

    assert found["key"].to_pylist() == [b"k%d" % number for number in range(100)]


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_a_wrong_password_is_refused(guarded: Guarded, mechanism: str) -> None:
    """The broker's reason is one sentence."""
    with pytest.raises(SourceUnavailable, match="refuses the login"):
        guarded.view("SASL_PLAINTEXT", mechanism, "wrong")


def test_an_unknown_certificate_is_refused(guarded: Guarded, tmp_path: Path) -> None:
    """Whom no trusted certificate vouches for gets no password."""
    _, stranger = make_certificate(tmp_path)
    other = guarded._replace(certificate=stranger)

    with pytest.raises(SourceUnavailable, match="its certificate is not trusted"):
        other.view("SASL_SSL", "PLAIN")


ours = a_process(prepare=fill_source)


def test_exactly_once_into_apache_kafka(
    guarded: Guarded, ours: SiltstoneProcess, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However often a replay dies, its rows come once and in order."""
    run = Run(ours, "once", guarded.broker.bootstrap)

    summary, crashes = run_with_crashes(run, monkeypatch, exactly_once=True)

    assert crashes >= 3
    assert summary.skipped
    assert run.rows() == read_rows(ours.bootstrap, "source")


@pytest.mark.parametrize("exactly_once", [False, True])
def test_replay_logs_in(guarded: Guarded, ours: SiltstoneProcess, *, exactly_once: bool) -> None:
    """The same settings do for whole batches and for transactions of librdkafka."""
    run = Run(ours, f"login-{exactly_once}", guarded.broker.bootstrap)
    options = guarded.options("SASL_SSL", "SCRAM-SHA-512")
    options = {name: value for name, value in options.items() if name.startswith("kafka.s")}

    summary = run(
        options={**options, "bootstrap": guarded.addresses["SASL_SSL"]}, exactly_once=exactly_once
    )

    assert summary.records == COUNT
    assert run.rows() == read_rows(ours.bootstrap, "source")


def test_an_audit_of_its_folder(kafka_jars: KafkaJars, tmp_path: Path) -> None:
    """Its transaction indexes agree with its markers as ours do, segment by segment."""
    broker = KafkaBroker(kafka_jars, tmp_path / "kafka")
    chance = random.Random(5)
    try:
        broker.start()
        create_topic(broker.bootstrap, "t", config={"segment.bytes": str(1 << 20)})
        producers = [make_producer(broker.bootstrap, {}, f"p{number}") for number in range(3)]
        for producer in producers:
            producer.init_transactions(PATIENCE)
            producer.begin_transaction()
        for _ in range(60):
            producer = chance.choice(producers)
            for _ in range(chance.randrange(1, 4)):
                producer.produce("t", chance.randbytes(20_000), partition=0)
                producer.flush(PATIENCE)
            if chance.random() < 0.5:
                end = producer.abort_transaction if chance.random() < 0.5 else None
                (end or producer.commit_transaction)(PATIENCE)
                producer.begin_transaction()
        assert broker.stop() == 0
    finally:
        broker.close()
    options = {"subscribe": "t", "archive": str(broker.folder)}

    report = audit(LocalEngine(1), options, AuditSpec())

    assert list(report.lines())[:-1] == []
    assert report.segments > 1
    assert sum(path.stat().st_size for path in (broker.folder / "t-0").glob("*.txnindex"))

"""kafka-acls and Kafka's own clients at a broker with rights; the exceptions are Kafka's."""

from collections.abc import Iterator
from pathlib import Path

import confluent_kafka
import pytest

from siltstone.broker.security.plain import PLAIN, PLAIN_HASH
from siltstone.broker.security.scram import MECHANISMS, make_verifier
from siltstone.broker.security.users import UserStore
from siltstone.config.security import STANDARD_AUTHORIZER
from tests.support.broker import SiltstoneProcess
from tests.support.kafka import KafkaTools

ACLS = "AclCommand"
SHA_256 = MECHANISMS["SCRAM-SHA-256"]
PATIENCE = 15.0

pytestmark = [pytest.mark.client, pytest.mark.java]


@pytest.fixture
def secured(tmp_path: Path) -> Iterator[SiltstoneProcess]:
    """A broker where admin may do everything, and bob what the ACLs say."""
    folder = tmp_path / "siltstone" / "data"
    folder.mkdir(parents=True)
    UserStore(folder).write(
        {
            name: {
                PLAIN: make_verifier(PLAIN_HASH, "pw"),
                SHA_256.name: make_verifier(SHA_256, "pw"),
            }
            for name in ("admin", "bob")
        }
    )
    broker = SiltstoneProcess(
        tmp_path / "siltstone",
        {
            "log.dirs": str(folder),
            "listener.security.protocol.map": "PLAINTEXT:SASL_PLAINTEXT",
            "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256",
            "authorizer.class.name": STANDARD_AUTHORIZER,
            "super.users": "User:admin",
            "audit.log.file": str(tmp_path / "audit.log"),
        },
    )
    broker.start()
    yield broker
    assert broker.stop() == 0
    broker.close()


def properties(folder: Path, user: str) -> Path:
    """Return a client's configuration, for SCRAM."""
    file = folder / f"{user}.properties"
    module = "org.apache.kafka.common.security.scram.ScramLoginModule"
    file.write_text(
        "security.protocol=SASL_PLAINTEXT\nsasl.mechanism=SCRAM-SHA-256\n"
        f'sasl.jaas.config={module} required username="{user}" password="pw";\n'
    )
    return file


def login(broker: SiltstoneProcess, user: str) -> dict[str, str]:
    """Return the settings of librdkafka, for PLAIN."""
    return {
        "bootstrap.servers": broker.bootstrap,
        "security.protocol": "sasl_plaintext",
        "sasl.mechanism": "PLAIN",
        "sasl.username": user,
        "sasl.password": "pw",
    }


def try_produce(broker: SiltstoneProcess, topic: str) -> int | None:
    """Return the code with which bob's record was refused; None if it was taken."""
    producer = confluent_kafka.Producer({**login(broker, "bob"), "message.timeout.ms": 5000})
    codes: list[int | None] = []
    producer.produce(
        topic, b"v", on_delivery=lambda fault, _: codes.append(fault.code() if fault else None)
    )
    producer.flush(PATIENCE)
    (code,) = codes
    return code


def test_kafka_acls_adds_lists_and_removes(
    secured: SiltstoneProcess, kafka_tools: KafkaTools, tmp_path: Path
) -> None:
    """And what it adds is what bob may do from then on."""
    at = ("--bootstrap-server", secured.bootstrap, "--command-config")
    admin = (*at, str(properties(tmp_path, "admin")))
    refused = try_produce(secured, "orders")
    added = kafka_tools.run(
        ACLS, *admin, "--add", "--allow-principal", "User:bob", "--producer", "--topic", "orders"
    )
    taken = try_produce(secured, "orders")
    kafka_tools.run(
        ACLS,
        *admin,
        *("--add", "--deny-principal", "User:bob", "--deny-host", "192.0.2.1"),
        *("--operation", "All", "--group", "g", "--resource-pattern-type", "prefixed"),
    )
    listed = kafka_tools.run(ACLS, *admin, "--list")
    bobs = kafka_tools.try_run(ACLS, *at, str(properties(tmp_path, "bob")), "--list")
    kafka_tools.run(
        ACLS,
        *admin,
        *("--remove", "--force", "--allow-principal", "User:bob"),
        *("--operation", "Write", "--topic", "orders"),
    )
    again = try_produce(secured, "orders")
    left = kafka_tools.run(ACLS, *admin, "--list", "--topic", "orders")

    assert "Adding ACLs for resource" in added
    assert refused == again == confluent_kafka.KafkaError.TOPIC_AUTHORIZATION_FAILED
    assert taken is None
    assert "resourceType=TOPIC, name=orders, patternType=LITERAL" in listed
    assert "resourceType=GROUP, name=g, patternType=PREFIXED" in listed
    assert "host=192.0.2.1, operation=ALL, permissionType=DENY" in listed
    assert "ClusterAuthorizationException" in bobs.stdout + bobs.stderr
    assert "operation=WRITE" in listed
    assert "operation=WRITE" not in left
    assert "operation=DESCRIBE" in left


def test_tools_tell_what_the_client_may_do(
    secured: SiltstoneProcess, kafka_tools: KafkaTools, tmp_path: Path
) -> None:
    """Bob sees his topics alone, and the consumer gets Kafka's exception for another's."""
    at = ("--bootstrap-server", secured.bootstrap, "--command-config")
    admin = (*at, str(properties(tmp_path, "admin")))
    bob = properties(tmp_path, "bob")
    for topic in ("mine", "other"):
        kafka_tools.run("TopicCommand", *admin, "--create", "--topic", topic)
    kafka_tools.run(
        ACLS,
        *admin,
        *("--add", "--allow-principal", "User:bob", "--consumer", "--topic", "mine"),
        *("--group", "g"),
    )
    listed = kafka_tools.run("TopicCommand", *at, str(bob), "--list").split()
    consumer = confluent_kafka.Consumer({**login(secured, "bob"), "group.id": "g"})
    consumer.subscribe(["other"])
    message = consumer.poll(PATIENCE)
    consumer.close()

    assert listed == ["mine"]
    assert message is not None
    fault = message.error()
    assert fault is not None
    assert fault.code() == confluent_kafka.KafkaError.TOPIC_AUTHORIZATION_FAILED

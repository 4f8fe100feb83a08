"""The commands of docs/security.md start a broker that is secured, and clients log in to it."""

import os
import re
import shlex
import shutil
import ssl
import subprocess
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import confluent_kafka
import kafka
import pytest
from confluent_kafka.admin import AdminClient, NewTopic
from kafka.errors import KafkaError

from tests.support.broker import ADDRESS, READY, siltstone
from tests.support.console import write_scripts
from tests.support.daemon import Daemon
from tests.support.kafka import KafkaJars
from tests.support.ports import free_ports
from tests.support.programs import run_to_end
from tests.support.waiting import PATIENCE

pytestmark = [pytest.mark.slow, pytest.mark.client]

ROOT = Path(__file__).parents[2]
SECTION = "Secured from the first start"


def commands_of_the_page() -> list[str]:
    """Return the blocks of commands in the section: with the package, a user, in containers."""
    page = (ROOT / "docs" / "security.md").read_text(encoding="utf-8")
    section = page.partition(f"## {SECTION}\n")[2].partition("\n## ")[0]
    return re.findall(r"^```sh\n(.*?)^```$", section, re.MULTILINE | re.DOTALL)


class Operator:
    """A user in a clone, typing what the page says; this machine's ports are chosen here."""

    def __init__(self, folder: Path) -> None:
        for name in ("config", "docker"):
            (folder / name).mkdir()
        shutil.copy(ROOT / "config" / "server-secure.yaml", folder / "config")
        shutil.copy(ROOT / "docker" / "first-secrets", folder / "docker")
        self.clone = folder
        self.home = folder / "secured"
        (port,) = free_ports(1)
        self.bootstrap = f"localhost:{port}"
        self.tools = folder / "bin"
        self.tools.mkdir()
        self.environ = {
            **os.environ,
            "PATH": f"{self.tools}:{Path(siltstone()).parent}:{os.environ['PATH']}",
            "SILTSTONE_LISTENERS": f"SASL_SSL://127.0.0.1:{port}",
            "SILTSTONE_ADVERTISED_LISTENERS": f"SASL_SSL://{self.bootstrap}",
            "SILTSTONE_HTTP_LISTENER": "0.0.0.0:0",  # on loopback everybody may read
        }
        self.daemon = Daemon(folder / "siltstone.log")

    def start(self) -> None:
        """Type the first block, whose last command is the broker."""
        first = commands_of_the_page()[0]
        prepare, serve, options = first.rpartition("siltstone serve")
        script = f"cd {shlex.quote(str(self.clone))}\n{prepare}exec {serve}{options}"
        self.daemon.launch(["bash", "-euc", script], environ=self.environ)
        self.daemon.wait_for(READY)

    def type(self, text: str) -> subprocess.CompletedProcess[str]:
        """Run commands in the folder of the broker."""
        return run_to_end(["bash", "-euc", text], cwd=self.home, env=self.environ)

    @property
    def authority(self) -> Path:
        """The certificate that clients trust."""
        return self.home / "admin" / "authority.pem"

    @property
    def password(self) -> str:
        """The password that the script has chosen for admin."""
        found = re.search(r'password="(\w+)"', self.properties()["sasl.jaas.config"])
        assert found is not None
        return found[1]

    def properties(self) -> dict[str, str]:
        """Return what Kafka's tools are given."""
        text = (self.home / "admin" / "admin.properties").read_text()
        return dict(line.split("=", 1) for line in text.splitlines())

    def login(self, user: str, password: str) -> dict[str, Any]:
        """Return the settings of librdkafka for a user."""
        return {
            "bootstrap.servers": self.bootstrap,
            "security.protocol": "sasl_ssl",
            "sasl.mechanism": "SCRAM-SHA-512",
            "sasl.username": user,
            "sasl.password": password,
            "ssl.ca.location": str(self.authority),
        }

    def page(self, login: str) -> int:
        """Return the status of /metrics for ``user:password``, or for nobody."""
        port = self.daemon.wait_for(ADDRESS.format("http"))[1].rpartition(":")[2]
        passwords = urllib.request.HTTPPasswordMgrWithDefaultRealm()
        url = f"https://localhost:{port}/metrics"
        if login:
            passwords.add_password(None, url, *login.split(":"))
        opener = urllib.request.build_opener(
            urllib.request.ProxyHandler({}),
            urllib.request.HTTPSHandler(
                context=ssl.create_default_context(cafile=str(self.authority))
            ),
            urllib.request.HTTPBasicAuthHandler(passwords),
        )
        try:
            with opener.open(url) as answer:
                status: int = answer.status
        except urllib.error.HTTPError as error:
            with error:
                return error.code
        return status


def ask_by_kafka_python(operator: Operator, login: dict[str, str]) -> None:
    """Connect and ask which topics there are."""
    client = kafka.KafkaAdminClient(
        bootstrap_servers=operator.bootstrap,
        ssl_context=ssl.create_default_context(cafile=str(operator.authority)),
        bootstrap_timeout_ms=3000,
        request_timeout_ms=3000,
        **login,
    )
    try:
        client.list_topics()
    finally:
        client.close()


@pytest.fixture
def operator(tmp_path: Path) -> Iterator[Operator]:
    """Somebody whose broker runs, as the page says."""
    made = Operator(tmp_path)
    try:
        made.start()
        yield made
        assert made.daemon.terminate() == 0
    finally:
        made.daemon.kill()


def create(login: dict[str, Any], *topics: str) -> None:
    """Create topics of one partition by librdkafka."""
    admin = AdminClient(login)
    for future in admin.create_topics([NewTopic(topic, 1) for topic in topics]).values():
        future.result(PATIENCE)


def consume(login: dict[str, Any], topic: str) -> bytes | None:
    """Return the first record of a topic by librdkafka."""
    consumer = confluent_kafka.Consumer(
        {**login, "group.id": "readers", "auto.offset.reset": "earliest"}
    )
    consumer.subscribe([topic])
    message = consumer.poll(PATIENCE)
    consumer.close()
    assert message is not None
    assert message.error() is None, message.error()
    return message.value()


def produce(login: dict[str, Any], topic: str, value: bytes) -> confluent_kafka.KafkaError | None:
    """Produce a record by librdkafka; return what the broker says to it."""
    said: list[confluent_kafka.KafkaError | None] = []
    producer = confluent_kafka.Producer(login)
    producer.produce(topic, value, on_delivery=lambda error, _: said.append(error))
    producer.flush(PATIENCE)
    [error] = said
    return error


def test_the_first_user_produces_and_consumes(operator: Operator) -> None:
    """With the password and the authority that the script has made, and the health check works."""
    admin = operator.login("admin", operator.password)
    create(admin, "orders")

    assert produce(admin, "orders", b"first") is None
    assert consume(admin, "orders") == b"first"
    health = operator.type("siltstone health --config ../config/server-secure.yaml")
    assert health.returncode == 0, health.stderr
    assert operator.page(f"admin:{operator.password}") == 200


def test_the_commands_take_what_the_script_has_made(operator: Operator) -> None:
    """admin.properties is all that they need: the authority stands in it."""
    options = "--config ../config/server-secure.yaml --command-config admin/admin.properties"
    made = operator.type(
        f"siltstone topics create orders {options}\n"
        f"echo first | siltstone produce orders {options}\n"
        f"siltstone consume orders {options}"
    )

    assert made.returncode == 0, made.stderr
    assert made.stdout.splitlines()[-1] == "first"


def test_strangers_are_refused(operator: Operator) -> None:
    """Clients with no password, a wrong one, or no TLS; on the HTTP port, too."""
    right = {
        "security_protocol": "SASL_SSL",
        "sasl_mechanism": "SCRAM-SHA-512",
        "sasl_plain_username": "admin",
        "sasl_plain_password": operator.password,
    }
    ask_by_kafka_python(operator, right)
    for wrong in (
        {"security_protocol": "SSL"},
        {"security_protocol": "PLAINTEXT"},
        {**right, "security_protocol": "SASL_PLAINTEXT"},
        {**right, "sasl_plain_password": "guessed"},
    ):
        with pytest.raises(KafkaError):
            ask_by_kafka_python(operator, wrong)
    assert operator.page("") == 401
    assert operator.page("admin:guessed") == 401
    audited = (operator.home / "audit.log").read_text()
    assert '"login failed"' in audited
    assert "guessed" not in audited


def test_the_script_leaves_what_is_there(operator: Operator) -> None:
    """Beside a running broker, too; a certificate that was taken away is made by the same hand."""
    run = "sh ../docker/first-secrets ../config/server-secure.yaml broker.example 192.0.2.7"
    files = [*(operator.home / "admin").iterdir(), operator.home / "tls" / "server.pem"]
    before = {path: path.read_bytes() for path in files}

    assert operator.type(run).returncode == 0
    assert {path: path.read_bytes() for path in files} == before

    (operator.home / "tls" / "server.pem").unlink()
    done = operator.type(
        f"{run}\nopenssl verify -CAfile admin/authority.pem tls/server.pem\n"
        "openssl x509 -in tls/server.pem -noout -ext subjectAltName"
    )
    assert done.returncode == 0, done.stderr
    assert operator.authority.read_bytes() == before[operator.authority]
    assert "DNS:localhost, IP Address:127.0.0.1, DNS:broker.example, IP Address:192.0.2.7" in (
        done.stdout
    )


def test_nobody_else_may_read_the_secrets(operator: Operator) -> None:
    """Files with mode 0600, folders with 0700, and no password in what the broker has printed."""
    made = [*operator.home.glob("admin/**/*"), *operator.home.glob("tls/**/*")]

    assert len(made) >= 4
    for path in (operator.home / "admin", operator.home / "tls", *made):
        assert path.stat().st_mode & 0o077 == 0, path
    assert operator.password not in operator.daemon.printed()


def test_git_takes_no_secret(operator: Operator) -> None:
    """No key and no password is among what it would add, in a clone and in any other repository."""
    done = operator.type(
        "git -C .. init --quiet && git -C .. add --all --dry-run\n"
        "mkdir ../other && cp -R admin ../other && cd ../other && git init --quiet\n"
        "git add --all --dry-run"
    )

    assert done.returncode == 0, done.stderr
    assert "docker/first-secrets" in done.stdout
    assert not [line for line in done.stdout.splitlines() if "admin" in line or "tls/" in line]


@pytest.mark.java
def test_kafkas_tools_make_a_user(operator: Operator, kafka_jars: KafkaJars) -> None:
    """The commands of the page as they stand there; the user may use that topic and no other."""
    write_scripts(operator.tools, kafka_jars, "once")
    create(operator.login("admin", operator.password), "orders", "others")

    done = operator.type(commands_of_the_page()[1].replace("localhost:9093", operator.bootstrap))

    assert done.returncode == 0, done.stdout + done.stderr
    alice = operator.login("alice", "alice-secret")
    assert produce(alice, "orders", b"hers") is None
    assert consume(alice, "orders") == b"hers"
    refused = produce(alice, "others", b"not hers")
    assert refused is not None
    assert refused.code() == confluent_kafka.KafkaError.TOPIC_AUTHORIZATION_FAILED

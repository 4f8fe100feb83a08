"""The commands of docs/coming-from-kafka.md move a folder from Apache Kafka here, and it back."""

import os
import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.clients.conftest import settle
from tests.support.broker import ADDRESS, READY, siltstone
from tests.support.clients.confluent import Confluent
from tests.support.console import write_scripts
from tests.support.daemon import Daemon
from tests.support.kafka import KafkaBroker, KafkaTools
from tests.support.messages import Message
from tests.support.ports import free_ports
from tests.support.programs import run_to_end
from tests.support.waiting import wait_until

pytestmark = [pytest.mark.client, pytest.mark.slow]

PAGE = Path(__file__).parents[2] / "docs" / "coming-from-kafka.md"
SETTINGS = {"offsets.topic.num.partitions": "1"}


def blocks(section: str, language: str) -> list[str]:
    """Return the blocks of a section of the page."""
    text = PAGE.read_text(encoding="utf-8").partition(f"## {section}\n")[2].partition("\n## ")[0]
    return re.findall(rf"^```{language}\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)


class Operator:
    """A user in a folder with a server.properties, typing what the page says."""

    def __init__(self, folder: Path, tools: Path | None = None, bootstrap: str = "") -> None:
        self.folder = folder
        self.bootstrap = bootstrap
        (http,) = free_ports(1)
        path = [str(Path(siltstone()).parent), "/usr/bin", "/bin"]
        self.environ = {
            **os.environ,
            "PATH": ":".join([str(tools)] * bool(tools) + path),
            "SILTSTONE_HTTP_LISTENER": f"127.0.0.1:{http}",
        }
        self.daemon = Daemon(folder / "siltstone.log")

    def type(self, block: str, code: int = 0) -> str:
        """Run a block of commands and return what it prints."""
        done = run_to_end(
            ["sh", "-eu", "-c", block.replace("localhost:9092", self.bootstrap)],
            cwd=self.folder,
            env=self.environ,
        )
        assert done.returncode == code, done.stdout + done.stderr
        return done.stdout + done.stderr

    def serve(self, command: str) -> None:
        """Start the broker as the page says."""
        program, *words = shlex.split(command)
        assert program == "siltstone"
        file = str(self.folder / "server.properties")
        words = [file if word == "server.properties" else word for word in words]
        self.daemon.launch([siltstone(), *words], environ=self.environ)
        self.daemon.wait_for(READY)
        assert self.daemon.wait_for(ADDRESS.format("PLAINTEXT"))[1] == self.bootstrap


@pytest.fixture
def scripts(kafka_tools: KafkaTools, tmp_path: Path) -> Path:
    """A folder with Kafka's shell scripts."""
    return write_scripts(tmp_path / "bin", kafka_tools.jars)


@pytest.fixture
def operator(kafka_broker: KafkaBroker, scripts: Path) -> Iterator[Operator]:
    """An operator of an Apache Kafka that runs, with a compacted topic and a group."""
    kafka_broker.settings |= SETTINGS
    kafka_broker.start()
    client = Confluent(kafka_broker.bootstrap)
    client.create("customers", 2, {"cleanup.policy": "compact"})
    settle(kafka_broker, "customers", 2)
    client.produce("customers", records(20))
    made = Operator(kafka_broker.root, scripts, kafka_broker.bootstrap)
    made.type(
        "kafka-console-consumer.sh --bootstrap-server localhost:9092 --topic customers "
        "--from-beginning --max-messages 20 --group readers"
    )
    yield made
    if made.daemon.running:
        made.daemon.kill()


def records(count: int) -> list[Message]:
    """Return records with a key each, as old as the page warns of."""
    return [Message(b"%d" % each, b"v", (), 1_000 + each) for each in range(count)]


@pytest.mark.java
@pytest.mark.timeout(300)
def test_a_folder_moves_here_and_back(operator: Operator, kafka_broker: KafkaBroker) -> None:
    """Records, groups, the topic's id and its settings come along."""
    note, start, look = blocks("Move a folder here", "sh")
    operator.type(note)
    assert "cleanup.policy=compact" in (operator.folder / "topics.txt").read_text()
    before = kafka_broker.folder / "customers-0" / "partition.metadata"
    identity = before.read_bytes()
    kafka_broker.stop()

    check, serve = start.splitlines()
    operator.type(check)
    operator.serve(serve)
    told = operator.type(look)
    client = Confluent(operator.bootstrap)
    client.produce("customers", records(5))
    assert "compact" in told
    assert "readers" in told
    assert client.bounds("customers") == (0, 25)
    assert operator.daemon.terminate() == 0

    assert before.read_bytes() == identity
    kafka_broker.start()
    wait_until(
        lambda: Confluent(kafka_broker.bootstrap).bounds("customers"),
        "a leader of customers",
        lambda bounds: bounds == (0, 25),
        despite=Exception,
    )
    described = operator.type(
        "kafka-consumer-groups.sh --bootstrap-server localhost:9092 --describe --group readers"
    )
    assert re.search(r"customers\s+0\s+20\s+25\s+5\b", described)


def test_the_faults_of_the_page_are_told(tmp_path: Path) -> None:
    """Each line that the page shows of `siltstone check` is printed for such a file."""
    operator = Operator(tmp_path)
    (tmp_path / "server.properties").write_text(
        "process.roles=broker,controller\nnode.id=1\n"
        "controller.quorum.voters=1@localhost:9093\n"
        "listeners=PLAINTEXT://:9092,CONTROLLER://:9093\n"
        "controller.listener.names=CONTROLLER\n"
    )
    (tmp_path / "faulty.properties").write_text("retention.hors=3\nlog.retention.hours=soon\n")

    for block, code in zip(blocks("Settings", "console"), (0, 1), strict=True):
        command, *lines = block.splitlines()
        told = operator.type(command.removeprefix("$ "), code).splitlines()
        assert [line for line in lines if line not in told] == []

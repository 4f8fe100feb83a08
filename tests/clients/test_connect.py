"""Kafka Connect: a file goes into a topic and out of it again, by one worker or by a cluster."""

import json
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path

import pytest

from tests.support.broker import SiltstoneProcess
from tests.support.clients.confluent import Confluent
from tests.support.daemon import Daemon
from tests.support.kafka import RELEASE_BEFORE, KafkaBroker, KafkaJars
from tests.support.ports import free_ports
from tests.support.waiting import PATIENCE, wait_until

pytestmark = [pytest.mark.client, pytest.mark.java, pytest.mark.slow, pytest.mark.timeout(150)]

STRINGS = "org.apache.kafka.connect.storage.StringConverter"


class Worker:
    """A worker of Connect that copies ``source`` into the topic and the topic into ``sink``."""

    def __init__(
        self, jars: KafkaJars, broker: SiltstoneProcess | KafkaBroker, root: Path, topic: str
    ) -> None:
        self.topic = topic
        self.source = root / "source.txt"
        self.sink = root / "sink.txt"
        self.bootstrap = broker.bootstrap
        self._jars = jars
        self._root = root
        self._daemon = Daemon(root / "connect.log")
        [port] = free_ports(1)
        self._rest = f"http://127.0.0.1:{port}"
        self._lines = 0

    @property
    def connectors(self) -> dict[str, dict[str, str]]:
        """The settings of both connectors, by name."""
        return {
            f"{self.topic}-source": {
                "connector.class": "FileStreamSource",
                "tasks.max": "1",
                "file": str(self.source),
                "topic": self.topic,
            },
            f"{self.topic}-sink": {
                "connector.class": "FileStreamSink",
                "tasks.max": "1",
                "file": str(self.sink),
                "topics": self.topic,
            },
        }

    def start_alone(self) -> None:
        """Start a standalone worker, which has its offsets in a file."""
        worker = self._write(
            "worker", {"offset.storage.file.filename": str(self._root / "offsets")}
        )
        files = [
            self._write(name, {"name": name, **values}, is_worker=False)
            for name, values in self.connectors.items()
        ]
        self._launch("ConnectStandalone", worker, *files)

    def start_distributed(self) -> None:
        """Start a worker of a cluster, which has everything in three topics."""
        storage = {
            f"{kind}.storage.{name}": value
            for kind in ("config", "offset", "status")
            for name, value in {
                "topic": f"{self.topic}-{kind}",
                "replication.factor": "1",
                "partitions": "2",
            }.items()
            if (kind, name) != ("config", "partitions")
        }
        settings = {"group.id": f"{self.topic}-cluster", "session.timeout.ms": "6000",
                    "heartbeat.interval.ms": "500"}  # fmt: skip
        self._launch("ConnectDistributed", self._write("worker", settings | storage))

    def configure(self) -> None:
        """Give a cluster its connectors."""
        for name, values in self.connectors.items():
            wait_until(
                partial(self._put, f"/connectors/{name}/config", values),
                f"connector {name}",
                despite=OSError,  # not up yet
            )

    def copy(self, count: int) -> None:
        """Append lines to the source and wait until the sink has all that there ever were."""
        with self.source.open("a") as stream:
            for _ in range(count):
                stream.write(f"line {self._lines}\n")
                self._lines += 1
        wanted = [f"line {number}" for number in range(self._lines)]
        got = wait_until(
            lambda: self.sink.read_text().splitlines() if self.sink.exists() else [],
            f"{len(wanted)} lines in the sink",
            lambda lines: len(lines) >= len(wanted),
        )

        assert got == wanted, self._daemon.printed()[-2000:]

    def stop(self) -> None:
        """Stop it gracefully: offsets are kept."""
        self._daemon.terminate(60)

    def close(self) -> None:
        """Leave no process behind."""
        if self._daemon.running:
            self._daemon.kill()

    def _launch(self, main: str, *files: Path) -> None:
        name = f"org.apache.kafka.connect.cli.{main}"
        self._daemon.launch(self._jars.command("once", name, *map(str, files)))

    def _write(self, name: str, values: Mapping[str, str], *, is_worker: bool = True) -> Path:
        common = {
            "bootstrap.servers": self.bootstrap,
            "key.converter": STRINGS,
            "value.converter": STRINGS,
            "offset.flush.interval.ms": "500",
            "plugin.discovery": "service_load",
            "listeners": self._rest,
        }
        path = self._root / f"{name}.properties"
        lines = (common if is_worker else {}) | dict(values)
        path.write_text("".join(f"{key}={value}\n" for key, value in lines.items()))
        return path

    def _put(self, path: str, values: Mapping[str, str]) -> bool:
        request = urllib.request.Request(
            self._rest + path,
            data=json.dumps(values).encode(),
            headers={"Content-Type": "application/json"},
            method="PUT",
        )
        try:
            with urllib.request.urlopen(request, timeout=PATIENCE) as response:
                return response.status in {200, 201}
        except urllib.error.HTTPError as error:
            error.close()  # it is an answer, with its socket
            return False


@pytest.fixture
def worker(
    kafka_jars: KafkaJars,  # it skips where they cannot be had
    broker: SiltstoneProcess | KafkaBroker,
    topic_name: str,
    tmp_path: Path,
) -> Iterator[Worker]:
    """A worker on files and a topic of the test, not started.

    It is one of the release before: 4.4.0 has no connector for files on Maven Central.
    """
    made = Worker(KafkaJars.find(RELEASE_BEFORE), broker, tmp_path, topic_name)
    made.source.touch()
    yield made
    made.close()


def test_a_standalone_worker_copies_a_file(worker: Worker) -> None:
    """Every line once and in order, those too that were written while it was away."""
    worker.start_alone()
    worker.copy(100)
    worker.stop()

    worker.start_alone()
    worker.copy(50)
    worker.stop()


def test_a_distributed_worker_copies_a_file(worker: Worker) -> None:
    """Its connectors, offsets and states are in compacted topics, and outlive it there."""
    worker.start_distributed()
    worker.configure()
    worker.copy(100)
    worker.stop()

    worker.start_distributed()
    worker.copy(50)
    worker.stop()

    admin = Confluent(worker.bootstrap)
    policies = {
        kind: admin.configs(f"{worker.topic}-{kind}")["cleanup.policy"]
        for kind in ("config", "offset", "status")
    }
    assert policies == dict.fromkeys(("config", "offset", "status"), "compact")

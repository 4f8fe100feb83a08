"""The steps of Testcontainers with the image, step by step, without an engine.

Not tried here: an engine, its networks, and the image itself (`tests/docker`). Its entry point, its
settings and its variables are the real ones, and the mapped port is another one than the bound.
"""

import importlib
import os
import socket
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any, Self

import pytest
from confluent_kafka import OFFSET_BEGINNING, Consumer, Producer, TopicPartition

from siltstone.testing import StartFailed
from tests.support.broker import siltstone
from tests.support.daemon import Daemon
from tests.support.port_forward import PortForward
from tests.support.ports import free_ports
from tests.support.waiting import PATIENCE

pytestmark = [pytest.mark.client, pytest.mark.slow]

DOCKER = Path(__file__).parents[2] / "docker"


def image_environ(folder: Path) -> dict[str, str]:
    """Return the image's variables, with folders and a port of the test's."""
    return {
        "PATH": f"{Path(siltstone()).parent}:/usr/local/bin:/usr/bin:/bin",
        "PYTHONUNBUFFERED": "1",
        "SILTSTONE_CONFIG": str(DOCKER / "server.yaml"),
        "SILTSTONE_LOG_DIRS": str(folder / "data"),
        "SILTSTONE_HTTP_LISTENER": "127.0.0.1:0",
    }


class DockerContainer:
    """Stands for that of testcontainers-python: what a subclass of it uses, and no engine."""

    folder: Path
    is_broken = False

    def __init__(self, image: str, **options: Any) -> None:
        self.image, self.options = image, options
        self.env: dict[str, str] = {}
        self.ports: list[int] = []
        self.daemon = Daemon(self.folder / "container.log")
        self.mapped: PortForward | None = None

    def with_exposed_ports(self, *ports: int) -> Self:
        """Take ports to map."""
        self.ports += ports
        return self

    def with_env(self, key: str, value: str) -> Self:
        """Take a variable."""
        self.env[key] = value
        return self

    def start(self) -> Self:
        """Run the image's entry point and command; the engine maps the port at once."""
        (port,) = self.ports
        self.mapped = PortForward(port)
        command = "version" if self.is_broken else "serve"
        environ = image_environ(self.folder) | self.env
        self.daemon.launch([str(DOCKER / "entrypoint"), command], environ=environ)
        return self

    def stop(self) -> None:
        """End it."""
        self.daemon.kill()
        if self.mapped is not None:
            self.mapped.close()

    def __enter__(self) -> Self:
        try:
            return self.start()
        except BaseException:
            self.stop()
            raise

    def __exit__(self, *_: object) -> None:
        self.stop()

    def get_container_host_ip(self) -> str:
        """Return where the engine maps ports to."""
        return "127.0.0.1"

    def get_exposed_port(self, port: int) -> int:
        """Return the mapped port."""
        assert self.ports == [port]
        assert self.mapped is not None
        return self.mapped.port

    def get_logs(self) -> tuple[bytes, bytes]:
        """Return what was printed."""
        return self.daemon.output.read_bytes(), b""


@pytest.fixture
def containers(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Any]:
    """Our module, over the stand-in."""
    DockerContainer.folder = tmp_path
    core = ModuleType("testcontainers.core.container")
    core.DockerContainer = DockerContainer  # type: ignore[attr-defined]
    for name in ("testcontainers", "testcontainers.core"):
        monkeypatch.setitem(sys.modules, name, ModuleType(name))
    monkeypatch.setitem(sys.modules, core.__name__, core)
    module = importlib.import_module("siltstone.testing.containers")
    monkeypatch.setattr(module, "INSIDE_PORT", free_ports(1)[0])
    yield module
    sys.modules.pop(module.__name__)


def round_trip(bootstrap: str) -> list[bytes | None]:
    """Write a record and read it, by clients that go where they are told."""
    producer = Producer({"bootstrap.servers": bootstrap})
    producer.produce("trips", b"there and back", partition=0)
    assert producer.flush(PATIENCE) == 0
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "travellers"})
    consumer.assign([TopicPartition("trips", 0, OFFSET_BEGINNING)])
    message = consumer.poll(PATIENCE)
    consumer.close()
    assert message is not None
    return [message.value()]


def told_to(bootstrap: str) -> set[str]:
    """Return the addresses that a client learns."""
    return {str(each).partition("/")[0] for each in Producer({"bootstrap.servers": bootstrap})
            .list_topics(timeout=PATIENCE).brokers.values()}  # fmt: skip


def test_the_mapped_port_is_advertised(containers: Any) -> None:
    """A client that was given the mapped port is told to go there, and nowhere else."""
    with containers.SiltstoneContainer(port=free_ports(1)[0]) as kafka:
        bootstrap = kafka.get_bootstrap_server()

        assert bootstrap == f"127.0.0.1:{kafka.mapped.port}"
        assert told_to(bootstrap) == {bootstrap}
        assert round_trip(bootstrap) == [b"there and back"]
        inside = f"127.0.0.1:{containers.INSIDE_PORT}"
        (told,) = told_to(inside)
        assert told.endswith(f":{containers.INSIDE_PORT}")


def test_options_reach_the_container(containers: Any) -> None:
    """Image, name and whatever testcontainers takes."""
    kafka = containers.SiltstoneContainer("registry/siltstone:1", name="kafka")

    assert (kafka.image, kafka.options) == ("registry/siltstone:1", {"name": "kafka"})
    assert kafka.ports == [9092]


def test_a_container_that_does_not_answer(containers: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its last lines are told."""
    monkeypatch.setattr(DockerContainer, "is_broken", True)
    kafka = containers.SiltstoneContainer(port=free_ports(1)[0], start_seconds=1.0)

    with pytest.raises(StartFailed) as told, kafka:
        pass

    assert "does not answer at 127.0.0.1:" in str(told.value)
    assert "it printed\nsiltstone " in str(told.value)


def test_without_testcontainers(monkeypatch: pytest.MonkeyPatch) -> None:
    """The sentence says what to install."""
    monkeypatch.setitem(sys.modules, "testcontainers", None)
    sys.modules.pop("siltstone.testing.containers", None)

    with pytest.raises(ImportError, match="needs testcontainers; pip install testcontainers"):
        importlib.import_module("siltstone.testing.containers")


def test_the_steps_of_java(tmp_path: Path) -> None:
    """Those of org.testcontainers.kafka.KafkaContainer, but for its log line, which is Kafka's.

    The image runs a shell that waits for a script; when the port is mapped, the script is copied
    into the container. It sets what is advertised and starts the broker.
    """
    port, broker_port = free_ports(2)
    script = tmp_path / "testcontainers_start.sh"
    wait = f"while [ ! -f {script} ]; do sleep 0.1; done; {script}"
    variables = {
        "CLUSTER_ID": "4L6g3nShT-eMCtK--X86sw",
        "KAFKA_LISTENERS": f"PLAINTEXT://:{port},BROKER://:{broker_port},CONTROLLER://:9094",
        "KAFKA_LISTENER_SECURITY_PROTOCOL_MAP": (
            "BROKER:PLAINTEXT,PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT"
        ),
        "KAFKA_INTER_BROKER_LISTENER_NAME": "BROKER",
        "KAFKA_PROCESS_ROLES": "broker,controller",
        "KAFKA_CONTROLLER_LISTENER_NAMES": "CONTROLLER",
        "KAFKA_NODE_ID": "1",
        "KAFKA_OFFSETS_TOPIC_REPLICATION_FACTOR": "1",
        "KAFKA_OFFSETS_TOPIC_NUM_PARTITIONS": "1",
        "KAFKA_TRANSACTION_STATE_LOG_REPLICATION_FACTOR": "1",
        "KAFKA_TRANSACTION_STATE_LOG_MIN_ISR": "1",
        "KAFKA_LOG_FLUSH_INTERVAL_MESSAGES": str((1 << 63) - 1),
        "KAFKA_GROUP_INITIAL_REBALANCE_DELAY_MS": "0",
    }
    daemon = Daemon(tmp_path / "container.log")
    mapped = PortForward(port)
    try:
        daemon.launch(
            [str(DOCKER / "entrypoint"), "sh", "-c", wait],
            environ=image_environ(tmp_path) | variables,
            is_group=True,
        )
        told = f"PLAINTEXT://127.0.0.1:{mapped.port},BROKER://{socket.gethostname()}:{broker_port}"
        copy = script.with_suffix(".copy")
        copy.write_text(
            f"#!/bin/bash\nexport KAFKA_ADVERTISED_LISTENERS={told}\n{DOCKER / 'run'} \n"
        )
        copy.chmod(0o777)
        copy.replace(script)
        daemon.wait_for(r"\bready version=")

        bootstrap = f"127.0.0.1:{mapped.port}"
        assert told_to(bootstrap) == {bootstrap}
        assert round_trip(bootstrap) == [b"there and back"]
    finally:
        daemon.kill()
        mapped.close()


def test_the_image_has_what_those_steps_call() -> None:
    """At the paths of Apache Kafka's image, and both can be run."""
    lines = (DOCKER.parent / "Dockerfile").read_text().splitlines()

    assert "COPY docker/run /etc/kafka/docker/run" in lines
    assert "COPY docker/entrypoint /usr/local/bin/siltstone-entrypoint" in lines
    assert 'ENTRYPOINT ["siltstone-entrypoint"]' in lines
    assert os.access(DOCKER / "run", os.X_OK)
    assert os.access(DOCKER / "entrypoint", os.X_OK)

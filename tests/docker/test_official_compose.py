"""Compose files written for Apache Kafka's image, run by what our image runs.

A namespace of the network stands for the container's, and an empty folder for its own: the
variables are taken as they are.
"""

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path

import pytest

from tests.support.broker import READY, siltstone
from tests.support.daemon import Daemon
from tests.support.missing import require
from tests.support.programs import run_to_end

pytestmark = [pytest.mark.slow, pytest.mark.client]

DOCKER = Path(__file__).parents[2] / "docker"
ENTER = """
set -eu
ip link set lo up
hostname broker
mount --bind "$1" /etc/hosts
mkdir -p /tmp/kraft-combined-logs
mount -t tmpfs tmpfs /tmp/kraft-combined-logs
mount -t tmpfs tmpfs /mnt
mkdir -p /mnt/shared/config
cp "$2"/* /mnt/shared/config
shift 2
exec "$@"
"""
CLIENT = """
import sys
from confluent_kafka import Consumer, Producer, TopicPartition
for address in sys.argv[1:]:
    at = {"bootstrap.servers": address}
    producer = Producer(at)
    producer.produce("checked", address.encode(), partition=0)
    assert producer.flush(50) == 0
    consumer = Consumer({**at, "group.id": "billing", "auto.offset.reset": "earliest"})
    consumer.subscribe(["checked"])
    message = None
    while message is None or message.value() != address.encode():
        message = consumer.poll(50)
        assert message is not None and message.error() is None, message and message.error()
    consumer.close()
    print("talked through", address)
"""
MAP = "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT,PLAINTEXT_HOST:PLAINTEXT"
# What the single node of Apache Kafka's docker/examples sets, its roles combined, plaintext.
SINGLE_NODE = {
    "KAFKA_NODE_ID": "1",
    "KAFKA_LISTENER_SECURITY_PROTOCOL_MAP": MAP,
    "KAFKA_ADVERTISED_LISTENERS": "PLAINTEXT_HOST://localhost:9092,PLAINTEXT://broker:19092",
    "KAFKA_PROCESS_ROLES": "broker,controller",
    "KAFKA_CONTROLLER_QUORUM_VOTERS": "1@broker:29093",
    "KAFKA_LISTENERS": "CONTROLLER://:29093,PLAINTEXT_HOST://:9092,PLAINTEXT://:19092",
    "KAFKA_INTER_BROKER_LISTENER_NAME": "PLAINTEXT",
    "KAFKA_CONTROLLER_LISTENER_NAMES": "CONTROLLER",
    "CLUSTER_ID": "4L6g3nShT-eMCtK--X86sw",
    "KAFKA_OFFSETS_TOPIC_REPLICATION_FACTOR": "1",
    "KAFKA_GROUP_INITIAL_REBALANCE_DELAY_MS": "0",
    "KAFKA_TRANSACTION_STATE_LOG_MIN_ISR": "1",
    "KAFKA_TRANSACTION_STATE_LOG_REPLICATION_FACTOR": "1",
    "KAFKA_SHARE_COORDINATOR_STATE_TOPIC_REPLICATION_FACTOR": "1",
    "KAFKA_SHARE_COORDINATOR_STATE_TOPIC_MIN_ISR": "1",
    "KAFKA_LOG_DIRS": "/tmp/kraft-combined-logs",
}
# What its example of a file as input sets beside the file, without TLS.
BESIDE_A_FILE = {
    "CLUSTER_ID": "4L6g3nShT-eMCtK--X86sw",
    "KAFKA_NODE_ID": "1",
    "KAFKA_CONTROLLER_QUORUM_VOTERS": "1@broker:29093",
    "KAFKA_LISTENERS": "PLAINTEXT_HOST://:9092,CONTROLLER://:29093,PLAINTEXT://:19092",
    "KAFKA_PROCESS_ROLES": "broker,controller",
}
FILE = f"""\
advertised.listeners=PLAINTEXT_HOST://localhost:9092,PLAINTEXT://broker:19092
controller.listener.names=CONTROLLER
group.initial.rebalance.delay.ms=0
inter.broker.listener.name=PLAINTEXT
listener.security.protocol.map={MAP}
log.dirs=/tmp/kraft-combined-logs
offsets.topic.replication.factor=1
process.roles=broker
"""
# One of the three of its cluster with combined roles.
OF_THREE = {
    **SINGLE_NODE,
    "KAFKA_CONTROLLER_QUORUM_VOTERS": "1@kafka-1:9093,2@kafka-2:9093,3@kafka-3:9093",
    "KAFKA_LISTENERS": "PLAINTEXT://:19092,CONTROLLER://:9093,PLAINTEXT_HOST://:9092",
    "KAFKA_ADVERTISED_LISTENERS": "PLAINTEXT://kafka-1:19092,PLAINTEXT_HOST://localhost:29092",
}


class Container:
    """The image's command with the image's file and a compose file's variables."""

    def __init__(self, folder: Path, environ: Mapping[str, str], file: str = "") -> None:
        for program in ("unshare", "nsenter", "ip"):
            require(program)
        if os.geteuid():
            pytest.skip("root: only root may mount")
        hosts = folder / "hosts"
        hosts.write_text("127.0.0.1 localhost broker\n", encoding="utf-8")
        shared = folder / "shared"
        shared.mkdir()
        (shared / ("server.properties" if file else "none")).write_text(file, encoding="utf-8")
        self.daemon = Daemon(folder / "output")
        path = os.environ["PATH"]
        self.daemon.launch(
            [
                str(shutil.which("unshare")), "--mount", "--net", "--uts", "--propagation",
                "private", "sh", "-c", ENTER, "sh", str(hosts), str(shared), siltstone(),
                "serve",
            ],
            # Its own folder belongs to the image's user and is not here.
            environ={"PATH": path, "SILTSTONE_CONFIG": _files_of_the_image(), **environ},
        )  # fmt: skip

    def close(self) -> None:
        """End it; where its folder was mounted goes, too."""
        self.daemon.kill()
        with suppress(OSError):  # another has it
            Path(SINGLE_NODE["KAFKA_LOG_DIRS"]).rmdir()

    def inside(self, *command: str) -> "subprocess.CompletedProcess[str]":
        """Run a command of this machine in the container's network."""
        enter = ["nsenter", "--target", str(self.daemon.pid), "--net", "--mount", *command]
        return run_to_end(enter)


def _files_of_the_image() -> str:
    """Return the files that the image names, with this tree's in the place of its own."""
    image = (DOCKER.parent / "Dockerfile").read_text(encoding="utf-8")
    named = image.partition("SILTSTONE_CONFIG=")[2].split()[0]
    return named.replace("/etc/siltstone", str(DOCKER))


@pytest.fixture
def node(tmp_path: Path) -> Iterator[Container]:
    """The single node, ready."""
    made = Container(tmp_path, SINGLE_NODE)
    try:
        made.daemon.wait_for(READY)
        yield made
    finally:
        made.close()


def test_the_single_node_serves_both_listeners(node: Container) -> None:
    """Clients on the host and in other containers talk through what each is advertised."""
    done = node.inside(sys.executable, "-c", CLIENT, "localhost:9092", "broker:19092")

    assert done.stdout.splitlines() == [
        "talked through localhost:9092",
        "talked through broker:19092",
    ], done.stderr


def test_the_single_node_keeps_its_folder_and_id(node: Container) -> None:
    """The data are where the file says, and the cluster is the one that it names."""
    listed = node.inside("cat", "/tmp/kraft-combined-logs/meta.properties")

    assert f"cluster.id={SINGLE_NODE['CLUSTER_ID']}" in listed.stdout.splitlines()
    assert f"cluster_id={SINGLE_NODE['CLUSTER_ID']}" in node.daemon.printed()


def test_a_mounted_file_takes_the_place_of_the_images(tmp_path: Path) -> None:
    """Where Apache Kafka's image looks for one; variables win over it."""
    made = Container(tmp_path, BESIDE_A_FILE, FILE)
    try:
        made.daemon.wait_for(READY)
        done = made.inside(sys.executable, "-c", CLIENT, "localhost:9092", "broker:19092")
    finally:
        made.close()

    assert done.returncode == 0, done.stderr
    assert "log_dirs=/tmp/kraft-combined-logs" in made.daemon.printed()


def test_one_of_three_does_not_start(tmp_path: Path) -> None:
    """A broker that would be alone where three are expected says so and ends."""
    made = Container(tmp_path, OF_THREE)
    assert made.daemon.process is not None

    try:
        code = made.daemon.process.wait(50)
    finally:
        made.close()

    assert code == 2
    assert "KAFKA_CONTROLLER_QUORUM_VOTERS" in made.daemon.printed()

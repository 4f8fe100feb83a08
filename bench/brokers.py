"""The brokers that are measured: ours and Apache Kafka, started with the same settings."""

from __future__ import annotations

import compileall
import time
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

from tests.support.broker import SiltstoneProcess
from tests.support.kafka import CLUSTER_ID, KafkaBroker, KafkaJars
from tests.support.ports import address_of, free_ports

if TYPE_CHECKING:
    from collections.abc import Mapping

# Both get these. Little is kept, so that memory is used again at once (see README), and nothing is
# fsynced per batch.
SETTINGS = {
    "num.partitions": "4",
    "log.segment.bytes": str(64 << 20),
    "log.retention.bytes": str(128 << 20),
    "log.retention.check.interval.ms": "200",
    "log.initial.task.delay.ms": "500",
    "log.segment.delete.delay.ms": "100",
    "log.cleaner.dedupe.buffer.size": str(128 << 20),
    "group.initial.rebalance.delay.ms": "0",
}
# What kafka-server-start.sh gives the JVM, without its JMX agent and its garbage collection log.
STOCK = (
    "-Xms1g",
    "-Xmx1g",
    "-XX:+UseG1GC",
    "-XX:MaxGCPauseMillis=20",
    "-XX:InitiatingHeapOccupancyPercent=35",
)
START_SECONDS = 180
"""Apache Kafka takes a minute on a machine that many share."""

OURS = "siltstone"
ROOT = Path(__file__).parents[1]
PACKAGES = ("broker", "cleaner", "config", "protocol", "storage")
PEER = "kafka"


class StockJars(KafkaJars):
    """Jars whose broker runs as a user's would; the tests' own options are for quick starts."""

    def command(self, kind: str, main: str, *arguments: str) -> list[str]:
        """Return the command that runs a class."""
        if kind != "broker":
            return super().command(kind, main, *arguments)
        logging = f"-Dlog4j2.configurationFile={self.folder / 'log4j2.properties'}"
        return [self.java, *STOCK, logging, "-cp", f"{self.folder}/*", main, *arguments]


class Ours(SiltstoneProcess):
    """Our broker."""

    name = OURS

    def __init__(self, root: Path, settings: Mapping[str, str]) -> None:
        super().__init__(root, {**SETTINGS, **settings})
        self.topics: set[str] = set()  # made by cases

    def prepare(self) -> None:
        """Choose the port, so that a client can wait for it before the broker runs.

        The bytecode is brought up to date: an installer writes it, a checkout may be without.
        """
        for package in PACKAGES:
            compileall.compile_dir(ROOT / "siltstone" / package, quiet=2)
        [port] = free_ports(1)
        self.listener = f"127.0.0.1:{port}"

    def launch(self) -> int:
        """Start it without waiting; return the moment of exec (CLOCK_MONOTONIC, ns)."""
        began = time.monotonic_ns()
        self.daemon.launch(self.command("serve"))
        return began


class Peer(KafkaBroker):
    """Apache Kafka with the JVM options that its own script gives it."""

    name = PEER

    def __init__(self, root: Path, settings: Mapping[str, str]) -> None:
        found = KafkaJars.find()
        jars = StockJars(found.folder, found.java)
        super().__init__(jars, root, {**SETTINGS, **settings})
        self._properties = root / "server.properties"
        self.topics: set[str] = set()  # made by cases

    def prepare(self) -> None:
        """Format the folder, a JVM run of its own that is not counted as a start."""
        lines = (f"{name}={value}\n" for name, value in self.settings.items())
        self._properties.write_text("".join(lines), encoding="ascii")
        if not (self.folder / "meta.properties").exists():
            self._run_to_end(
                "kafka.tools.StorageTool",
                *("format", "-t", CLUSTER_ID, "-c", str(self._properties)),
            )

    def launch(self) -> int:
        """Start it without waiting; return the moment of exec (CLOCK_MONOTONIC, ns)."""
        began = time.monotonic_ns()
        self.daemon.launch(self.jars.command("broker", "kafka.Kafka", str(self._properties)))
        return began


Broker: TypeAlias = Ours | Peer


def make_broker(name: str, root: Path, settings: Mapping[str, str] | None = None) -> Broker:
    """Return a broker by name, not yet started."""
    return (Ours if name == OURS else Peer)(root, settings or {})


def port_of(broker: Broker) -> int:
    """Return where clients connect."""
    return address_of(broker.bootstrap)[1]


def resident_mib(broker: Broker) -> float:
    """Return the broker's VmRSS."""
    status = Path(f"/proc/{broker.daemon.pid}/status").read_text(encoding="ascii")
    kib = next(line.split()[1] for line in status.splitlines() if line.startswith("VmRSS:"))
    return int(kib) / 1024

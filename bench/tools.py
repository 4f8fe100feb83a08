"""Stock clients as load: Kafka's producer perf tool and an assigned librdkafka consumer.

They take most of the machine themselves, so read the broker's processor time per record.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from bench.brokers import Broker, port_of
from bench.cases import PARTITIONS, Pace, Result, fill, make_topic, wait_for_first
from bench.frames import batch_of, produce_frames
from tests.support.clients.confluent import Confluent
from tests.support.kafka import KafkaJars, KafkaTools

if TYPE_CHECKING:
    from collections.abc import Mapping

    from bench.comparison import Expected
    from bench.load import Load

_TICKS = os.sysconf("SC_CLK_TCK")
_RATE = re.compile(r"([\d.]+) records/sec.*?([\d.]+) ms 99th", re.DOTALL)
_ROOT = Path(__file__).parents[1]


def figures_of(said: str) -> tuple[float, float]:
    """Return records a second and the ms that 99 of 100 take, as the producer's tool ends.

    Raises:
        RuntimeError: It did not end with them.
    """
    found = _RATE.search(said.splitlines()[-1])
    if found is None:
        raise RuntimeError(f"the perf tool did not end with its figures: {said}")
    return float(found[1]), float(found[2])


@dataclass(frozen=True, slots=True, kw_only=True)
class PerfTool:
    """``ProducerPerformance`` with acks=all, linger 5 ms, batches of 128 KiB."""

    name: str
    record_bytes: int
    codec: str = "none"
    topic: str = "bench-tool"
    partitions: int = PARTITIONS
    megabytes: int = 300
    expected: Mapping[str, Expected] = field(default_factory=dict)

    def prepare(self, load: Load, broker: Broker, pace: Pace) -> None:  # noqa: ARG002
        """Make the topic; the tool's own first seconds warm the broker up."""
        make_topic_of(load, broker, self.topic, self.partitions)
        self._run(broker, self._count // 5)

    def measure(self, load: Load, broker: Broker, pace: Pace) -> Result:  # noqa: ARG002
        """Run the tool once."""
        return self._run(broker, self._count)

    def measure_floor(self, load: Load, pace: Pace, folder: Path) -> Result:  # noqa: ARG002
        """Nothing: the tool is its own limit."""
        return {}

    @property
    def _count(self) -> int:
        return self.megabytes * 1_000_000 // self.record_bytes // 1000 * 1000

    def _run(self, broker: Broker, count: int) -> Result:
        before = cpu_seconds(broker)
        said = KafkaTools(KafkaJars.find()).run(
            "ProducerPerformance",
            *("--topic", self.topic, "--num-records", str(count), "--throughput", "-1"),
            *("--record-size", str(self.record_bytes), "--producer-props"),
            *(f"bootstrap.servers={broker.bootstrap}", "acks=all", "linger.ms=5"),
            *("batch.size=131072", f"compression.type={self.codec}"),
            timeout=300,
        )
        rate, p99_ms = figures_of(said)
        return {
            "records/s": rate,
            "p99 ms": p99_ms,
            "CPU us/record": (cpu_seconds(broker) - before) * 1e6 / count,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class AssignedConsumer:
    """A librdkafka consumer that is assigned all partitions and reads them from the start."""

    name: str
    record_bytes: int
    topic: str = "bench-consumed"
    batches: int = 4000
    expected: Mapping[str, Expected] = field(default_factory=dict)

    def prepare(self, load: Load, broker: Broker, pace: Pace) -> None:
        """Fill the topic and read it once."""
        if make_topic(load, broker, self.topic):
            fill(load, broker, self.topic, self._batch(), self.batches)
        self.measure(load, broker, pace)

    def measure(self, load: Load, broker: Broker, pace: Pace) -> Result:  # noqa: ARG002
        """Read everything once in a process of its own."""
        count = self.batches * int.from_bytes(self._batch()[57:61], "big")
        before = cpu_seconds(broker)
        done = subprocess.run(
            [
                *(sys.executable, "-m", "bench.consume"),
                *(broker.bootstrap, self.topic, str(PARTITIONS), str(count)),
            ],
            capture_output=True,
            text=True,
            check=True,
            cwd=_ROOT,
        )
        seconds = json.loads(done.stdout)["seconds"]
        return {
            "records/s": count / seconds,
            "CPU us/record": (cpu_seconds(broker) - before) * 1e6 / count,
        }

    def measure_floor(self, load: Load, pace: Pace, folder: Path) -> Result:  # noqa: ARG002
        """Nothing: the client is its own limit."""
        return {}

    def _batch(self) -> bytes:
        return batch_of(64 << 10, self.record_bytes, int(time.time() * 1000))


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerPerfTool:
    """``ConsumerPerformance`` in a new group each time, over a topic that is filled once."""

    name: str
    record_bytes: int
    partitions: int
    topic: str
    batches: int = 6000
    expected: Mapping[str, Expected] = field(default_factory=dict)

    def prepare(self, load: Load, broker: Broker, pace: Pace) -> None:  # noqa: ARG002
        """Fill the topic, then run the tool once: its first seconds warm the broker up."""
        if make_topic_of(load, broker, self.topic, self.partitions):
            load.run(
                "produce",
                produce_frames(self.topic, range(self.partitions), self._batch(), 1),
                port=port_of(broker),
                connections=self.partitions,
                warmup=0,
                seconds=300,
                count=self.batches,
            )
        self._run(broker)

    def measure(self, load: Load, broker: Broker, pace: Pace) -> Result:  # noqa: ARG002
        """Run the tool once."""
        return self._run(broker)

    def measure_floor(self, load: Load, pace: Pace, folder: Path) -> Result:  # noqa: ARG002
        """Nothing: the tool is its own limit."""
        return {}

    def _run(self, broker: Broker) -> Result:
        count = self.batches * int.from_bytes(self._batch()[57:61], "big")
        before = cpu_seconds(broker)
        said = KafkaTools(KafkaJars.find()).run(
            "ConsumerPerformance",
            *("--bootstrap-server", broker.bootstrap, "--topic", self.topic, "--hide-header"),
            *("--num-records", str(count), "--group", f"bench-{time.time_ns()}"),
            timeout=120,
        )
        figures = [cell.strip() for cell in said.splitlines()[-1].split(",")]
        if len(figures) != 10 or int(figures[4]) < count:
            raise RuntimeError(f"the perf tool has not read {count} records: {said}")
        return {
            "records/s": float(figures[5]),
            "records/s once joined": float(figures[9]),
            "CPU us/record": (cpu_seconds(broker) - before) * 1e6 / count,
        }

    def _batch(self) -> bytes:
        return batch_of(64 << 10, self.record_bytes, int(time.time() * 1000))


def make_topic_of(load: Load, broker: Broker, topic: str, partitions: int) -> bool:
    """Make a topic; one of another size than the broker makes by itself is asked for."""
    if partitions != PARTITIONS and topic not in broker.topics:
        Confluent(broker.bootstrap).create(topic, partitions, {})
        wait_for_first(load, broker, time.monotonic_ns(), topic, range(partitions))
        broker.topics.add(topic)
        return True
    return make_topic(load, broker, topic)


def cpu_seconds(broker: Broker) -> float:
    """Return user and system time of all the broker's threads."""
    stat = Path(f"/proc/{broker.daemon.pid}/stat").read_text(encoding="utf-8")
    user, system = stat.rpartition(")")[2].split()[11:13]
    return (int(user) + int(system)) / _TICKS

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
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from bench.brokers import Broker, port_of
from bench.cases import PARTITIONS, Pace, Result, make_topic
from bench.frames import batch_of, produce_frames
from tests.support.kafka import KafkaJars, KafkaTools

if TYPE_CHECKING:
    from bench.load import Load

_TICKS = os.sysconf("SC_CLK_TCK")
_RATE = re.compile(r"([\d.]+) records/sec.*?([\d.]+) ms 99th", re.DOTALL)
_ROOT = Path(__file__).parents[1]


@dataclass(frozen=True, slots=True, kw_only=True)
class PerfTool:
    """``ProducerPerformance`` with acks=all, linger 5 ms, batches of 128 KiB."""

    name: str
    record_bytes: int
    codec: str = "none"
    topic: str = "bench-tool"

    def prepare(self, load: Load, broker: Broker, pace: Pace) -> None:  # noqa: ARG002
        """Make the topic; the tool's own first seconds warm the broker up."""
        make_topic(load, broker, self.topic)
        self._run(broker, self._count // 5)

    def measure(self, load: Load, broker: Broker, pace: Pace) -> Result:  # noqa: ARG002
        """Run the tool once."""
        return self._run(broker, self._count)

    def measure_floor(self, load: Load, pace: Pace, folder: Path) -> Result:  # noqa: ARG002
        """Nothing: the tool is its own limit."""
        return {}

    @property
    def _count(self) -> int:
        return 300_000_000 // self.record_bytes // 1000 * 1000

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
        found = _RATE.search(said.splitlines()[-1])
        if found is None:
            raise RuntimeError(f"the perf tool did not end with its figures: {said}")
        return {
            "records/s": float(found[1]),
            "p99 ms": float(found[2]),
            "CPU us/record": (cpu_seconds(broker) - before) * 1e6 / count,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class AssignedConsumer:
    """A librdkafka consumer that is assigned all partitions and reads them from the start."""

    name: str
    record_bytes: int
    topic: str = "bench-consumed"
    batches: int = 4000

    def prepare(self, load: Load, broker: Broker, pace: Pace) -> None:
        """Fill the topic and read it once."""
        if make_topic(load, broker, self.topic):
            batch = self._batch()
            load.run(
                "produce",
                produce_frames(self.topic, range(PARTITIONS), batch, 1),
                port=port_of(broker),
                connections=PARTITIONS,
                warmup=0,
                seconds=300,
                count=self.batches,
            )
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


def cpu_seconds(broker: Broker) -> float:
    """Return user and system time of all the broker's threads."""
    stat = Path(f"/proc/{broker.daemon.pid}/stat").read_text(encoding="utf-8")
    user, system = stat.rpartition(")")[2].split()[11:13]
    return (int(user) + int(system)) / _TICKS

"""Kafka's consumer perf tool as load: one member of a group that reads a topic from its start.

It takes most of the machine itself, so read the broker's processor time per record.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Final

from bench.brokers import port_of
from bench.cases import PARTITIONS, make_topic
from bench.comparison import Expected
from bench.frames import batch_of, produce_frames
from bench.tools import cpu_seconds
from tests.support.kafka import KafkaJars, KafkaTools

if TYPE_CHECKING:
    from collections.abc import Mapping

    from bench.brokers import Broker
    from bench.cases import Result
    from bench.load import Load

_TOPIC: Final = "bench-consumer-tool"
_BATCHES: Final = 6000
_BATCH_BYTES: Final = 64 << 10
_RECORD_BYTES: Final = 100


@dataclass(frozen=True, slots=True)
class ConsumerTool:
    """``ConsumerPerformance`` in a new group each time, in one of the two group protocols."""

    load: Load
    protocol: str
    most_rounds: ClassVar[int] = 100
    expected: ClassVar[Mapping[str, Expected]] = {
        "records/s": Expected(1),
        "CPU us/record": Expected(0.4),
    }

    @property
    def name(self) -> str:
        """Its name in the table."""
        return f"consumer perf tool, {self.protocol} protocol"

    def prepare(self, broker: Broker, seconds: float) -> None:  # noqa: ARG002
        """Fill the topic, then run the tool once: its first seconds warm the broker up."""
        if make_topic(self.load, broker, _TOPIC):
            self.load.run(
                "produce",
                produce_frames(_TOPIC, range(PARTITIONS), _batch(), 1),
                port=port_of(broker),
                connections=PARTITIONS,
                warmup=0,
                seconds=300,
                count=_BATCHES,
            )
        self._run(broker)

    def measure(self, broker: Broker, seconds: float) -> Result:  # noqa: ARG002
        """Run the tool once."""
        return self._run(broker)

    def _run(self, broker: Broker) -> Result:
        count = _BATCHES * int.from_bytes(_batch()[57:61], "big")
        before = cpu_seconds(broker)
        said = KafkaTools(KafkaJars.find()).run(
            "ConsumerPerformance",
            *("--bootstrap-server", broker.bootstrap, "--topic", _TOPIC, "--hide-header"),
            *("--num-records", str(count), "--group", f"bench-{time.time_ns()}"),
            *("--command-property", f"group.protocol={self.protocol}"),
            timeout=60,
        )
        figures = [cell.strip() for cell in said.splitlines()[-1].split(",")]
        if len(figures) != 10 or int(figures[4]) < count:
            raise RuntimeError(f"the perf tool has not read {count} records: {said}")
        return {
            "records/s": float(figures[5]),
            "ms to join": float(figures[6]),
            "records/s once joined": float(figures[9]),
            "CPU us/record": (cpu_seconds(broker) - before) * 1e6 / count,
        }


def _batch() -> bytes:
    return batch_of(_BATCH_BYTES, _RECORD_BYTES, int(time.time() * 1000))

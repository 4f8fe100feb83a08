"""Cases about starting, memory and recovery: every round has a broker and a folder of its own."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

from bench.brokers import Broker, make_broker, port_of, resident_mib
from bench.cases import PARTITIONS, Result, wait_for_first
from bench.frames import Frames, api_versions_frame, batch_of, fetch_frames, produce_frames

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from bench.cases import Pace
    from bench.comparison import Expected
    from bench.load import Load

_SETTLE_SECONDS = 2.0
_STOP_LIMIT_SECONDS = 120


class FreshCase(Protocol):
    """A case that starts brokers of its own."""

    @property
    def name(self) -> str:
        """Its name in the table."""

    @property
    def expected(self) -> Mapping[str, Expected]:
        """Aims for us, by quantity."""

    def measure(self, load: Load, broker_name: str, folder: Path, pace: Pace) -> Result:
        """Measure one round in an empty folder."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Start:
    """From exec to the first acks=all ack of a topic that it makes, and what is resident then."""

    name: str = "start, empty folder"
    idle_connections: int = 1000
    expected: Mapping[str, Expected] = field(default_factory=dict)

    def measure(
        self,
        load: Load,
        broker_name: str,
        folder: Path,
        pace: Pace,  # noqa: ARG002
    ) -> Result:
        """Measure one start."""
        broker = make_broker(broker_name, folder)
        broker.prepare()
        try:
            first_ack = wait_for_first(load, broker, broker.launch(), "first")
            time.sleep(_SETTLE_SECONDS)
            idle = resident_mib(broker)
            batch = batch_of(0, 100, int(time.time() * 1000))
            cold = load.run(
                "produce",
                produce_frames("first", range(PARTITIONS), batch, 1),
                port=port_of(broker),
                connections=8,
                warmup=0,
                seconds=1,
            )
            time.sleep(_SETTLE_SECONDS)
            before = resident_mib(broker)
            greeting = Frames(data=api_versions_frame(), positions={})
            with load.running(
                "idle", greeting, port=port_of(broker), connections=self.idle_connections
            ):
                held = resident_mib(broker) - before
            return {
                "exec to first ack s": first_ack,
                "resident after a first client MiB": idle,
                "first second at 8x1 requests/s": cold["rps"],
                f"{self.idle_connections} idle connections MiB": held,
            }
        finally:
            broker.close()


@dataclass(frozen=True, slots=True, kw_only=True)
class ManyPartitions:
    """Thousands of partitions: their memory, and the time until they come back."""

    name: str
    partitions: int
    bytes_each: int
    topic: str = "many"
    expected: Mapping[str, Expected] = field(default_factory=dict)

    def measure(
        self,
        load: Load,
        broker_name: str,
        folder: Path,
        pace: Pace,  # noqa: ARG002
    ) -> Result:
        """Measure one broker's life."""
        settings = {"num.partitions": str(self.partitions)}
        broker = make_broker(broker_name, folder, settings)
        broker.prepare()
        try:
            wait_for_first(load, broker, broker.launch(), self.topic)
            self._wait_until_readable(load, broker, time.monotonic_ns())
            time.sleep(_SETTLE_SECONDS)
            result = {"resident MiB": resident_mib(broker)}
            batch = batch_of(16 << 10, 1000, int(time.time() * 1000))
            load.run(
                "produce",
                produce_frames(self.topic, range(self.partitions), batch, 1),
                port=port_of(broker),
                connections=8,
                warmup=0,
                seconds=600,
                count=max(1, self.bytes_each // len(batch)) * self.partitions,
            )
            broker.kill()
            began = broker.launch()
            result["kill -9 to first ack s"] = wait_for_first(load, broker, began, self.topic)
            result["kill -9 to all readable s"] = self._wait_until_readable(load, broker, began)
            broker.stop(timeout=_STOP_LIMIT_SECONDS)
            began = broker.launch()
            result["clean restart to first ack s"] = wait_for_first(load, broker, began, self.topic)
            return result
        finally:
            broker.close()

    def _wait_until_readable(self, load: Load, broker: Broker, since: int) -> float:
        frames = fetch_frames(self.topic, range(self.partitions), 1)
        got = load.run("first", frames, port=port_of(broker), since=since, limit=300)
        return float(got["seconds"])

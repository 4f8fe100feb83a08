"""Load on brokers that are up: each case makes ready, warms up and measures one at a time."""

from __future__ import annotations

import json
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol, TypeAlias

from bench.brokers import PEER, Broker, port_of
from bench.frames import (
    Frames,
    batch_of,
    fetch_frames,
    first_frames,
    produce_answer,
    produce_frames,
)

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from bench.comparison import Expected
    from bench.load import Load

Result: TypeAlias = dict[str, float]
"""Quantity with its unit, such as ``p99 us``, to what was measured."""

PARTITIONS = 4
_FETCHED_BYTES = 256 << 20
_FETCH_BATCH_BYTES = 64 << 10
_FETCH_RECORD_BYTES = 1000
_GB = 1e9
_LEAD_SECONDS = 8.0
"""Until the page cache has been through what the host took back since the last round."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Pace:
    """How long things run, in seconds; a JVM needs a minute of the very load to be warm."""

    measure: float
    warm_ours: float
    warm_peer: float


def fill(load: Load, broker: Broker, topic: str, batch: bytes, count: int) -> None:
    """Write a batch so many times, over a connection for each partition."""
    load.run(
        "produce",
        produce_frames(topic, range(PARTITIONS), batch, 1),
        port=port_of(broker),
        connections=PARTITIONS,
        warmup=0,
        seconds=300,
        count=count,
    )


def produce_small(load: Load, broker: Broker, topic: str, warmup: float, seconds: float) -> Result:
    """Produce 100 B over 8 connections, each with one request at a time."""
    return load.run(
        "produce",
        produce_frames(topic, range(PARTITIONS), batch_of(0, 100, int(time.time() * 1000)), 1),
        port=port_of(broker),
        pid=broker.daemon.pid,
        connections=8,
        inflight=1,
        warmup=warmup,
        seconds=seconds,
    )


class LoadCase(Protocol):
    """A case that runs against brokers which are up."""

    @property
    def name(self) -> str:
        """Its name in the table."""

    @property
    def expected(self) -> Mapping[str, Expected]:
        """Aims for us, by quantity."""

    def prepare(self, load: Load, broker: Broker, pace: Pace) -> None:
        """Make topics and data, and warm the broker up."""

    def measure(self, load: Load, broker: Broker, pace: Pace) -> Result:
        """Measure one round."""

    def measure_floor(self, load: Load, pace: Pace, folder: Path) -> Result:
        """Measure what no broker can beat here."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Produce:
    """Produce v9 in a closed loop; ``batch_bytes`` 0 is one record a request."""

    name: str
    connections: int
    inflight: int
    batch_bytes: int = 0
    record_bytes: int = 100
    acks: int = 1
    expected: Mapping[str, Expected] = field(default_factory=dict)

    @property
    def topic(self) -> str:
        """One topic for small requests and one for big ones: they roll differently."""
        return "bench-big" if self.batch_bytes else "bench-small"

    def prepare(self, load: Load, broker: Broker, pace: Pace) -> None:
        """Make the topic, then warm up by this very load."""
        make_topic(load, broker, self.topic)
        seconds = pace.warm_peer if broker.name == PEER else pace.warm_ours
        self._run(load, port_of(broker), broker.daemon.pid, 0, seconds)

    def measure(self, load: Load, broker: Broker, pace: Pace) -> Result:
        """Measure one round; of big batches not before freed pages are used again."""
        lead = _LEAD_SECONDS if self.batch_bytes else 0.3
        return self._run(load, port_of(broker), broker.daemon.pid, lead, pace.measure)

    def measure_floor(self, load: Load, pace: Pace, folder: Path) -> Result:  # noqa: ARG002
        """Measure the server that answers without storing."""
        with load.running("floor", Frames(data=produce_answer(self.topic), positions={})) as floor:
            process, line = floor
            return self._run(load, json.loads(line)["port"], process.pid, 0.3, pace.measure)

    def _run(self, load: Load, port: int, pid: int, warmup: float, seconds: float) -> Result:
        batch = batch_of(self.batch_bytes, self.record_bytes, int(time.time() * 1000))
        got = load.run(
            "produce",
            produce_frames(self.topic, range(PARTITIONS), batch, self.acks),
            port=port,
            pid=pid,
            connections=self.connections,
            inflight=self.inflight,
            warmup=warmup,
            seconds=seconds,
        )
        gigabytes = got["requests"] * len(batch) / _GB
        result = {"p50 us": got["p50_us"], "p99 us": got["p99_us"]}
        if self.batch_bytes:
            return {
                "GB/s": gigabytes / got["seconds"],
                **result,
                "CPU s/GB": got["broker_cpu_seconds"] / gigabytes,
            }
        return {
            "requests/s": got["rps"],
            **result,
            "CPU us/request": got["broker_cpu_seconds"] * 1e6 / got["requests"],
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Fetch:
    """Fetch v12 over 256 MiB of 64 KiB batches that lie in the page cache."""

    name: str
    connections: int
    max_bytes: int
    sink: str = "drop"
    topic: str = "bench-fetch"
    expected: Mapping[str, Expected] = field(default_factory=dict)

    def prepare(self, load: Load, broker: Broker, pace: Pace) -> None:
        """Fill the topic once, then warm up by this very load."""
        if make_topic(load, broker, self.topic):
            self._fill(load, broker)
        seconds = pace.warm_peer if broker.name == PEER else pace.warm_ours
        self._run(load, broker, 0, seconds)

    def measure(self, load: Load, broker: Broker, pace: Pace) -> Result:
        """Measure one round."""
        return self._run(load, broker, 0.3, pace.measure)

    def measure_floor(self, load: Load, pace: Pace, folder: Path) -> Result:
        """Measure a bare sendfile loop over as many connections, in chunks of this size."""
        file = folder / "sendfile"
        if not file.exists():
            file.write_bytes(bytes(256 << 20))
        got = load.run(
            "sendfile",
            file=file,
            bytes=self.max_bytes,
            connections=self.connections,
            sink=self.sink,
            seconds=pace.measure,
        )
        gigabytes = got["bytes"] / _GB
        return {
            "GB/s": gigabytes / got["seconds"],
            "CPU s/GB": got["broker_cpu_seconds"] / gigabytes,
        }

    def _fill(self, load: Load, broker: Broker) -> None:
        batch = self._batch()
        # A few more than are read, since connections do not end at the same moment.
        fill(load, broker, self.topic, batch, _FETCHED_BYTES // len(batch) + 64 * PARTITIONS)

    def _run(self, load: Load, broker: Broker, warmup: float, seconds: float) -> Result:
        batch = self._batch()
        records = int.from_bytes(batch[57:61], "big")
        got = load.run(
            "fetch",
            fetch_frames(self.topic, range(PARTITIONS), self.max_bytes),
            port=port_of(broker),
            pid=broker.daemon.pid,
            connections=self.connections,
            batch_bytes=len(batch),
            batch_records=records,
            first_offset=1,  # behind the record that made the topic
            end_offset=1 + _FETCHED_BYTES // PARTITIONS // len(batch) * records,
            sink=self.sink,
            warmup=warmup,
            seconds=seconds,
        )
        gigabytes = got["bytes"] / _GB
        return {
            "GB/s": gigabytes / got["seconds"],
            "p50 us": got["p50_us"],
            "p99 us": got["p99_us"],
            "CPU s/GB": got["broker_cpu_seconds"] / gigabytes,
        }

    @staticmethod
    def _batch() -> bytes:
        return batch_of(_FETCH_BATCH_BYTES, _FETCH_RECORD_BYTES, int(time.time() * 1000))


def make_topic(load: Load, broker: Broker, topic: str) -> bool:
    """Let the broker make a topic; return whether this was the first call for it here."""
    if topic in broker.topics:
        return False
    wait_for_first(load, broker, time.monotonic_ns(), topic, range(PARTITIONS))
    broker.topics.add(topic)
    return True


def wait_for_first(
    load: Load, broker: Broker, since: int, topic: str, partitions: range = range(1)
) -> float:
    """Produce until every partition has acked; return the seconds since ``since``."""
    frames = first_frames(topic, partitions, batch_of(0, 100, int(time.time() * 1000)))
    got = load.run("first", frames, port=port_of(broker), since=since, limit=120)
    return float(got["seconds"])

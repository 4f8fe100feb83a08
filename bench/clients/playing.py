"""A case that plays scripts on a broker, and on a server that has the same answers ready."""

from __future__ import annotations

import json
from abc import abstractmethod
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from bench.brokers import PEER, port_of
from bench.clients.scripts import answer_frames, play_frames
from bench.comparison import Expected
from bench.connection import Connection

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from bench.brokers import Broker
    from bench.cases import Pace, Result
    from bench.clients.scripts import Script
    from bench.load import Load

_LEAD_SECONDS = 0.3


def twice(requests: float, cost: float) -> dict[str, Expected]:
    """Return what is expected of the requests a second and of the price of one."""
    return {"requests/s": Expected(requests), "CPU us/request": Expected(cost)}


@dataclass(frozen=True, kw_only=True)
class Playing:
    """Scripts in a closed loop; they are made for each round, by requests to the broker."""

    name: str
    connections: int = 4
    inflight: int = 1
    tolerated: int = 0  # an error code that is not counted: the client asks again
    expected: Mapping[str, Expected] = field(default_factory=dict)
    kept: dict[str, Sequence[Script]] = field(default_factory=dict)  # the last scripts, by broker

    @abstractmethod
    def scripts(self, broker: Broker, connection: Connection) -> Sequence[Script]:
        """Return what each connection sends."""

    def prepare(self, load: Load, broker: Broker, pace: Pace) -> None:
        """Make topics and data, then warm up by this very load."""
        self.play(load, broker, 0, pace.warm_peer if broker.name == PEER else pace.warm_ours)

    def measure(self, load: Load, broker: Broker, pace: Pace) -> Result:
        """Measure one round."""
        return self.play(load, broker, _LEAD_SECONDS, pace.measure)

    def measure_floor(self, load: Load, pace: Pace, folder: Path) -> Result:  # noqa: ARG002
        """Measure the server that has the answers which the broker gave last."""
        scripts = next(iter(self.kept.values()))
        with load.running("answers", answer_frames(scripts)) as (process, line):
            at = {"port": json.loads(line)["port"], "pid": process.pid}
            return self._run(load, scripts, at, _LEAD_SECONDS, pace.measure)

    def play(self, load: Load, broker: Broker, warmup: float, seconds: float) -> Result:
        """Make the scripts and play them."""
        connection = Connection(port_of(broker))
        try:
            scripts = self.scripts(broker, connection)
            self.kept[broker.name] = scripts
            at = {"port": port_of(broker), "pid": broker.daemon.pid}
            result = self._run(load, scripts, at, warmup, seconds)
            self.finish(connection, scripts)
        finally:
            connection.close()
        return result

    def _run(
        self,
        load: Load,
        scripts: Sequence[Script],
        at: Mapping[str, int],
        warmup: float,
        seconds: float,
    ) -> Result:
        options = {**at, "tolerate": self.tolerated}
        return run_scripts(load, scripts, options, warmup, seconds)

    def finish(self, connection: Connection, scripts: Sequence[Script]) -> None:
        """Take back what the scripts held on the broker."""


def run_scripts(
    load: Load, scripts: Sequence[Script], at: Mapping[str, int], warmup: float, seconds: float
) -> Result:
    """Play scripts and return what was measured."""
    got = load.run("play", play_frames(scripts), **at, warmup=warmup, seconds=seconds)
    return {
        "requests/s": got["rps"],
        "p50 us": got["p50_us"],
        "p99 us": got["p99_us"],
        "CPU us/request": got["broker_cpu_seconds"] * 1e6 / got["requests"],
    }

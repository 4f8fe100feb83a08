"""Cases of groups: the price of their requests, rebalances and memory."""

from __future__ import annotations

import json
import tempfile
import time
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Final

from kio.schema.errors import ErrorCode

from bench.brokers import OURS, make_broker, port_of, resident_mib
from bench.comparison import Expected
from bench.connection import (
    Connection,
    answer_frame,
    frame,
    part,
    response_class,
)
from bench.frames import Frames
from bench.group_members import measure_rebalances
from bench.group_requests import commit, enter, fetch_offsets, find_coordinator, heartbeat
from tests.support.clients.confluent import Confluent

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from bench.brokers import Broker
    from bench.cases import Result
    from bench.load import Load

TOPIC: Final = "bench-groups"
PARTITIONS: Final = 100
GROUPS: Final = 100
_SETTLING_SECONDS: Final = 0.3
_OF_FLOOR: Final = ("requests/s", "CPU us/request")
_NO_TIME: Final = timedelta(0)


def make_topic(broker: Broker, topic: str, partitions: int) -> None:
    """Make a topic if no case has made it on this broker before."""
    if topic not in broker.topics:
        Confluent(broker.bootstrap).create(topic, partitions, {})
        broker.topics.add(topic)


def await_coordinator(connection: Connection, groups: Sequence[str]) -> None:
    """Wait until the coordinator of each group answers: Kafka makes its journal when asked."""
    for group in groups:
        connection.ask_until(find_coordinator(group), lambda answer: is_found(answer.coordinators))
        connection.ask_until(
            fetch_offsets([group], TOPIC, 0), lambda answer: is_found(answer.groups)
        )


def is_found(rows: Sequence[Any]) -> bool:
    """Tell whether no row of an answer is a refusal."""
    return all(row.error_code is ErrorCode.none for row in rows)


@dataclass(frozen=True, slots=True)
class _Requests:
    """A closed loop of ``load.c``: as many groups as connections, one request in flight each."""

    load: Load
    frames: dict[str, Frames] = field(default_factory=dict)  # by broker
    answers: dict[str, bytes] = field(default_factory=dict)  # by broker, a good one
    most_rounds: ClassVar[int] = 100
    expected: ClassVar[Mapping[str, Expected]] = {"requests/s": Expected(3)}

    def run(self, broker: Broker, warmup: float, seconds: float) -> Result:
        """Run the loop and return what it measured."""
        at = {"port": port_of(broker), "pid": broker.daemon.pid}
        return self._run(self.frames[broker.name], at, warmup, seconds)

    def measure(self, broker: Broker, seconds: float) -> Result:
        """Measure one round, and what no broker can beat beside ours."""
        got = self.run(broker, _SETTLING_SECONDS, seconds)
        if broker.name != OURS:
            return got
        floor = self._run_floor(broker, seconds)
        return {**got, **{f"floor's {each}": floor[each] for each in _OF_FLOOR}}

    def _run_floor(self, broker: Broker, seconds: float) -> Result:
        """Run the same loop on a server that gives each frame one canned answer."""
        canned = Frames(data=self.answers[broker.name], positions={})
        with self.load.running("floor", canned) as (process, line):
            at = {"port": json.loads(line)["port"], "pid": process.pid}
            return self._run(self.frames[broker.name], at, _SETTLING_SECONDS, seconds)

    def _run(self, frames: Frames, at: Mapping[str, int], warmup: float, seconds: float) -> Result:
        got = self.load.run(
            "produce", frames, **at, connections=GROUPS, own=1, warmup=warmup, seconds=seconds
        )
        return {
            "requests/s": got["rps"],
            "p50 us": got["p50_us"],
            "p99 us": got["p99_us"],
            "CPU us/request": got["broker_cpu_seconds"] * 1e6 / got["requests"],
        }


@dataclass(frozen=True, slots=True)
class Commits(_Requests):
    """Groups that commit one partition each, again and again."""

    name: ClassVar[str] = "offset commits, 100 groups"

    def prepare(self, broker: Broker, seconds: float) -> None:
        """Make the topic and the journal, then commit for a while."""
        make_topic(broker, TOPIC, PARTITIONS)
        groups = [f"commits-{number:03}" for number in range(GROUPS)]
        connection = Connection(port_of(broker))
        await_coordinator(connection, groups)
        connection.close()
        frames = b"".join(frame(commit(group, TOPIC, [0], 1)) for group in groups)
        response = response_class(8, 8)
        row, rows = (
            part(response, f"OffsetCommitResponse{name}") for name in ("Partition", "Topic")
        )
        good, bad = (
            response(
                throttle_time=_NO_TIME,
                topics=(rows(name=TOPIC, partitions=(row(partition_index=0, error_code=e),)),),
            )
            for e in (ErrorCode.none, ErrorCode.unknown_server_error)
        )
        self.answers[broker.name] = answer_frame(good)
        self.frames[broker.name] = Frames(
            data=frames, positions={"error_at": _differ_at(good, bad)}
        )
        self.run(broker, 0, seconds)


@dataclass(frozen=True, slots=True)
class Heartbeats(_Requests):
    """Groups of one member that beats again and again."""

    name: ClassVar[str] = "heartbeats, 100 groups"

    def prepare(self, broker: Broker, seconds: float) -> None:
        """Let the members enter, then beat for a while."""
        make_topic(broker, TOPIC, PARTITIONS)
        groups = [f"heartbeats-{number:03}" for number in range(GROUPS)]
        connection = Connection(port_of(broker))
        await_coordinator(connection, groups)
        frames = b"".join(
            frame(heartbeat(group, *enter(connection, group, TOPIC))) for group in groups
        )
        connection.close()
        response = response_class(12, 4)
        good, bad = (
            response(throttle_time=_NO_TIME, error_code=e)
            for e in (ErrorCode.none, ErrorCode.unknown_server_error)
        )
        self.answers[broker.name] = answer_frame(good)
        self.frames[broker.name] = Frames(
            data=frames, positions={"error_at": _differ_at(good, bad)}
        )
        self.run(broker, 0, seconds)


def _differ_at(good: Any, bad: Any) -> int:
    """Return where in the frame two answers differ."""
    both = zip(answer_frame(good), answer_frame(bad), strict=True)
    return next(position for position, (one, other) in enumerate(both) if one != other)


@dataclass(frozen=True, slots=True)
class Rebalances:
    """A group of fifty members that start at once; then one leaves."""

    name: ClassVar[str] = "50 members"
    most_rounds: ClassVar[int] = 100
    expected: ClassVar[Mapping[str, Expected]] = {
        "ms after start": Expected(0.5),
        "ms after one left": Expected(0.5),
    }
    members: int = 50

    def prepare(self, broker: Broker, seconds: float) -> None:
        """Rebalance for a while."""
        make_topic(broker, TOPIC, PARTITIONS)
        self._run(broker, seconds)

    def measure(self, broker: Broker, seconds: float) -> Result:
        """Measure new groups until the time is over; their medians are not of one group alone."""
        both = sorted(self._run(broker, seconds))
        left = sorted(left for _, left in both)
        return {
            "ms after start": both[len(both) // 2][0],
            "ms after one left": left[len(left) // 2],
        }

    def _run(self, broker: Broker, seconds: float) -> list[tuple[float, float]]:
        port = port_of(broker)
        end = time.monotonic() + seconds
        found: list[tuple[float, float]] = []
        while not found or time.monotonic() < end:
            group = f"rebalances-{time.time_ns()}"
            connection = Connection(port)
            await_coordinator(connection, [group])
            connection.close()
            found.append(measure_rebalances(port, group, TOPIC, self.members))
        return found


@dataclass(frozen=True, slots=True)
class Memory:
    """Memory of groups of one member, in a broker of its own that has served a hundred of them."""

    groups: int = 10_000
    most_rounds: ClassVar[int] = 1
    expected: ClassVar[Mapping[str, Expected]] = {"MiB": Expected(60, is_ratio=False)}

    @property
    def name(self) -> str:
        """Its name in the table."""
        return f"{self.groups:,} groups of one member"

    def prepare(self, broker: Broker, seconds: float) -> None:
        """Nothing: the broker is a new one."""

    def measure(self, broker: Broker, seconds: float) -> Result:  # noqa: ARG002
        """Measure a new broker of the same kind."""
        with tempfile.TemporaryDirectory() as folder:
            fresh = make_broker(broker.name, Path(folder))
            try:
                fresh.start()
                make_topic(fresh, TOPIC, PARTITIONS)
                self._enter(fresh, "first", GROUPS)
                before = resident_mib(fresh)
                self._enter(fresh, "many", self.groups)
                return {"MiB": resident_mib(fresh) - before}
            finally:
                fresh.close()

    @staticmethod
    def _enter(broker: Broker, prefix: str, count: int) -> None:
        connection = Connection(port_of(broker))
        groups = [f"{prefix}-{number}" for number in range(count)]
        await_coordinator(connection, groups[:GROUPS])
        for group in groups:
            enter(connection, group, TOPIC)
        connection.close()

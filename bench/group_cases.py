"""What is measured of groups: the price of their requests, rebalances, memory and starting."""

from __future__ import annotations

import tempfile
import threading
import time
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Final

from kio.schema.errors import ErrorCode

from bench.brokers import make_broker, port_of, resident_mib
from bench.comparison import Expected
from bench.connection import (
    SECONDS,
    Connection,
    answer_frame,
    frame,
    part,
    read_answer,
    response_class,
)
from bench.frames import Frames, api_versions_frame
from bench.group_members import measure_rebalances
from bench.group_requests import commit, enter, fetch_offsets, find_coordinator, heartbeat
from protocol.coordinator.java_hash import partition_for
from tests.support.clients.confluent import Confluent

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from bench.brokers import Broker
    from bench.cases import Result
    from bench.load import Load

TOPIC: Final = "bench-groups"
PARTITIONS: Final = 100
GROUPS: Final = 100
_JOURNAL_PARTITIONS: Final = 50
_POLL_SECONDS: Final = 0.002
_FILLING_CONNECTIONS: Final = 10
_MARK: Final = 0x1122_3344_5566_7788
_NO_TIME: Final = timedelta(0)


def make_topic(broker: Broker, topic: str, partitions: int) -> None:
    """Make a topic if no case has made it on this broker before."""
    if topic not in broker.topics:
        Confluent(broker.bootstrap).create(topic, partitions, {})
        broker.topics.add(topic)


def await_coordinator(connection: Connection, groups: Sequence[str]) -> None:
    """Wait until the coordinator of each group is there: Kafka makes its journal when asked."""
    for group in groups:
        connection.ask_until(find_coordinator(group), lambda answer: _is_found(answer.coordinators))
        connection.ask_until(
            fetch_offsets([group], TOPIC, 0), lambda answer: _is_found(answer.groups)
        )


def _is_found(rows: Sequence[Any]) -> bool:
    return all(row.error_code is ErrorCode.none for row in rows)


@dataclass(frozen=True, slots=True)
class _Requests:
    """A closed loop of ``load.c``: as many groups as connections, one request in flight each."""

    load: Load
    frames: dict[str, Frames] = field(default_factory=dict)  # by broker
    most_rounds: ClassVar[int] = 100
    expected: ClassVar[Mapping[str, Expected]] = {"requests/s": Expected(3)}

    def run(self, broker: Broker, warmup: float, seconds: float) -> Result:
        """Run the loop and return what it measured."""
        got = self.load.run(
            "produce",
            self.frames[broker.name],
            port=port_of(broker),
            pid=broker.daemon.pid,
            connections=GROUPS,
            own=1,
            warmup=warmup,
            seconds=seconds,
        )
        return {
            "requests/s": got["rps"],
            "p50 us": got["p50_us"],
            "p99 us": got["p99_us"],
            "CPU us/request": got["broker_cpu_seconds"] * 1e6 / got["requests"],
        }

    def measure(self, broker: Broker, seconds: float) -> Result:
        """Measure one round."""
        return self.run(broker, 0.3, seconds)


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
    """What groups of one member add to a broker of its own that has served a hundred of them."""

    groups: int = 10_000
    most_rounds: ClassVar[int] = 1
    expected: ClassVar[Mapping[str, Expected]] = {"MiB": Expected(60, is_ratio=False)}

    @property
    def name(self) -> str:
        """What the table calls it."""
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


@dataclass(frozen=True, slots=True)
class Loading:
    """A start with committed offsets; meanwhile a client asks something all the time.

    The offsets are written once. The longest wait for an ApiVersions says how long the broker
    could serve nobody while it read them.
    """

    offsets: int = 1_000_000
    most_rounds: ClassVar[int] = 100
    expected: ClassVar[Mapping[str, Expected]] = {
        "s to all offsets": Expected(0.7),
        "longest wait ms": Expected(50, is_ratio=False),
    }

    @property
    def name(self) -> str:
        """What the table calls it."""
        return f"start with {self.offsets:,} offsets"

    def prepare(self, broker: Broker, seconds: float) -> None:  # noqa: ARG002
        """Commit the offsets, a hundred partitions of a group at a time."""
        make_topic(broker, TOPIC, PARTITIONS)
        connections = [Connection(port_of(broker)) for _ in range(_FILLING_CONNECTIONS)]
        groups = self._groups
        await_coordinator(connections[0], groups[:GROUPS])
        first = commit(groups[0], TOPIC, range(PARTITIONS), _MARK)
        template = frame(first)
        answer = connections[0].exchange(template)
        if not _is_found(read_answer(type(first), answer).topics[0].partitions):
            raise RuntimeError(f"a commit was refused: {answer!r}")
        for start in range(0, len(groups), _FILLING_CONNECTIONS):
            turn = list(enumerate(groups[start : start + _FILLING_CONNECTIONS], start))
            for connection, (number, group) in zip(connections, turn, strict=False):
                data = template.replace(groups[0].encode(), group.encode())
                connection.send(data.replace(_MARK.to_bytes(8, "big"), number.to_bytes(8, "big")))
            for connection, (_, group) in zip(connections, turn, strict=False):
                if connection.wait() != answer:
                    raise RuntimeError(f"a commit of {group} was refused")
        for connection in connections:
            connection.close()

    def measure(self, broker: Broker, seconds: float) -> Result:  # noqa: ARG002
        """Stop and start the broker; wait until a group of each partition can be asked."""
        by_partition = {partition_for(group, _JOURNAL_PARTITIONS): group for group in self._groups}
        request = fetch_offsets(by_partition.values(), TOPIC, PARTITIONS - 1)
        broker.stop()
        began = broker.launch()
        connection = _connect(port_of(broker))
        accepted = time.monotonic_ns()
        waits = _Waits(port_of(broker))
        waits.start()
        connection.ask_until(request, lambda answer: _is_found(answer.groups))
        ready = time.monotonic_ns()
        longest = waits.stop()
        self._check(connection)
        connection.close()
        return {
            "s to all offsets": (ready - began) / 1e9,
            "s of it from the first accept": (ready - accepted) / 1e9,
            "longest wait ms": longest * 1000,
        }

    @property
    def _groups(self) -> list[str]:
        return [f"loaded-{number:06}" for number in range(self.offsets // PARTITIONS)]

    def _check(self, connection: Connection) -> None:
        """Look whether every group has what it committed."""
        groups = self._groups
        for start in range(0, len(groups), 1000):
            answer = connection.ask(fetch_offsets(groups[start : start + 1000], TOPIC, 99))
            for each in answer.groups:
                found = each.topics[0].partitions[0].committed_offset
                if each.group_id != f"loaded-{found:06}":
                    raise RuntimeError(f"group {each.group_id} has committed {found}")


def _connect(port: int) -> Connection:
    end = time.monotonic() + SECONDS
    while True:
        try:
            return Connection(port)
        except OSError:
            if time.monotonic() > end:
                raise
            time.sleep(_POLL_SECONDS)


class _Waits(threading.Thread):
    """Asks ApiVersions again and again; keeps the longest wait for an answer, in seconds."""

    def __init__(self, port: int) -> None:
        super().__init__(name="waits", daemon=True)
        self._connection = _connect(port)
        self._is_over = threading.Event()
        self._longest = 0.0

    def run(self) -> None:
        """Ask until it is over."""
        data = api_versions_frame()
        self._connection.exchange(data)  # the first waits for the end of the start itself
        while not self._is_over.wait(_POLL_SECONDS):
            began = time.perf_counter()
            self._connection.exchange(data)
            self._longest = max(self._longest, time.perf_counter() - began)

    def stop(self) -> float:
        """End it and return the longest wait."""
        self._is_over.set()
        self.join()
        self._connection.close()
        return self._longest

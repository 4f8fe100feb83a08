"""A start with many committed offsets, and how long others wait meanwhile."""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Final

from bench.brokers import port_of
from bench.comparison import Expected
from bench.connection import SECONDS, Connection, frame, read_answer
from bench.frames import api_versions_frame
from bench.group_cases import (
    GROUPS,
    PARTITIONS,
    TOPIC,
    await_coordinator,
    is_found,
    make_topic,
)
from bench.group_requests import commit, fetch_offsets
from siltstone.protocol.java import partition_for

if TYPE_CHECKING:
    from collections.abc import Mapping

    from bench.brokers import Broker
    from bench.cases import Result

_JOURNAL_PARTITIONS: Final = 50
_POLL_SECONDS: Final = 0.002
_FILLING_CONNECTIONS: Final = 10
_MARK: Final = 0x1122_3344_5566_7788


@dataclass(frozen=True, slots=True)
class Loading:
    """A start with committed offsets; meanwhile a client asks something all the time.

    The offsets are written once. The longest wait for an ApiVersions says how long the broker
    could serve no client while it read them.
    """

    offsets: int = 1_000_000
    most_rounds: ClassVar[int] = 100
    expected: ClassVar[Mapping[str, Expected]] = {
        "s to all offsets": Expected(0.7),
        "longest wait ms": Expected(50, is_ratio=False),
    }

    @property
    def name(self) -> str:
        """Its name in the table."""
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
        if not is_found(read_answer(type(first), answer).topics[0].partitions):
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
        connection.ask_until(request, lambda answer: is_found(answer.groups))
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

"""Transactions beside Apache Kafka: ``python -m bench.transactions --out bench/results``.

``bench/README.md`` says what each case answers.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Final

from bench.brokers import PEER, port_of
from bench.comparison import Expected, Suite, main
from bench.group_cases import make_topic
from bench.tools import cpu_seconds
from bench.transaction_frames import run_producers

if TYPE_CHECKING:
    from collections.abc import Mapping

    from bench.brokers import Broker
    from bench.cases import Result

TOPIC: Final = "bench-transactions"
PARTITIONS: Final = 8
_START_SECONDS: Final = 60
_LATENCY_SECONDS: Final = 8.0  # of 50 transactions: enough for a p99


@dataclass(frozen=True, slots=True)
class Frames:
    """Producers of transaction.version 2, all in one thread."""

    producers: int
    most_rounds: ClassVar[int] = 100
    expected: ClassVar[Mapping[str, Expected]] = {"transactions/s": Expected(2)}

    @property
    def name(self) -> str:
        """Its name in the table."""
        return f"transaction.version 2, {_producers(self.producers)}"

    def prepare(self, broker: Broker, seconds: float) -> None:
        """Make the topic and commit for a while."""
        make_topic(broker, TOPIC, PARTITIONS)
        self.measure(broker, seconds)

    def measure(self, broker: Broker, seconds: float) -> Result:
        """Measure one round."""
        before = cpu_seconds(broker)
        count, took = run_producers(port_of(broker), TOPIC, self.producers, seconds)
        return {
            "transactions/s": count / took,
            "CPU us/transaction": (cpu_seconds(broker) - before) * 1e6 / count,
        }


@dataclass(frozen=True, slots=True)
class Librdkafka:
    """Stock producers, each a process; theirs is the protocol of KIP-98."""

    producers: int
    most_rounds: ClassVar[int] = 100
    expected: ClassVar[Mapping[str, Expected]] = {"transactions/s": Expected(2)}

    @property
    def name(self) -> str:
        """Its name in the table."""
        return f"librdkafka, {_producers(self.producers)}"

    def prepare(self, broker: Broker, seconds: float) -> None:
        """Make the topic and commit for a while."""
        make_topic(broker, TOPIC, PARTITIONS)
        self.measure(broker, seconds)

    def measure(self, broker: Broker, seconds: float) -> Result:
        """Measure one round."""
        before = cpu_seconds(broker)
        results = _run("librdkafka", broker, seconds, self.producers)
        count = sum(each["count"] for each in results)
        return {
            "transactions/s": sum(each["transactions/s"] for each in results),
            "CPU us/transaction": (cpu_seconds(broker) - before) * 1e6 / count,
        }


@dataclass(frozen=True, slots=True)
class Latency:
    """How long after produce() a stock reader of committed records has a record."""

    name: ClassVar[str] = "produce to read_committed consume"
    most_rounds: ClassVar[int] = 100
    expected: ClassVar[Mapping[str, Expected]] = {"p99 ms": Expected(0.5)}

    def prepare(self, broker: Broker, seconds: float) -> None:
        """Make the topic and produce for a while."""
        make_topic(broker, TOPIC, PARTITIONS)
        if broker.name == PEER:
            _run("latency", broker, seconds, 1)

    def measure(self, broker: Broker, seconds: float) -> Result:
        """Measure one round."""
        (result,) = _run("latency", broker, max(seconds, _LATENCY_SECONDS), 1)
        return result


def suite() -> Suite:
    """Return the cases."""
    cases = (Librdkafka(1), Librdkafka(8), Frames(1), Frames(8), Latency())
    return Suite("transactions", cases)


def _producers(count: int) -> str:
    return "1 producer" if count == 1 else f"{count} producers"


def _run(kind: str, broker: Broker, seconds: float, count: int) -> list[dict[str, Any]]:
    """Run so many processes of a load to their end and return what they measured.

    Raises:
        RuntimeError: One of them failed; the message is what it said.
        subprocess.TimeoutExpired: One of them hangs.
    """
    loads = [
        subprocess.Popen(
            [
                *(sys.executable, "-m", "bench.transaction_load", kind, broker.bootstrap),
                *(TOPIC, str(seconds), str(number)),
            ],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for number in range(count)
    ]
    end = time.monotonic() + seconds + _START_SECONDS
    results = []
    try:
        for load in loads:
            said, complaint = load.communicate(timeout=end - time.monotonic())
            if load.returncode:
                raise RuntimeError(f"{kind} at {broker.name}: {complaint}")
            results.append(json.loads(said))
    finally:
        for load in loads:
            load.kill()
            load.wait()
    return results


if __name__ == "__main__":
    sys.exit(main(suite(), __doc__ or "", sys.argv[1:]))

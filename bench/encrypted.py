"""The cost of encryption and logins: stock clients over TLS, and logins by SCRAM over and over."""

from __future__ import annotations

import subprocess
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Final

from bench.brokers import PEER
from bench.cases import PARTITIONS, Pace, Result, wait_for_first
from bench.comparison import Expected
from bench.logins import Told, told
from bench.secured import Secured, add_scram_user, make_secured
from bench.tools import cpu_seconds, figures_of
from tests.support.kafka import KafkaJars, KafkaTools

if TYPE_CHECKING:
    from collections.abc import Mapping

    from bench.load import Load

_ROOT: Final = Path(__file__).parents[1]
_TOPIC: Final = "encrypted"
_MB: Final = 1e6
_GB: Final = 1e9
_PROCESSES: Final = 2
_THREADS: Final = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class OverTls:
    """``ProducerPerformance`` and ``ConsumerPerformance`` of 1 KiB records over SSL.

    The consumer reads what the producer wrote last, out of the page cache.
    """

    name: str = "perf tools over TLS, 1 KiB"
    record_bytes: int = 1024
    megabytes: int = 300
    expected: Mapping[str, Expected] = field(
        default_factory=lambda: {
            "produce MB/s": Expected(1),
            "produce CPU s/GB": Expected(1),
            "consume MB/s": Expected(1),
            "consume CPU s/GB": Expected(1),
        }
    )

    def measure(self, load: Load, broker_name: str, folder: Path, pace: Pace) -> Result:
        """Measure one broker's life."""
        kept = str(2 * self.megabytes * 1_000_000)
        secured = make_secured(broker_name, folder, {"log.retention.bytes": kept})
        broker = secured.broker
        properties = folder / "client.properties"
        properties.write_text(
            "security.protocol=SSL\nssl.truststore.type=PEM\n"
            f"ssl.truststore.location={secured.authority}\n"
        )
        try:
            wait_for_first(load, broker, broker.launch(), _TOPIC, range(PARTITIONS))
            until = time.monotonic() + (pace.warm_peer if broker_name == PEER else pace.warm_ours)
            while True:  # the tools' own JVM and the broker's are warm together
                self._produce(secured, properties)
                self._consume(secured, properties)
                if time.monotonic() > until:
                    break
            return {
                **self._produce(secured, properties),
                **self._consume(secured, properties),
            }
        finally:
            broker.close()

    @property
    def _count(self) -> int:
        return self.megabytes * 1_000_000 // self.record_bytes

    def _produce(self, secured: Secured, properties: Path) -> Result:
        before = cpu_seconds(secured.broker)
        said = KafkaTools(KafkaJars.find()).run(
            "ProducerPerformance",
            *("--topic", _TOPIC, "--num-records", str(self._count), "--throughput", "-1"),
            *("--record-size", str(self.record_bytes), "--command-config", str(properties)),
            *("--bootstrap-server", f"127.0.0.1:{secured.tls}", "--command-property"),
            *("acks=all", "linger.ms=5", "batch.size=131072"),
            timeout=600,
        )
        return self._result("produce", secured, figures_of(said)[0], before)

    def _consume(self, secured: Secured, properties: Path) -> Result:
        before = cpu_seconds(secured.broker)
        count = self._count // 2
        said = KafkaTools(KafkaJars.find()).run(
            "ConsumerPerformance",
            *("--bootstrap-server", f"127.0.0.1:{secured.tls}", "--topic", _TOPIC),
            *("--hide-header", "--num-records", str(count), "--group", f"own-{time.time_ns()}"),
            *("--command-config", str(properties)),
            timeout=600,
        )
        figures = [cell.strip() for cell in said.splitlines()[-1].split(",")]
        if len(figures) != 10 or int(figures[4]) < count:
            raise RuntimeError(f"the perf tool has not read {count} records: {said}")
        return self._result("consume", secured, float(figures[9]), before, count)

    def _result(
        self, what: str, secured: Secured, rate: float, before: float, count: int = 0
    ) -> Result:
        size = (count or self._count) * self.record_bytes
        return {
            f"{what} MB/s": rate * self.record_bytes / _MB,
            f"{what} CPU s/GB": (cpu_seconds(secured.broker) - before) * _GB / size,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Logins:
    """Connections that log in by SCRAM-SHA-256 and leave, over SASL_PLAINTEXT and over SASL_SSL.

    Nothing is resumed: each has a whole handshake of TLS and a whole conversation of SCRAM.
    """

    name: str = "connections with SCRAM-SHA-256"
    expected: Mapping[str, Expected] = field(
        default_factory=lambda: {
            "SASL_PLAINTEXT connections/s": Expected(1),
            "SASL_SSL connections/s": Expected(1),
            "SASL_SSL CPU ms each": Expected(1),
        }
    )

    def measure(self, load: Load, broker_name: str, folder: Path, pace: Pace) -> Result:
        """Measure one broker's life."""
        secured = make_secured(broker_name, folder)
        broker = secured.broker
        result: Result = {}
        try:
            wait_for_first(load, broker, broker.launch(), _TOPIC)
            add_scram_user(broker)
            warm = pace.warm_peer if broker_name == PEER else pace.warm_ours
            ways = {
                "SASL_PLAINTEXT": (secured.sasl, ()),
                "SASL_SSL": (secured.sasl_tls, (str(secured.authority),)),
            }
            for what, (port, trusted) in ways.items():
                self._run(port, warm, trusted)
                before = cpu_seconds(broker)
                seconds, took = self._run(port, pace.measure, trusted)
                spent = cpu_seconds(broker) - before
                result[f"{what} connections/s"] = len(took) / seconds
                result[f"{what} p99 ms"] = sorted(took)[len(took) * 99 // 100] * 1e3
                result[f"{what} CPU ms each"] = spent * 1e3 / len(took)
        finally:
            broker.close()
        return result

    def _run(self, port: int, seconds: float, trusted: tuple[str, ...]) -> Told:
        command = [sys.executable, "-m", "bench.logins", str(port), str(seconds), str(_THREADS)]
        processes = [
            subprocess.Popen([*command, *trusted], cwd=_ROOT, stdout=subprocess.PIPE, text=True)
            for _ in range(_PROCESSES)
        ]
        found = []
        for process in processes:
            said, _ = process.communicate()
            if process.returncode:
                raise RuntimeError("a client of the logins failed; see above")
            found.append(told(said))
        took = [each for one in found for each in one.took]
        return Told(max(one.seconds for one in found), took)

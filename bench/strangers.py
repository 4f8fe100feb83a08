"""Waits of ordinary clients beside strangers that drip, do not log in, or leave a handshake."""

from __future__ import annotations

import subprocess
import sys
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from bench.brokers import PEER, port_of, resident_mib
from bench.cases import Pace, Result, produce_small, wait_for_first
from bench.comparison import Expected
from bench.secured import Secured, make_secured

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from bench.load import Load

_ROOT = Path(__file__).parents[1]
_SETTLE_SECONDS = 3.0


@dataclass(frozen=True, slots=True, kw_only=True)
class BesideStrangers:
    """Produce of 100 B over 8 connections: calm, then beside a thousand strangers of each kind.

    A thousand send a byte a second, a thousand never log in, a thousand stop half way through the
    handshake of TLS; closed ones come again. Both measurements are of the same broker.
    """

    name: str = "produce 100 B, 8x1, beside 3,000 strangers"
    of_each: int = 1000
    expected: Mapping[str, Expected] = field(
        default_factory=lambda: {"p99, of calm x": Expected(2, is_ratio=False)}
    )

    def measure(self, load: Load, broker_name: str, folder: Path, pace: Pace) -> Result:
        """Measure one broker's life."""
        secured = make_secured(broker_name, folder)
        broker = secured.broker
        try:
            wait_for_first(load, broker, broker.launch(), "ordinary")
            warm = pace.warm_peer if broker.name == PEER else pace.warm_ours
            calm = produce_small(load, secured.broker, "ordinary", warm, pace.measure)
            before = resident_mib(broker)
            with self._strangers(secured):
                beside = produce_small(
                    load, secured.broker, "ordinary", _SETTLE_SECONDS, pace.measure
                )
                held = resident_mib(broker) - before
            return {
                "calm p50 us": calm["p50_us"],
                "calm p99 us": calm["p99_us"],
                "p50 us": beside["p50_us"],
                "p99 us": beside["p99_us"],
                "p99, of calm x": beside["p99_us"] / calm["p99_us"],
                "strangers MiB": held,
            }
        finally:
            broker.close()

    @contextmanager
    def _strangers(self, secured: Secured) -> Iterator[None]:
        ports = (port_of(secured.broker), secured.sasl, secured.tls)
        command = [sys.executable, "-m", "tests.support.strangers", *map(str, ports)]
        process = subprocess.Popen(
            [*command, str(self.of_each)],
            cwd=_ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        with process:
            try:
                assert process.stdout is not None
                if process.stdout.readline() != "ready\n":
                    raise RuntimeError("the strangers could not come; see above")
                yield
            finally:
                process.kill()

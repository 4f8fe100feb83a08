"""Metadata of everything: what a console asks, and how long others wait meanwhile."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from bench.brokers import PEER, START_SECONDS, make_broker, port_of
from bench.clients import messages
from bench.clients.messages import message
from bench.clients.playing import run_scripts
from bench.clients.scripts import Script, play_frames, rehearse
from bench.clients.topics import make_topics
from bench.comparison import Expected
from bench.connection import Connection

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from bench.brokers import Broker
    from bench.cases import Pace, Result
    from bench.load import Load

_PINGS_A_SECOND: Final = 500
_EACH: Final = 10
"""Partitions of a topic."""


def _aims() -> dict[str, Expected]:
    return {
        f"{size:,} partitions: {quantity}": aim
        for size in (200, 2500, 10_000)
        for quantity, aim in {
            "requests/s": Expected(2),
            "CPU us/request": Expected(0.5),
            "longest wait of others ms": Expected(2, is_ratio=False),
        }.items()
    }


@dataclass(frozen=True, kw_only=True)
class Everything:
    """Four connections ask for all topics of a broker that has more and more of them.

    Then one does, while another sends an ApiVersions every two milliseconds: the longest that it
    waits is about the longest turn of the loop, on a machine that does nothing else.
    """

    name: str = "Metadata of everything"
    sizes: tuple[int, ...] = (200, 2500, 10_000)
    connections: int = 4
    expected: Mapping[str, Expected] = field(default_factory=_aims)

    def measure(self, load: Load, broker_name: str, folder: Path, pace: Pace) -> Result:
        """Measure one broker's growth."""
        broker = make_broker(broker_name, folder)
        try:
            broker.start(START_SECONDS)
            found: Result = {}
            for size in self.sizes:
                result = self._measure(load, broker, size, pace)
                found |= {f"{size:,} partitions: {what}": value for what, value in result.items()}
            return found
        finally:
            broker.close()

    def _measure(self, load: Load, broker: Broker, size: int, pace: Pace) -> Result:
        connection = Connection(port_of(broker))
        names = [f"everything-{number:04}" for number in range(size // _EACH)]
        make_topics(connection, dict.fromkeys(names, _EACH))
        step = rehearse(
            connection,
            message(
                messages.METADATA,
                topics=None,
                allow_auto_topic_creation=False,
                include_topic_authorized_operations=False,
            ),
        )
        ping = rehearse(
            connection,
            message(messages.API_VERSIONS, client_software_name="b", client_software_version="1"),
        )
        connection.close()
        at = {"port": port_of(broker), "pid": broker.daemon.pid}
        warm = pace.warm_peer if broker.name == PEER else pace.warm_ours
        whole = [Script([step])] * self.connections
        result = run_scripts(load, whole, at, warm, pace.measure)
        with load.playing(play_frames([Script([step])]), port=port_of(broker)):
            waits = load.run(
                "play",
                play_frames([Script([ping])]),
                port=port_of(broker),
                rate=_PINGS_A_SECOND,
                warmup=0.3,
                seconds=pace.measure,
            )
        return {
            "requests/s": result["requests/s"],
            "CPU us/request": result["CPU us/request"],
            "p99 us": result["p99 us"],
            "longest wait of others ms": waits["max_us"] / 1000,
        }

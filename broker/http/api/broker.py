"""Pages about the broker itself: health, disks, connected clients and settings."""

from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from typing import Any, Final

from siltstone.broker.http.api.questions import SHARE_SECONDS, Question
from siltstone.broker.http.control.channel import Status
from siltstone.broker.http.health import LoopWatch
from siltstone.broker.http.readiness import Readiness
from siltstone.broker.http.values import HttpRequest
from siltstone.broker.net.listener import Listener
from siltstone.broker.process import stats
from siltstone.broker.process.client_limits import MAX_TEXT
from siltstone.broker.process.loop_share import LoopShare
from siltstone.broker.services import Services
from siltstone.config.describe import as_json, describe_broker
from siltstone.config.layers import Layers

MAX_ROWS: Final = 200
"""The most rows of connections in an answer: any client may add a row by a new name."""
MAX_CLIENT_IDS: Final = 20
UNSAID: Final = "does not say"
"""The software name of a client that has not sent one (KIP-511)."""


class BrokerPages:
    """``/api/overview``, ``/api/connections`` and ``/api/settings`` (loop only)."""

    def __init__(
        self,
        services: Services,
        listeners: Sequence[Listener],
        loop_watch: LoopWatch,
        readiness: Readiness,
        find_status: Callable[[], Status],
    ) -> None:
        self._services = services
        self._listeners = listeners
        self._loop_watch = loop_watch
        self._readiness = readiness
        self._find_status = find_status
        self._rows: tuple[Layers, list[dict[str, Any]]] | None = None

    async def overview(self, request: HttpRequest) -> dict[str, Any]:
        """Return health, disks and sums; a record makes a round trip, as for ``/readyz``."""
        Question(request)
        fault = await self._readiness.find_fault()
        status = self._find_status()
        return {
            "now_ms": self._services.clock.now_ms(),
            "ready": fault is None,
            "fault": fault,
            "remarks": list(self._readiness.find_remarks()),
            "version": status.version,
            "uptime_seconds": round(status.uptime_seconds, 3),
            "cluster_id": status.cluster_id,
            "node_id": status.node_id,
            "topics": status.topics,
            "partitions": status.partitions,
            "connections": status.connections,
            "advertised": status.advertised,
            "loop_lag_seconds": round(self._loop_watch.worst_recent, 6),
            "resident_bytes": stats.resident_bytes(),
            "cpu_seconds": round(stats.cpu_seconds(), 3),
            "disks": [
                {
                    "path": str(each.path),
                    "trouble": each.trouble,
                    "warning": each.warning,
                    "level": each.room.level.name.lower(),
                    "free_bytes": each.room.free_bytes,
                    "total_bytes": each.room.total_bytes,
                    "reserve_bytes": each.room.reserve_bytes,
                    "seconds_left": each.room.seconds_left,
                }
                for each in self._services.logs.directories
            ],
        }

    async def connections(self, request: HttpRequest) -> dict[str, Any]:
        """Return the connected clients, by software and listener, the most numerous first.

        Each text that a client reports about itself is cut to `MAX_TEXT` characters.
        """
        Question(request)
        share = LoopShare(SHARE_SECONDS)
        counts: Counter[tuple[str, str]] = Counter()
        clients: defaultdict[tuple[str, str], Counter[str]] = defaultdict(Counter)
        for listener in self._listeners:
            for connection in list(listener.connections):
                key = (" ".join(connection.software).strip() or UNSAID, listener.name)
                counts[key] += 1
                clients[key][connection.client_id or ""] += 1
                await share.rest()
        return {
            "total": counts.total(),
            "left_out": max(0, len(counts) - MAX_ROWS),
            "connections": [
                {
                    "software": software,
                    "listener": listener,
                    "count": count,
                    "client_ids": [
                        name[:MAX_TEXT]
                        for name, _ in clients[software, listener].most_common(MAX_CLIENT_IDS)
                    ],
                    "more_client_ids": max(0, len(clients[software, listener]) - MAX_CLIENT_IDS),
                }
                for (software, listener), count in counts.most_common(MAX_ROWS)
            ],
        }

    async def settings(self, request: HttpRequest) -> dict[str, Any]:
        """Return every setting in force with its source; secrets without their value."""
        Question(request)
        layers = self._services.settings.layers
        if self._rows is None or self._rows[0] is not layers:  # they take some milliseconds
            self._rows = (
                layers,
                [
                    {**as_json(row), "documentation": row.documentation}
                    for row in describe_broker(layers)
                ],
            )
        return {"settings": self._rows[1]}

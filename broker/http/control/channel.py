"""The control channel: ``/v1/…`` on the HTTP port, only for the broker's own commands.

A page that changes something requires the bearer token of ``broker.http.control.token``. So a user
that may read the data folder may control the broker. The port is on loopback unless
``http.listener`` says otherwise. A later command adds a row to ``ControlChannel.routes``.
"""

import logging
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass, field

from siltstone.broker.http.values import HttpRequest, HttpResponse, Page, Route, json_answer, text
from siltstone.broker.process.bounded_lines import BoundedLines
from siltstone.broker.process.io import IoThreads
from siltstone.protocol.errors import KafkaError
from siltstone.storage.clock import perf_counter
from siltstone.storage.log.log import Log

_logger = logging.getLogger(__name__)

_LOGS_PER_HOP = 64


@dataclass(frozen=True, slots=True, kw_only=True)
class Status:
    """The answer of ``GET /v1/status``, in this order."""

    version: str
    ready: bool
    uptime_seconds: float
    cluster_id: str
    node_id: int
    topics: int
    partitions: int
    connections: int
    advertised: dict[str, str]
    """The address that clients of each listener get, as host:port."""
    log_dirs: dict[str, str]
    """Each log directory: ``online``, or why it accepts no writes and what to do."""


@dataclass(frozen=True, slots=True)
class ControlChannel:
    """The pages under ``/v1/`` (loop only). Requests with the token are trusted."""

    is_trusted: Callable[[Mapping[bytes, bytes]], bool]
    io: IoThreads
    find_status: Callable[[], Status]
    find_logs: Callable[[], Iterable[Log]]
    _refusals: BoundedLines = field(
        default_factory=lambda: BoundedLines(perf_counter, 1), init=False
    )

    def routes(self) -> tuple[Route, ...]:
        """Return every page; pages that change something are wrapped in `guarded`."""
        return (
            Route("GET", "/v1/status", self._status),
            Route("POST", "/v1/flush", self.guarded(self._flush)),
        )

    def guarded(self, handle: Page) -> Page:
        """Return a page that requires the token and then calls ``handle``."""

        async def guarded(request: HttpRequest) -> HttpResponse:
            if not self.is_trusted(request.headers):
                if self._refusals.takes():
                    _logger.warning(
                        "refused a control request without the token path=%s peer=%s others=%d",
                        request.path,
                        request.peer,
                        self._refusals.others(),
                    )
                return text(
                    401,
                    f"{request.path} changes something: send 'Authorization: Bearer TOKEN' with "
                    "the token from .siltstone-control-token in the first log directory",
                    ("WWW-Authenticate", "Bearer"),
                )
            _logger.info("control request path=%s peer=%s", request.path, request.peer)
            return await handle(request)

        return guarded

    async def _status(self, _request: HttpRequest) -> HttpResponse:
        return json_answer(asdict(self.find_status()))

    async def _flush(self, _request: HttpRequest) -> HttpResponse:
        """Flush every log to the disk, a group of logs in each call on an io thread."""
        logs = list(self.find_logs())
        faults: list[str] = []
        for start in range(0, len(logs), _LOGS_PER_HOP):
            faults += await self.io.run(_flush_logs, logs[start : start + _LOGS_PER_HOP])
        answer = {"flushed": len(logs) - len(faults), "faults": faults}
        return json_answer(answer, 500 if faults else 200)


def _flush_logs(logs: list[Log]) -> list[str]:
    """Flush logs and return a sentence for each that failed. Blocks."""
    faults = []
    for log in logs:
        try:
            log.flush()
        except KafkaError as error:
            faults.append(f"{log.topic_partition}: {error.message}")
    return faults

"""The metrics of partitions that move between log directories."""

from __future__ import annotations

from typing import TYPE_CHECKING

from siltstone.broker.http.metrics.metric import Metric, single

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from siltstone.broker.http.metrics.metric import Reader, Row
    from siltstone.broker.http.metrics.sources import MetricSources
    from siltstone.broker.topics.moves.manager import LogDirMoves

_MANAGER = "kafka_server_replicaalterlogdirsmanager"
_CLIENT = ("clientid",)
_CLIENT_ID = "ReplicaAlterLogDirs"


def _of_client(read: Callable[[LogDirMoves], float]) -> Reader:
    """Return a reader of one value with Kafka's name of who copies, 0 where nobody does."""

    def rows(sources: MetricSources) -> Iterator[Row]:
        yield (_CLIENT_ID,), 0 if sources.moves is None else read(sources.moves)

    return rows


def _one(read: Callable[[LogDirMoves], float]) -> Reader:
    return single(lambda sources: 0 if sources.moves is None else read(sources.moves))


# fmt: off
MOVE_METRICS = (
    Metric("gauge", f"{_MANAGER}_maxlag", _CLIENT,
           "Offsets that the copy lacks that is farthest behind; 0 if no partition moves.",
           "`LogDirMoves`", _of_client(lambda moves: moves.max_lag)),
    Metric("gauge", f"{_MANAGER}_failedpartitionscount", _CLIENT,
           "Partitions whose last move was given up; the log has the reason.",
           "`LogDirMoves`", _of_client(lambda moves: len(moves.counts.failed))),
    Metric("gauge", "siltstone_log_dir_moves", (),
           "Partitions that move to another log directory, or wait for that.",
           "`LogDirMoves`", _one(len)),
    Metric("counter", "siltstone_log_dir_moves_done", (),
           "Partitions that have moved since the start.",
           "`LogDirMoves`", _one(lambda moves: moves.counts.done)),
)
# fmt: on

"""The metrics of producers and transactions, by Kafka's names where it has them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from siltstone.broker.http.metrics.metric import PAUSE, Metric, single

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from siltstone.broker.http.metrics.metric import Reader, Row
    from siltstone.broker.http.metrics.sources import MetricSources
    from siltstone.broker.transactions.coordinator import TransactionCoordinator
    from siltstone.storage.log.log import Log

_LATE_MS: Final = 300_000
"""How much longer than any producer may ask for makes a transaction late."""
_LOGS_AT_A_TIME: Final = 256


def _one(read: Callable[[TransactionCoordinator], float]) -> Reader:
    """Return a reader of one value of the coordinator, 0 where there is none."""
    return single(lambda sources: 0 if sources.transactions is None else read(sources.transactions))


def _over_logs(read: Callable[[Log, int], int]) -> Reader:
    """Return a reader that adds up all logs; ``read`` gets one, and when it began to be late."""

    def rows(sources: MetricSources) -> Iterator[Row | None]:
        total = 0
        late_since = (
            0 if sources.transactions is None else sources.transactions.late_since(_LATE_MS)
        )
        for count, log in enumerate(tuple(sources.topics.logs.values()), 1):
            total += read(log, late_since)
            if not count % _LOGS_AT_A_TIME:
                yield PAUSE
        yield (), total

    return rows


def _is_late(log: Log, since_ms: int) -> bool:
    """Tell whether a partition has a transaction whose producer has been silent for so long."""
    producers = log.producers
    return any(
        producers.producers[producer_id].last_timestamp < since_ms
        for producer_id in producers.open_transactions
    )


def _ended(sources: MetricSources) -> Iterator[Row]:
    if sources.transactions is not None:
        for how, count in sources.transactions.ended.items():
            yield (how,), count


# fmt: off
TRANSACTION_METRICS = (
    Metric("gauge", "kafka_server_replicamanager_produceridcount", (),
           "Producers that partitions remember, once for each partition.",
           "`Log.producers`", _over_logs(lambda log, _: len(log.producers.producers))),
    Metric("gauge", "kafka_server_replicamanager_partitionswithlatetransactionscount", (),
           "Partitions with a transaction that should have ended by its time-out: it hangs.",
           "`Log.producers`", _over_logs(_is_late)),
    Metric("gauge", "siltstone_transactional_ids", (),
           "Transactional ids that are not expired.",
           "`TransactionCoordinator`", _one(len)),
    Metric("gauge", "siltstone_transactions_open", (),
           "Transactions that are open, or decided and not yet completed.",
           "`TransactionCoordinator`", _one(lambda coordinator: coordinator.active_count)),
    Metric("counter", "siltstone_transactions_ended", ("how",),
           "Transactions committed, aborted, and aborted for their time-out.",
           "`TransactionCoordinator`", _ended),
    Metric("gauge", "kafka_server_transaction_coordinator_metrics_partition_load_time_max", (),
           "Milliseconds that it took to read `__transaction_state` back at the start.",
           "`CoordinatorLog`", _one(lambda coordinator: coordinator.journal.load_seconds * 1000)),
    Metric("counter", "kafka_server_addpartitionstotxnmanager_verificationfailures", (),
           "Batches and offsets refused because they belong to no open transaction.",
           "`TransactionCoordinator`", _one(lambda coordinator: coordinator.refused_count)),
)
# fmt: on

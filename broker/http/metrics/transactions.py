"""The metrics of producers and transactions, by Kafka's names where it has them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from siltstone.broker.http.metrics.metric import Metric, single

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from siltstone.broker.http.metrics.metric import Reader, Row
    from siltstone.broker.http.metrics.sources import MetricSources
    from siltstone.broker.transactions.coordinator import TransactionCoordinator


def _one(read: Callable[[TransactionCoordinator], float]) -> Reader:
    """Return a reader of one value of the coordinator, 0 where there is none."""
    return single(lambda sources: 0 if sources.transactions is None else read(sources.transactions))


def _ended(sources: MetricSources) -> Iterator[Row]:
    if sources.transactions is not None:
        for how, count in sources.transactions.ended.items():
            yield (how,), count


# fmt: off
TRANSACTION_METRICS = (
    Metric("gauge", "kafka_server_replicamanager_produceridcount", (),
           "Producers that partitions remember, once for each partition.",
           "`Log.producers`", single(lambda sources: sources.scan.producer_count)),
    Metric("gauge", "kafka_server_replicamanager_partitionswithlatetransactionscount", (),
           "Partitions with a transaction that should have ended by its time-out: it hangs.",
           "`Log.producers`", single(lambda sources: sources.scan.late_count)),
    Metric("gauge", "siltstone_transactional_ids", (),
           "Transactional ids that are not expired.",
           "`TransactionCoordinator`", _one(len)),
    Metric("gauge", "siltstone_transactional_id_bytes", (),
           "Bytes that transactional ids and the partitions of their open transactions have in "
           "memory; transactional.ids.max.bytes limits them.",
           "`TransactionStates`", _one(lambda coordinator: coordinator.size)),
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

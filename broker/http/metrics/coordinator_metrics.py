"""The metrics of groups, committed offsets, queues, producers and transactions.

Names are Kafka's where Kafka has the metric, and for lag those of kafka_exporter, which dashboards
of consumer lag use.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Final

from siltstone.broker.groups.group import GroupState
from siltstone.broker.http.metrics.metric import (
    Column,
    Metric,
    Reader,
    Row,
    each_of,
    one_of,
    rows_of,
    single,
)
from siltstone.broker.http.metrics.metric_sources import MetricSources
from siltstone.broker.http.metrics.scans import PAUSE, LagScan
from siltstone.protocol.names import SHARE_STATE_TOPIC

if TYPE_CHECKING:
    from siltstone.broker.share.states import ShareStates

_GROUPS_AT_A_TIME: Final = 1024


_of_groups = one_of(lambda sources: sources.groups)


def _in_state(state: GroupState) -> Reader:
    """Return a reader of the number of classic groups in a state."""

    def rows(sources: MetricSources) -> Iterator[Row | None]:
        total = 0
        groups = () if sources.groups is None else tuple(sources.groups.groups.values())
        for count, group in enumerate(groups, 1):
            total += group.type == "classic" and group.state == state
            if not count % _GROUPS_AT_A_TIME:
                yield PAUSE
        yield (), total

    return rows


def _by_type(sources: MetricSources) -> Iterator[Row | None]:
    counts = {"classic": 0, "consumer": 0}
    groups = () if sources.groups is None else tuple(sources.groups.groups.values())
    for count, group in enumerate(groups, 1):
        counts[group.type] += 1
        if not count % _GROUPS_AT_A_TIME:
            yield PAUSE
    for kind, total in counts.items():
        yield (kind,), total


# fmt: off
GROUP_METRICS = (
    Metric("gauge", "kafka_server_group_coordinator_metrics_group_count", ("protocol",),
           "Groups, by the protocol that their members speak.",
           "`GroupCoordinator`", _by_type),
    *(
        Metric("gauge", f"kafka_coordinator_group_groupmetadatamanager_numgroups{state.lower()}",
               (), f"Classic groups that are {state}.", "`GroupCoordinator`", _in_state(state))
        for state in GroupState
    ),
    Metric("gauge", "kafka_coordinator_group_groupmetadatamanager_numoffsets", (),
           "Committed offsets of all groups.",
           "`Offsets`", _of_groups(lambda groups: groups.offsets.count)),
    Metric("counter", "kafka_server_group_coordinator_metrics_offset_commit_count", (),
           "Offsets committed since the start.",
           "`Offsets`", _of_groups(lambda groups: groups.offsets.commit_count)),
    Metric("counter", "kafka_server_group_coordinator_metrics_offset_expiration_count", (),
           "Offsets that expired since the start.",
           "`Offsets`", _of_groups(lambda groups: groups.offsets.expired_count)),
    Metric("counter", "kafka_server_group_coordinator_metrics_offset_deletion_count", (),
           "Offsets deleted on request since the start.",
           "`Offsets`", _of_groups(lambda groups: groups.offsets.deleted_count)),
    Metric("gauge", "siltstone_group_member_bytes", (),
           "Bytes that the members of all groups have in memory; group.members.max.bytes limits "
           "them.",
           "`MemberBytes`", _of_groups(lambda groups: groups.member_bytes.size)),
    Metric("gauge", "siltstone_group_offset_bytes", (),
           "Bytes that the committed offsets of all groups have in memory; "
           "group.offsets.max.bytes limits them.",
           "`Offsets`", _of_groups(lambda groups: groups.offsets.size)),
    Metric("gauge", "siltstone_group_partitions_loading", (),
           "Partitions of __consumer_offsets that are not read yet; their groups are told to wait.",
           "`CoordinatorLog`", _of_groups(lambda groups: groups.journal.loading_count)),
    Metric("gauge", "kafka_server_group_coordinator_metrics_partition_load_time_max", (),
           "Milliseconds that it took to read `__consumer_offsets` back at the start.",
           "`CoordinatorLog`", _of_groups(lambda groups: groups.journal.load_seconds * 1000)),
    Metric("counter", "siltstone_group_records_loaded", (),
           "Records of __consumer_offsets read at the start.",
           "`CoordinatorLog`", _of_groups(lambda groups: groups.journal.entries_loaded)),
)
# fmt: on


_SERIES: Final = ("consumergroup", "topic", "partition")


def _lag_column(read: Callable[[LagScan], Sequence[int | None]]) -> Column:
    """Return a reader of one value for each group and partition, up to the scan's limit."""
    return Column(lambda sources: sources.lag.labels, lambda sources: read(sources.lag))


# fmt: off
LAG_METRICS = (
    Metric("gauge", "kafka_consumergroup_current_offset", _SERIES,
           "Offset that a group has committed for a partition.",
           "`Offsets`", _lag_column(lambda scan: scan.offsets)),
    Metric("gauge", "kafka_consumergroup_lag", _SERIES,
           "Records from a group's committed offset to the end of the log.",
           "`Offsets`, `end.log_end_offset` of the Log",
           _lag_column(lambda scan: scan.lags)),
    Metric("gauge", "siltstone_consumergroup_series_omitted", (),
           "Committed offsets that the two metrics before leave out: more than "
           "metrics.max.lag.series.",
           "`Offsets`", single(lambda sources: sources.lag.omitted)),
)
# fmt: on


_of_queues = one_of(lambda sources: sources.share_states)
_of_letters = rows_of(lambda sources: sources.dead_letters)
_QUEUES: Final = "kafka_server_share_coordinator_metrics"
_LETTERS: Final = "kafka_server_sharegroupmetrics_deadletterqueue"


def _pruned(states: "ShareStates") -> Iterator[Row]:
    for partition, offset in states.pruned.items():
        yield (SHARE_STATE_TOPIC, str(partition)), offset


def _by_group(counts: Mapping[str, int]) -> Iterator[Row]:
    for group_id, count in counts.items():
        yield (group_id,), count


# fmt: off
QUEUE_METRICS = (
    Metric("counter", f"{_QUEUES}_write", (),
           "Changes of the states of queues that were written since the start.",
           "`ShareStates`", _of_queues(lambda each: each.write_count)),
    Metric("gauge", f"{_QUEUES}_last_pruned_offset", ("topic", "partition"),
           "Offset below which the records of __share_group_state were deleted last.",
           "`ShareStates`", rows_of(lambda sources: sources.share_states)(_pruned)),
    Metric("gauge", f"{_QUEUES}_partition_load_time_max", (),
           "Milliseconds that it took to read `__share_group_state` back at the start.",
           "`CoordinatorLog`", _of_queues(lambda each: each.journal.load_seconds * 1000)),
    Metric("gauge", "siltstone_share_states", (),
           "Queues of share groups, one for each partition of each group, whose state is kept.",
           "`ShareStates`", _of_queues(len)),
    Metric("gauge", "siltstone_share_state_bytes", (),
           "Bytes that the states of all queues have in memory; share.states.max.bytes limits "
           "them.",
           "`ShareStates`", _of_queues(lambda each: each.size)),
    Metric("counter", f"{_LETTERS}recordcount", ("group",),
           "Dead letters written since the start.",
           "`DeadLetters`", _of_letters(lambda each: _by_group(each.written))),
    Metric("counter", f"{_LETTERS}totalproducerequests", ("group",),
           "Batches of dead letters that were to be written since the start.",
           "`DeadLetters`", _of_letters(lambda each: _by_group(each.begun))),
    Metric("counter", f"{_LETTERS}failedproducerequests", ("group",),
           "Ranges of records whose dead letters could not be written.",
           "`DeadLetters`", _of_letters(lambda each: _by_group(each.failed))),
)
# fmt: on


_of_transactions = one_of(lambda sources: sources.transactions)


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
           "`TransactionCoordinator`", _of_transactions(len)),
    Metric("gauge", "siltstone_transactional_id_bytes", (),
           "Bytes that transactional ids and the partitions of their open transactions have in "
           "memory; transactional.ids.max.bytes limits them.",
           "`TransactionStates`", _of_transactions(lambda each: each.size)),
    Metric("gauge", "siltstone_transactions_open", (),
           "Transactions that are open, or decided and not yet completed.",
           "`TransactionCoordinator`", _of_transactions(lambda each: each.active_count)),
    Metric("counter", "siltstone_transactions_ended", ("how",),
           "Transactions committed, aborted, and aborted for their time-out.",
           "`TransactionCoordinator`",
           rows_of(lambda sources: sources.transactions)(each_of(lambda each: each.ended))),
    Metric("gauge", "kafka_server_transaction_coordinator_metrics_partition_load_time_max", (),
           "Milliseconds that it took to read `__transaction_state` back at the start.",
           "`CoordinatorLog`", _of_transactions(lambda each: each.journal.load_seconds * 1000)),
    Metric("counter", "kafka_server_addpartitionstotxnmanager_verificationfailures", (),
           "Batches and offsets refused because they belong to no open transaction.",
           "`TransactionCoordinator`", _of_transactions(lambda each: each.refused_count)),
)
# fmt: on

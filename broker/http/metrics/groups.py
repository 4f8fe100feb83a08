"""The metrics of groups and committed offsets, by Kafka's names where it has them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from siltstone.broker.groups.classic.state_names import GroupState
from siltstone.broker.http.metrics.metric import Metric, single
from siltstone.broker.http.metrics.scans import PAUSE

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from siltstone.broker.groups.coordinator import GroupCoordinator
    from siltstone.broker.http.metrics.metric import Reader, Row
    from siltstone.broker.http.metrics.sources import MetricSources

_GROUPS_AT_A_TIME: Final = 1024


def _one(read: Callable[[GroupCoordinator], float]) -> Reader:
    """Return a reader of one value of the coordinator, 0 where there is none."""
    return single(lambda sources: 0 if sources.groups is None else read(sources.groups))


def _in_state(state: GroupState) -> Reader:
    """Return a reader of how many classic groups are in a state."""

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
           "`Offsets`", _one(lambda groups: groups.offsets.count)),
    Metric("counter", "kafka_server_group_coordinator_metrics_offset_commit_count", (),
           "Offsets committed since the start.",
           "`Offsets`", _one(lambda groups: groups.offsets.commit_count)),
    Metric("counter", "kafka_server_group_coordinator_metrics_offset_expiration_count", (),
           "Offsets that expired since the start.",
           "`Offsets`", _one(lambda groups: groups.offsets.expired_count)),
    Metric("counter", "kafka_server_group_coordinator_metrics_offset_deletion_count", (),
           "Offsets deleted on request since the start.",
           "`Offsets`", _one(lambda groups: groups.offsets.deleted_count)),
    Metric("gauge", "siltstone_group_member_bytes", (),
           "Bytes that the members of all groups have in memory; group.members.max.bytes limits "
           "them.",
           "`MemberBytes`", _one(lambda groups: groups.member_bytes.size)),
    Metric("gauge", "siltstone_group_offset_bytes", (),
           "Bytes that the committed offsets of all groups have in memory; "
           "group.offsets.max.bytes limits them.",
           "`Offsets`", _one(lambda groups: groups.offsets.size)),
    Metric("gauge", "siltstone_group_partitions_loading", (),
           "Partitions of __consumer_offsets that are not read yet; their groups are told to wait.",
           "`CoordinatorLog`", _one(lambda groups: groups.journal.loading_count)),
    Metric("gauge", "kafka_server_group_coordinator_metrics_partition_load_time_max", (),
           "Milliseconds that it took to read `__consumer_offsets` back at the start.",
           "`CoordinatorLog`", _one(lambda groups: groups.journal.load_seconds * 1000)),
    Metric("counter", "siltstone_group_records_loaded", (),
           "Records of __consumer_offsets read at the start.",
           "`CoordinatorLog`", _one(lambda groups: groups.journal.entries_loaded)),
)
# fmt: on

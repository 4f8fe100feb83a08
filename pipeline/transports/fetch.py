"""Any Kafka broker, over the network: offsets by ListOffsets, records by Fetch."""

import logging
from pathlib import Path
from typing import TYPE_CHECKING

from siltstone.pipeline.client.cluster import Cluster, Leader
from siltstone.pipeline.client.pins import is_of
from siltstone.pipeline.client.wire import refused
from siltstone.pipeline.errors import BadOption, PipelineError
from siltstone.pipeline.options import EARLIEST, LATEST, ReadOptions
from siltstone.pipeline.planning.manifest import Manifest, PinnedPartition
from siltstone.pipeline.transports.source import Source, select
from siltstone.storage.clock import Clock

if TYPE_CHECKING:
    from siltstone.storage.topic_partition import TopicPartition

_DEFAULT_RETENTION_MS = 86_400_000
_logger = logging.getLogger(__name__)


class FetchSource(Source):
    """Knows offsets but no files; the log may change while splits are read."""

    name = "fetch"
    is_live = True

    def __init__(self, options: ReadOptions) -> None:
        """Connect.

        Raises:
            SourceUnavailable: no broker answers.
            BadOption: no address is given, or some settings are not supported here.
        """
        if not options.bootstrap:
            raise BadOption("transport=fetch needs kafka.bootstrap.servers")
        unheeded = refused(options.kafka)
        if unheeded:
            raise BadOption(
                f"the fetch transport does not know kafka.{unheeded[0]}; leave it out, or use "
                "Spark's own connector"
            )
        super().__init__(options)
        self._clock = Clock()
        self._cluster = Cluster(options.bootstrap, options.kafka)
        self._leaders: dict[TopicPartition, Leader] = {}
        self._has_warned = False

    def view(self) -> Manifest:
        """Return the partitions of the options, with their present offsets."""
        options, cluster = self.options, self._cluster
        now_ms = self._clock.now_ms()
        named = sorted({key.topic for key in options.assign} | set(options.subscribe))
        there = cluster.leaders(named or None)
        keys = select(options, there, f"at {options.bootstrap}")
        self._leaders = {key: there[key] for key in keys}
        firsts = cluster.offsets(self._leaders, EARLIEST)
        ends = cluster.offsets(self._leaders, LATEST)
        stable = cluster.offsets(self._leaders, LATEST, is_committed=True)
        configs = cluster.configs(sorted({key.topic for key in keys})) if keys else {}
        hidden = sorted({key.topic for key in keys} - set(configs))
        if hidden and not self._has_warned:
            self._has_warned = True
            _logger.warning(
                "the broker does not tell the settings of %s: it is read as a compacted topic that "
                "keeps tombstones for a day; let this user describe its configs, or take no "
                "increments where it keeps them for less",
                ", ".join(hidden),
            )
        return Manifest(
            taken_at_ms=now_ms,
            cluster_id=cluster.cluster_id,
            partitions=tuple(
                PinnedPartition(
                    topic=key.topic,
                    partition=key.partition,
                    topic_id=self._leaders[key].topic_id,
                    log_start_offset=firsts[key],
                    end_offset=ends[key],
                    last_stable_offset=stable[key],
                    is_compacted=key.topic in hidden
                    or "compact" in configs[key.topic].get("cleanup.policy", ""),
                    delete_retention_ms=int(
                        configs.get(key.topic, {}).get("delete.retention.ms")
                        or _DEFAULT_RETENTION_MS
                    ),
                )
                for key in keys
            ),
        )

    def close(self) -> None:
        """Close the connections. Idempotent."""
        self._cluster.close()

    def find(self, partition: PinnedPartition, timestamp: int) -> int | None:
        """Return the offset of the first record at or after a time, by ListOffsets."""
        key = partition.topic_partition
        found = self._cluster.offsets({key: self._leaders[key]}, timestamp)[key]
        return found if found >= 0 else None


def find_data(options: ReadOptions) -> str:
    """Return the log directory of a cluster's only broker, empty if it is not visible here.

    A broker says where its log directories are. If one of them is visible here, belongs to the same
    cluster and lets this user read the control token, its files can be pinned.
    """
    try:
        with Cluster(options.bootstrap, options.kafka) as cluster:
            cluster.leaders([])
            if cluster.node_count > 1:
                return ""  # each broker has some partitions
            directories = cluster.log_directories()
            cluster_id = cluster.cluster_id
    except PipelineError:
        return ""  # reading over the network will report it
    return next((each for each in directories if is_of(Path(each), cluster_id)), "")

"""Any Kafka broker, over the network: offsets by ListOffsets, records by Fetch."""

from collections.abc import Mapping
from typing import Self

from siltstone.pipeline.client.cluster import Cluster, Leader
from siltstone.pipeline.client.wire import refused
from siltstone.pipeline.errors import BadOption
from siltstone.pipeline.options import EARLIEST, LATEST, ReadOptions
from siltstone.pipeline.planning.manifest import Manifest, PinnedPartition
from siltstone.pipeline.planning.plan import plan_splits
from siltstone.pipeline.planning.ranges import OffsetRange, resolve
from siltstone.pipeline.planning.split import Split
from siltstone.pipeline.transports.source import select
from siltstone.storage.clock import Clock
from siltstone.storage.topic_partition import TopicPartition

_DEFAULT_RETENTION_MS = 86_400_000


class FetchSource:
    """Knows offsets but no files; splits are read while the broker goes on."""

    name = "fetch"

    def __init__(self, options: ReadOptions) -> None:
        """Connect.

        Raises:
            SourceUnavailable: nobody answers.
            BadOption: no address is given, or settings that are not obeyed here.
        """
        if not options.bootstrap:
            raise BadOption("transport=fetch needs kafka.bootstrap.servers")
        unheeded = refused(options.kafka)
        if unheeded:
            raise BadOption(
                f"the fetch transport does not know kafka.{unheeded[0]}; leave it out, or use "
                "Spark's own connector"
            )
        self.options = options
        self._clock = Clock()
        self._cluster = Cluster(options.bootstrap, options.kafka)
        self._leaders: dict[TopicPartition, Leader] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

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
                    is_compacted="compact" in configs.get(key.topic, {}).get("cleanup.policy", ""),
                    delete_retention_ms=int(
                        configs.get(key.topic, {}).get("delete.retention.ms")
                        or _DEFAULT_RETENTION_MS
                    ),
                )
                for key in keys
            ),
        )

    def ranges(self, view: Manifest) -> dict[TopicPartition, OffsetRange]:
        """Return the ranges of offsets of the options."""
        return resolve(view, self.options, self._find)

    def plan(
        self, view: Manifest, ranges: Mapping[TopicPartition, OffsetRange] | None = None
    ) -> list[Split]:
        """Return splits that together read the ranges once."""
        if ranges is None:
            ranges = self.ranges(view)
        return plan_splits(view, self.options, ranges, transport=self.name, is_live=True)

    def close(self) -> None:
        """Close the connections. Idempotent."""
        self._cluster.close()

    def _find(self, partition: PinnedPartition, timestamp: int) -> int | None:
        key = partition.topic_partition
        found = self._cluster.offsets({key: self._leaders[key]}, timestamp)[key]
        return found if found >= 0 else None

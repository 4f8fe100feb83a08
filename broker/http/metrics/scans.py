"""What one scrape sees: every partition, group and compacted log is looked at once.

Every family of a scrape stands by itself in the text, and a dozen of them have a line for each
partition or topic. To walk over the logs anew for each takes three times as long as these walks.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Final

from siltstone.broker.groups._commit_kernels import answer_rows
from siltstone.cleaner import selection

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from siltstone.broker.groups.offsets import Offsets
    from siltstone.broker.topics.cleaning import Cleaning
    from siltstone.broker.topics.registry import TopicRegistry
    from siltstone.cleaner.selection import CleanableLog
    from siltstone.storage.log.log import Log

PAUSE: Final = None
"""What a walk yields on its way: a good moment to give the loop to others."""

AT_A_TIME: Final = 256
_LOGS_JUDGED_AT_A_TIME: Final = 32


class TopicSums:
    """The counters of a topic's partitions, added up."""

    __slots__ = ("batches_in", "bytes_in", "bytes_out", "records_in")

    def __init__(self) -> None:
        self.bytes_in = 0
        self.bytes_out = 0
        self.records_in = 0
        self.batches_in = 0


class PartitionScan:
    """The figures of all partitions that are in a topic, in columns; hidden logs are left out.

    ``labels`` are the braces' content, ready to be written; they stand beside ``partitions``.
    """

    __slots__ = (
        "compacted",
        "ends",
        "failed_produces",
        "labels",
        "late_count",
        "offline_count",
        "partitions",
        "producer_count",
        "segments",
        "sizes",
        "starts",
        "sums",
        "topic_labels",
        "topics",
    )

    def __init__(self) -> None:
        self.topics: list[str] = []
        self.topic_labels: list[str] = []
        self.sums: list[TopicSums] = []
        self.failed_produces: list[int] = []
        self.partitions: list[tuple[str, int]] = []
        self.labels: list[str] = []
        self.sizes: list[int] = []
        self.starts: list[int] = []
        self.ends: list[int] = []
        self.segments: list[int] = []
        self.compacted: list[tuple[tuple[str, int], Log]] = []
        self.producer_count = 0
        self.late_count = 0
        self.offline_count = 0

    def look(self, registry: TopicRegistry, late_since: int) -> Iterator[None]:
        """Walk over all logs once, and pause on the way; topics come and go in the meantime.

        A transaction is late whose producer was last heard of before ``late_since``.
        """
        by_topic: dict[str, tuple[TopicSums, str]] = {}
        for number, topic in enumerate(tuple(registry.topics.values()), 1):
            label = f'topic="{escape(topic.name)}"'
            sums = TopicSums()
            by_topic[topic.name] = sums, f'{label},partition="'
            self.topics.append(topic.name)
            self.topic_labels.append(label)
            self.sums.append(sums)
            self.failed_produces.append(topic.failed_produces)
            self.offline_count += topic.logs.count(None)
            if not number % AT_A_TIME:
                yield PAUSE
        # Two tuples and no pairs: thousands of new objects would wake the garbage collector.
        logs = registry.logs
        names, found = tuple(logs), tuple(logs.values())
        for start in range(0, len(found), AT_A_TIME):
            yield PAUSE
            end = start + AT_A_TIME
            self._add(names[start:end], found[start:end], by_topic, late_since)

    def _add(
        self,
        names: Sequence[tuple[str, int]],
        logs: Sequence[Log],
        by_topic: dict[str, tuple[TopicSums, str]],
        late_since: int,
    ) -> None:
        for name, log in zip(names, logs, strict=True):
            end = log.end
            producers = log.producers
            self.producer_count += len(producers.producers)
            if producers.open_transactions:
                self.late_count += _is_late(log, late_since)
            known = by_topic.get(name[0])
            if known is None:
                continue
            sums, label = known
            sums.bytes_in += end.bytes_in
            sums.bytes_out += log.bytes_out
            sums.records_in += end.records_in
            sums.batches_in += end.batches_in
            self.offline_count += log.directory.failure is not None
            self.partitions.append(name)
            self.labels.append(f'{label}{name[1]}"')
            self.sizes.append(end.size)
            self.starts.append(end.log_start_offset)
            self.ends.append(end.log_end_offset)
            self.segments.append(len(log.segments))
            if log.config.is_compacted:
                self.compacted.append((name, log))


def _is_late(log: Log, since_ms: int) -> bool:
    """Tell whether a partition has a transaction whose producer has been silent for so long."""
    producers = log.producers
    return any(
        producers.producers[producer_id].last_timestamp < since_ms
        for producer_id in producers.open_transactions
    )


class CleanableScan:
    """What a pass could clean in each compacted partition that is in a topic, in columns."""

    __slots__ = ("cleanable_bytes", "partitions", "ratios")

    def __init__(self) -> None:
        self.partitions: list[tuple[str, int]] = []
        self.ratios: list[float] = []
        self.cleanable_bytes: list[int] = []

    def look(
        self, cleaning: Cleaning, compacted: Sequence[tuple[tuple[str, int], Log]]
    ) -> Iterator[None]:
        """Judge each of them once, and pause on the way."""
        for number, (partition, log) in enumerate(compacted, 1):
            self._add(cleaning, partition, log)
            if number % _LOGS_JUDGED_AT_A_TIME == 0:
                yield PAUSE

    def _add(self, cleaning: Cleaning, partition: tuple[str, int], log: Log) -> None:
        ratio, size = 0.0, 0
        if len(log.segments) > 1:  # the active segment alone is never cleanable
            cleanable = find_cleanable(cleaning, log)
            if cleanable is None:
                return
            ratio, size = cleanable.ratio, cleanable.cleanable_bytes
        self.partitions.append(partition)
        self.ratios.append(ratio)
        self.cleanable_bytes.append(size)


class LagScan:
    """Committed offsets and lags, as many as the limit allows, in columns.

    A partition that is not there any more has an offset and no lag: None. ``labels`` are the
    braces' content, ready to be written.
    """

    __slots__ = ("keys", "labels", "lags", "offsets", "omitted")

    def __init__(self) -> None:
        self.keys: list[tuple[str, str, str]] = []
        self.labels: list[str] = []
        self.offsets: list[int] = []
        self.lags: list[int | None] = []
        self.omitted = 0

    def look(
        self, offsets: Offsets, logs: Mapping[tuple[str, int], Log], limit: int
    ) -> Iterator[None]:
        """Walk over the committed offsets once, up to the limit, and pause on the way."""
        steps = 0
        for group_ids in offsets.by_shard():
            for group_id in group_ids:
                if len(self.keys) >= limit:
                    break
                for topic, committed in tuple(offsets.topics(group_id).items()):
                    steps += 1
                    for indexes in _pieces(list(committed)[: limit - len(self.keys)]):
                        steps += len(indexes)
                        self._add(logs, group_id, topic, committed, indexes)
                        if steps >= AT_A_TIME:
                            steps = 0
                            yield PAUSE
        self.omitted = max(0, offsets.count - len(self.keys))

    def _add(
        self,
        logs: Mapping[tuple[str, int], Log],
        group_id: str,
        topic: str,
        committed: dict[int, bytes],
        indexes: Sequence[int],
    ) -> None:
        label = f'consumergroup="{escape(group_id)}",topic="{escape(topic)}",partition="'
        for index, offset, *_ in answer_rows(committed, indexes):
            if offset < 0:
                continue  # deleted while others were served
            log = logs.get((topic, index))
            self.keys.append((group_id, topic, str(index)))
            self.labels.append(f'{label}{index}"')
            self.offsets.append(offset)
            self.lags.append(None if log is None else max(0, log.end.log_end_offset - offset))


def _pieces(indexes: Sequence[int]) -> Iterator[Sequence[int]]:
    for start in range(0, len(indexes), AT_A_TIME):
        yield indexes[start : start + AT_A_TIME]


def find_cleanable(cleaning: Cleaning, log: Log) -> CleanableLog | None:
    """Return what a pass could clean; None if a file cannot be looked at, as the cleaner says.

    It may be one that was cut behind our back (struct.error).
    """
    try:
        return selection.find_cleanable(cleaning.manager.snapshot(log), cleaning.clock.now_ms())
    except (OSError, struct.error):
        return None


def escape(value: str) -> str:
    """Return a label's value as it stands between quotation marks."""
    if "\\" in value or '"' in value or "\n" in value:
        return value.replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n")
    return value

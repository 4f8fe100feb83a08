"""The scans of one scrape: each looks once at every partition, group, compacted log or client.

The text of a scrape is sorted by families, and a dozen families have a line for each partition or
topic. A walk over the logs for each family would take three times as long as these walks.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from siltstone.broker.groups.group_offsets import list_committed
from siltstone.broker.topics.cleaning import Cleaning
from siltstone.broker.topics.registry import TopicRegistry
from siltstone.cleaner import selection
from siltstone.cleaner.selection import CleanableLog
from siltstone.storage.log.log import Log

if TYPE_CHECKING:
    from siltstone.broker.groups.offsets import Offsets
    from siltstone.broker.telemetry import Instance, Telemetry
    from siltstone.protocol.otlp import Labels, Point

PAUSE: Final = None
"""A walk yields this on its way: a good moment to give the loop to others."""

AT_A_TIME: Final = 256
_LOGS_JUDGED_AT_A_TIME: Final = 32


@dataclass(slots=True)
class TopicSums:
    """The counters of a topic's partitions, added up."""

    bytes_in: int = 0
    bytes_out: int = 0
    records_in: int = 0
    batches_in: int = 0


@dataclass(slots=True)
class PartitionScan:
    """The figures of all partitions that are in a topic, in columns; hidden logs are left out.

    ``labels`` are the texts between the braces, one for each of ``partitions``.
    """

    topic_labels: list[str] = field(default_factory=list)
    sums: list[TopicSums] = field(default_factory=list)
    failed_produces: list[int] = field(default_factory=list)
    partitions: list[tuple[str, int]] = field(default_factory=list)
    labels: list[str] = field(default_factory=list)
    sizes: list[int] = field(default_factory=list)
    starts: list[int] = field(default_factory=list)
    ends: list[int] = field(default_factory=list)
    segments: list[int] = field(default_factory=list)
    compacted: list[tuple[str, Log]] = field(default_factory=list)  # bytes, with their labels
    producer_count: int = 0
    late_count: int = 0
    offline_count: int = 0

    def look(self, registry: TopicRegistry, late_since: int) -> Iterator[None]:
        """Walk over all logs once, with pauses; topics may be created or deleted meanwhile.

        A transaction is late if the last batch of its producer was before ``late_since``.
        """
        by_topic: dict[str, tuple[TopicSums, str]] = {}
        for number, topic in enumerate(tuple(registry.topics.values()), 1):
            label = f'topic="{escape(topic.name)}"'
            sums = TopicSums()
            by_topic[topic.name] = sums, f'{label},partition="'
            self.topic_labels.append(label)
            self.sums.append(sums)
            self.failed_produces.append(topic.failed_produces)
            self.offline_count += topic.logs.count(None)
            if not number % AT_A_TIME:
                yield PAUSE
        # Two tuples instead of pairs: thousands of new objects would start the garbage collector.
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
                self.compacted.append((self.labels[-1], log))


def _is_late(log: Log, since_ms: int) -> bool:
    """Tell whether a producer with an open transaction has written nothing since ``since_ms``."""
    producers = log.producers
    return any(
        producers.producers[producer_id].last_timestamp < since_ms
        for producer_id in producers.open_transactions
    )


@dataclass(slots=True)
class CleanableScan:
    """Bytes that a pass could clean in each compacted partition of a topic, in columns."""

    labels: list[str] = field(default_factory=list)
    ratios: list[float] = field(default_factory=list)
    cleanable_bytes: list[int] = field(default_factory=list)

    def look(self, cleaning: Cleaning, compacted: Sequence[tuple[str, Log]]) -> Iterator[None]:
        """Compute the bytes of each partition once, with pauses in between."""
        for number, (label, log) in enumerate(compacted, 1):
            self._add(cleaning, label, log)
            if number % _LOGS_JUDGED_AT_A_TIME == 0:
                yield PAUSE

    def _add(self, cleaning: Cleaning, label: str, log: Log) -> None:
        ratio, size = 0.0, 0
        if len(log.segments) > 1:  # the active segment alone is never cleanable
            cleanable = find_cleanable(cleaning, log)
            if cleanable is None:
                return
            ratio, size = cleanable.ratio, cleanable.cleanable_bytes
        self.labels.append(label)
        self.ratios.append(ratio)
        self.cleanable_bytes.append(size)


@dataclass(slots=True)
class LagScan:
    """Committed offsets and lags in columns, up to the limit.

    A deleted partition has an offset and a lag of None. ``labels`` are the texts between the
    braces.
    """

    labels: list[str] = field(default_factory=list)
    offsets: list[int] = field(default_factory=list)
    lags: list[int | None] = field(default_factory=list)
    omitted: int = 0

    def look(
        self, offsets: Offsets, logs: Mapping[tuple[str, int], Log], limit: int
    ) -> Iterator[None]:
        """Walk over the committed offsets once, up to the limit, with pauses in between."""
        steps = 0
        for group_ids in offsets.by_shard():
            for group_id in group_ids:
                if len(self.labels) >= limit:
                    break
                for topic, committed in tuple(offsets.topics(group_id).items()):
                    steps += 1
                    for indexes in _pieces(list(committed)[: limit - len(self.labels)]):
                        steps += len(indexes)
                        self._add(logs, group_id, topic, committed, indexes)
                        if steps >= AT_A_TIME:
                            steps = 0
                            yield PAUSE
        self.omitted = max(0, offsets.count - len(self.labels))

    def _add(
        self,
        logs: Mapping[tuple[str, int], Log],
        group_id: str,
        topic: str,
        committed: dict[int, bytes],
        indexes: Sequence[int],
    ) -> None:
        label = f'consumergroup="{escape(group_id)}",topic="{escape(topic)}",partition="'
        for index, offset, *_ in list_committed(committed, indexes):
            if offset < 0:
                continue  # deleted while others were served
            log = logs.get((topic, index))
            self.labels.append(f'{label}{index}"')
            self.offsets.append(offset)
            self.lags.append(None if log is None else max(0, log.end.log_end_offset - offset))


def _pieces(indexes: Sequence[int]) -> Iterator[Sequence[int]]:
    for start in range(0, len(indexes), AT_A_TIME):
        yield indexes[start : start + AT_A_TIME]


def find_cleanable(cleaning: Cleaning, log: Log) -> CleanableLog | None:
    """Return what a pass could clean; None if a file cannot be read: the cleaner reports that.

    Another program may have truncated the file (struct.error).
    """
    try:
        return selection.find_cleanable(cleaning.manager.snapshot(log), cleaning.clock.now_ms())
    except (OSError, struct.error):
        return None


def escape(value: str) -> str:
    """Return a label's value, escaped for quotation marks."""
    if "\\" in value or '"' in value or "\n" in value:
        return value.replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n")
    return value


CLIENT_PREFIX: Final = "siltstone_client_"
CLIENT_HELP: Final = "What clients pushed of themselves."
_KAFKA: Final = "org.apache.kafka."
_NOT_A_NAME: Final = re.compile(r"[^a-zA-Z0-9_]")
_MAY_BE_A_LABEL: Final = re.compile(r"_?[a-zA-Z]")
_MAX_NAME: Final = 150
_MAX_VALUE: Final = 150


@dataclass(slots=True)
class ClientScan:
    """Values that clients have pushed, as series by the names of their families.

    Names are formed like those of Kafka's metrics: after ``siltstone_client``, with underscores for
    dots. Clients choose the names, so names, labels and the number of series are limited; omitted
    series are counted.
    """

    families: dict[str, dict[Labels, float]] = field(default_factory=dict)
    omitted: int = 0
    clients: int = 0

    def look(self, telemetry: Telemetry, limit: int) -> Iterator[None]:
        """Walk over the last values of all clients, with pauses in between."""
        told = steps = 0
        for instance in telemetry.alive():
            self.clients += 1
            self.omitted += instance.omitted
            for point in instance.points:
                steps += 1
                if not steps % AT_A_TIME:
                    yield PAUSE
                if told >= limit:
                    self.omitted += 1
                else:
                    told += self._add(instance, point)

    def _add(self, instance: Instance, point: Point) -> bool:
        """Add a point; a point with the name and labels of a known series needs no new series."""
        family = self.families.setdefault(_family(point.name), {})
        labels = {_label(name): value[:_MAX_VALUE] for name, value in point.labels}
        labels["client_id"] = instance.client.client_id[:_MAX_VALUE]
        labels["client_instance_id"] = instance.client.instance_id
        count = len(family)
        family[tuple(sorted(labels.items()))] = point.value
        return len(family) > count


def client_lines(scan: ClientScan) -> Iterator[str | None]:
    """Yield the text of all families, several lines at a time."""
    written = 0
    for name, series in sorted(scan.families.items()):
        yield f"# HELP {name} {CLIENT_HELP}\n# TYPE {name} untyped\n"
        for labels, value in series.items():
            inside = ",".join(f'{label}="{escape(text)}"' for label, text in labels)
            yield f"{name}{{{inside}}} {_number(value)}\n"
            written += 1
            if not written % AT_A_TIME:
                yield PAUSE


def _number(value: float) -> str:
    if value != value:  # noqa: PLR0124 - only NaN is not itself
        return "NaN"
    if value in {float("inf"), float("-inf")}:
        return "+Inf" if value > 0 else "-Inf"
    return str(value)


def _family(name: str) -> str:
    return CLIENT_PREFIX + _NOT_A_NAME.sub("_", name.removeprefix(_KAFKA)[:_MAX_NAME])


def _label(name: str) -> str:
    plain = _NOT_A_NAME.sub("_", name[:_MAX_NAME])
    return plain if _MAY_BE_A_LABEL.match(plain) else f"label_{plain}"

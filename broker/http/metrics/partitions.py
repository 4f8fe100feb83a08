"""The readers of one value per partition or per topic, from the columns of a scan."""

from __future__ import annotations

from itertools import repeat
from typing import TYPE_CHECKING, Final

from siltstone.broker.http.metrics.metric import Column
from siltstone.broker.http.metrics.scans import AT_A_TIME, PAUSE

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from siltstone.broker.http.metrics.metric import Row
    from siltstone.broker.http.metrics.metric_sources import MetricSources
    from siltstone.broker.http.metrics.scans import PartitionScan

TOPIC: Final = ("topic",)
PARTITION: Final = ("topic", "partition")


class PartitionColumn(Column):
    """A reader of one value per partition."""

    def __init__(self, read: Callable[[PartitionScan], Iterable[float]]) -> None:
        self._read = read

    def __call__(self, sources: MetricSources) -> Iterator[Row]:
        """Yield a row for each partition."""
        scan = sources.scan
        for (topic, partition), value in zip(scan.partitions, self._read(scan), strict=False):
            yield (topic, str(partition)), value

    def lines(self, sources: MetricSources, series: str) -> Iterator[str | None]:
        """Yield the text, some lines at a time."""
        yield from _lines(series, sources.scan.labels, self._read(sources.scan))


class TopicColumn(Column):
    """A reader of one value per topic."""

    def __init__(self, read: Callable[[PartitionScan], Iterable[float]]) -> None:
        self._read = read

    def __call__(self, sources: MetricSources) -> Iterator[Row]:
        """Yield a row for each topic."""
        scan = sources.scan
        for topic, value in zip(scan.topics, self._read(scan), strict=False):
            yield (topic,), value

    def lines(self, sources: MetricSources, series: str) -> Iterator[str | None]:
        """Yield the text, some lines at a time."""
        yield from _lines(series, sources.scan.topic_labels, self._read(sources.scan))


def always(value: float) -> Callable[[PartitionScan], Iterable[float]]:
    """Return a function that gives the same value for each row."""
    return lambda _: repeat(value)


def _lines(series: str, labels: Sequence[str], values: Iterable[float]) -> Iterator[str | None]:
    rest = iter(values)
    for start in range(0, len(labels), AT_A_TIME):
        some = labels[start : start + AT_A_TIME]
        # The labels come first, so that zip takes no surplus value when they end.
        yield "".join(
            [f"{series}{{{label}}} {value}\n" for label, value in zip(some, rest, strict=False)]
        )
        yield PAUSE

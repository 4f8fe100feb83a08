"""A metric: its name, its text, its labels, and how its values are read at a scrape."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal, NamedTuple, TypeAlias, TypeVar

from siltstone.broker.http.metrics.scans import AT_A_TIME, PAUSE, PartitionScan
from siltstone.broker.process.histogram import Histogram

if TYPE_CHECKING:
    from siltstone.broker.http.metrics.metric_sources import MetricSources

P = TypeVar("P")

Kind: TypeAlias = Literal["counter", "gauge", "summary", "histogram", "untyped"]


class Summary(NamedTuple):
    """A count of events, their total time, and their recent times at `QUANTILES`."""

    times: int
    seconds: float
    quantiles: tuple[float, ...] = ()


Value: TypeAlias = float | Summary | Histogram
Row: TypeAlias = tuple[tuple[str, ...], Value]
Reader: TypeAlias = "Callable[[MetricSources], Iterator[Row | None]]"


class Column(NamedTuple):
    """A reader of values that a scan has found, which writes many lines of text at a time.

    ``labels`` returns the texts between the braces, and ``values`` their values in the same order.
    A value of None has no line; there may be more values than labels.
    """

    labels: Callable[[MetricSources], Sequence[str]]
    values: Callable[[MetricSources], Iterable[float | None]]

    def lines(self, sources: MetricSources, series: str) -> Iterator[str | None]:
        """Yield the text of the rows."""
        labels = self.labels(sources)
        rest = iter(self.values(sources))
        for start in range(0, len(labels), AT_A_TIME):
            some = labels[start : start + AT_A_TIME]
            # The labels come first, so that zip takes no surplus value when they end.
            yield "".join(
                [
                    f"{series}{{{label}}} {value}\n"
                    for label, value in zip(some, rest, strict=False)
                    if value is not None
                ]
            )
            yield PAUSE


@dataclass(frozen=True, slots=True)
class Metric:
    """One metric; the ``name`` of a counter lacks ``_total``.

    An ``untyped`` metric is a counter or a gauge with a name from jmx_exporter rules that set no
    type, such as a counter without ``_total``. ``source`` tells the documentation where ``read``
    finds the value; ``scale`` converts the seconds of a histogram or summary to the unit in the
    name.
    """

    kind: Kind
    name: str
    labels: tuple[str, ...]
    help: str
    source: str
    read: Reader | Column
    scale: float = 1.0

    @property
    def series(self) -> str:
        """The name as it is scraped and documented."""
        return f"{self.name}_total" if self.kind == "counter" else self.name


TOPIC: Final = ("topic",)
PARTITION: Final = ("topic", "partition")


def per_topic(read: Callable[[PartitionScan], Iterable[float]]) -> Column:
    """Return a reader of one value for each topic."""
    return Column(lambda sources: sources.scan.topic_labels, lambda sources: read(sources.scan))


def sum_of(name: str) -> Column:
    """Return a reader of one of the `TopicSums` of each topic."""
    return per_topic(lambda scan: [getattr(sums, name) for sums in scan.sums])


def per_partition(read: Callable[[PartitionScan], Iterable[float]]) -> Column:
    """Return a reader of one value for each partition."""
    return Column(lambda sources: sources.scan.labels, lambda sources: read(sources.scan))


def single(read: Callable[[MetricSources], Value]) -> Reader:
    """Return a reader of one unlabelled value."""

    def rows(sources: MetricSources) -> Iterator[Row]:
        yield (), read(sources)

    return rows


def one_of(find: Callable[[MetricSources], P | None]) -> Callable[[Callable[[P], Value]], Reader]:
    """Return a maker of readers of one value from a part; 0 while the part is not built."""

    def make(read: Callable[[P], Value]) -> Reader:
        return single(lambda sources: 0 if (part := find(sources)) is None else read(part))

    return make


def each_of(read: Callable[[P], Mapping[str, Value]]) -> Callable[[P], Iterator[Row]]:
    """Return a reader of one row for each entry of a mapping; the key is the only label."""
    return lambda part: (((key,), value) for key, value in tuple(read(part).items()))


def rows_of(
    find: Callable[[MetricSources], P | None],
) -> Callable[[Callable[[P], Iterator[Row]]], Reader]:
    """Return a function that makes readers of a part; they give no rows until it is built."""

    def make(read: Callable[[P], Iterator[Row]]) -> Reader:
        def rows(sources: MetricSources) -> Iterator[Row]:
            part = find(sources)
            if part is not None:
                yield from read(part)

        return rows

    return make

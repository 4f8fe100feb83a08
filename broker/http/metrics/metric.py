"""A metric: its name, its text, its labels, and how its values are read at a scrape."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, NamedTuple, TypeAlias, TypeVar

from siltstone.broker.process.histogram import Histogram

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

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


class Column(ABC):
    """A reader that writes many lines of text at a time, since it has thousands of rows."""

    @abstractmethod
    def __call__(self, sources: MetricSources) -> Iterator[Row | None]:
        """Yield the rows."""

    @abstractmethod
    def lines(self, sources: MetricSources, series: str) -> Iterator[str | None]:
        """Yield the text of the rows."""


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
    read: Reader
    scale: float = 1.0

    @property
    def series(self) -> str:
        """The name as it is scraped and documented."""
        return f"{self.name}_total" if self.kind == "counter" else self.name


def single(read: Callable[[MetricSources], Value]) -> Reader:
    """Return a reader of one unlabelled value."""

    def rows(sources: MetricSources) -> Iterator[Row]:
        yield (), read(sources)

    return rows


def one_of(
    find: Callable[[MetricSources], P | None],
) -> Callable[[Callable[[P], Value]], Reader]:
    """Return a maker of readers of one value from a part; 0 while the part is not built."""

    def make(read: Callable[[P], Value]) -> Reader:
        return single(lambda sources: 0 if (part := find(sources)) is None else read(part))

    return make


def rows_of(
    find: Callable[[MetricSources], P | None],
) -> Callable[[Callable[[P], Iterator[Row]]], Reader]:
    """Return a maker of readers of a part's rows; no rows while the part is not built."""

    def make(read: Callable[[P], Iterator[Row]]) -> Reader:
        def rows(sources: MetricSources) -> Iterator[Row]:
            part = find(sources)
            if part is not None:
                yield from read(part)

        return rows

    return make

"""What groups have committed, and how far behind the end of the log that is.

Names are those of kafka_exporter, which dashboards of consumer lag know. A group and a partition
are a series each, so their number is limited; what is left out is counted.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from siltstone.broker.http.metrics.metric import Column, Metric, single
from siltstone.broker.http.metrics.scans import AT_A_TIME, PAUSE

if TYPE_CHECKING:
    from collections.abc import Iterator

    from siltstone.broker.http.metrics.metric import Row
    from siltstone.broker.http.metrics.sources import MetricSources

_SERIES: Final = ("consumergroup", "topic", "partition")


class _LagColumn(Column):
    """A reader of one value per group and partition; rows without a value are left out."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __call__(self, sources: MetricSources) -> Iterator[Row]:
        """Yield a row for each group and partition."""
        values: list[int | None] = getattr(sources.lag, self._name)
        for key, value in zip(sources.lag.keys, values, strict=True):
            if value is not None:
                yield key, value

    def lines(self, sources: MetricSources, series: str) -> Iterator[str | None]:
        """Yield the text, some lines at a time."""
        labels = sources.lag.labels
        values: list[int | None] = getattr(sources.lag, self._name)
        for start in range(0, len(labels), AT_A_TIME):
            end = start + AT_A_TIME
            yield "".join(
                [
                    f"{series}{{{label}}} {value}\n"
                    for label, value in zip(labels[start:end], values[start:end], strict=True)
                    if value is not None
                ]
            )
            yield PAUSE


# fmt: off
LAG_METRICS = (
    Metric("gauge", "kafka_consumergroup_current_offset", _SERIES,
           "Offset that a group has committed for a partition.",
           "`Offsets`", _LagColumn("offsets")),
    Metric("gauge", "kafka_consumergroup_lag", _SERIES,
           "Records from a group's committed offset to the end of the log.",
           "`Offsets`, `end.log_end_offset` of the Log", _LagColumn("lags")),
    Metric("gauge", "siltstone_consumergroup_series_omitted", (),
           "Committed offsets that the two metrics before leave out: more than "
           "metrics.max.lag.series.",
           "`Offsets`", single(lambda sources: sources.lag.omitted)),
)
# fmt: on

"""Prometheus' text format, written in slices of a quarter of a millisecond.

A scrape of 5,000 partitions has tens of thousands of lines, and the writer of prometheus_client
would hold the loop for a fifth of a second (docs/decisions/0014-the-text-of-a-scrape.md). So the
text is written here, sample by sample, with a pause whenever a slice is used up; in a test
prometheus_client reads it. The import of prometheus_client takes 50 ms and 7 MiB, so the first
scrape does it, in steps.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from importlib import import_module
from itertools import accumulate
from typing import TYPE_CHECKING

from siltstone.broker.http.metrics.metric import Column, Metric, Summary
from siltstone.broker.http.metrics.metric_sources import MetricSources
from siltstone.broker.http.metrics.recent import QUANTILES
from siltstone.broker.http.metrics.scans import PAUSE, client_lines, escape
from siltstone.broker.http.metrics.table import METRICS
from siltstone.broker.http.values import HttpRequest, HttpResponse
from siltstone.broker.process.histogram import BOUNDS_SECONDS, Histogram
from siltstone.broker.process.loop_share import LoopShare

if TYPE_CHECKING:
    from prometheus_client import CollectorRegistry


CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
SLICE_SECONDS = 0.00025
_CHECK_EVERY = 16
# What prometheus_client imports, the slowest first, so that no step takes more than a few ms.
_IMPORTS = (
    "email.utils", "ssl", "html", "http.client", "http.server", "urllib.request",
    "wsgiref.simple_server", "prometheus_client",
)  # fmt: skip


class Scrapes:
    """The ``/metrics`` page."""

    def __init__(self, sources: MetricSources) -> None:
        self._sources = sources
        self._runtime: CollectorRegistry | None = None
        self._turn = asyncio.Lock()  # all scrapes together write one slice in a turn

    async def answer(self, _request: HttpRequest) -> HttpResponse:
        """Answer a scrape; the text is written while it is sent."""
        if self._runtime is None:
            self._runtime = await _runtime_registry()
        return HttpResponse(body=self._text(self._runtime), content_type=CONTENT_TYPE)

    async def _text(self, runtime: CollectorRegistry) -> AsyncIterator[bytes]:
        from prometheus_client import generate_latest  # noqa: PLC0415 - see above

        share = LoopShare(SLICE_SECONDS)
        async with self._turn:
            await share.turn()
            text = generate_latest(runtime)
        yield text
        lines = enumerate(self.lines(), 1)
        is_over = False
        while not is_over:
            async with self._turn:
                await share.turn()
                text, is_over = self.write_slice(lines, share)
            yield text

    def write_slice(
        self, lines: Iterator[tuple[int, str | None]], share: LoopShare
    ) -> tuple[bytes, bool]:
        """Return the text of one slice, and whether it was the last."""
        written: list[str] = []
        for number, line in lines:
            if line is not PAUSE:
                written.append(line)
                if number % _CHECK_EVERY:
                    continue
            if share.is_over:
                return "".join(written).encode(), False
        return "".join(written).encode(), True

    def lines(self) -> Iterator[str | None]:
        """Yield the text of our metrics, several lines at a time, and ``PAUSE``."""
        sources, looking = self._sources.begin()
        yield from looking
        for metric in METRICS:
            yield PAUSE
            yield f"# HELP {metric.series} {metric.help}\n# TYPE {metric.series} {metric.kind}\n"
            if isinstance(metric.read, Column):
                yield from metric.read.lines(sources, metric.series)
                continue
            plain = f"{metric.series}{_braces(metric.labels)} %s\n"
            for row in metric.read(sources):
                if row is PAUSE:
                    yield PAUSE
                    continue
                labels, value = row
                if isinstance(value, Histogram | Summary):
                    yield from _compound_lines(metric, labels, value)
                else:
                    yield plain % (*map(escape, labels), value)
        yield PAUSE
        yield from client_lines(sources.clients)


def _compound_lines(
    metric: Metric, label_values: tuple[str, ...], value: Histogram | Summary
) -> Iterator[str]:
    """Yield the buckets of a histogram, or the quantiles of a summary, then the count and sum."""
    prefix = _braces(metric.labels)[1:-1] % tuple(map(escape, label_values))
    start = f"{prefix}," if prefix else ""
    if isinstance(value, Histogram):
        counts = tuple(accumulate(value.buckets))
        bounds = (*(f"{bound * metric.scale:.6g}" for bound in BOUNDS_SECONDS), "+Inf")
        for bound, count in zip(bounds, counts, strict=True):
            yield f'{metric.name}_bucket{{{start}le="{bound}"}} {count}\n'
        times = counts[-1]
    else:
        for name, seconds in zip(QUANTILES, value.quantiles, strict=False):
            yield f'{metric.name}{{{start}quantile="{name}"}} {seconds * metric.scale}\n'
        times = value.times
    braces = f"{{{prefix}}}" if prefix else ""
    yield f"{metric.name}_count{braces} {times}\n"
    yield f"{metric.name}_sum{braces} {value.seconds * metric.scale}\n"


def _braces(labels: tuple[str, ...]) -> str:
    """Return label names with a ``%s`` for each value."""
    return "{" + ",".join(f'{name}="%s"' for name in labels) + "}" if labels else ""


async def _runtime_registry() -> CollectorRegistry:
    """Return a registry with the metrics of the interpreter that prometheus_client has."""
    share = LoopShare()
    for name in _IMPORTS:
        import_module(name)
        await share.rest()
    from prometheus_client import (  # noqa: PLC0415 - see above
        CollectorRegistry,
        GCCollector,
        PlatformCollector,
    )

    registry = CollectorRegistry()
    GCCollector(registry=registry)
    PlatformCollector(registry=registry)
    return registry

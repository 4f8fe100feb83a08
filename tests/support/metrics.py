"""Sources of metrics that stand in for a broker of any size."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from types import SimpleNamespace
from typing import Any, cast

from siltstone.broker.coordinators import Coordinators
from siltstone.broker.fetching.sessions import FetchSessions
from siltstone.broker.groups.offsets import Offsets
from siltstone.broker.http.metrics.metric import Column, Metric
from siltstone.broker.http.metrics.metric_sources import ListenerCounts, MetricSources
from siltstone.broker.http.metrics.recent import Recent
from siltstone.broker.process.first_use import OnFirstUse
from siltstone.broker.process.histogram import Histogram
from siltstone.broker.process.request_stats import RequestStats
from siltstone.broker.topics.registry import TopicRegistry
from siltstone.protocol.messages.consumer_offsets import OffsetCommitValue
from siltstone.storage.clock import Clock
from siltstone.storage.log.services import FlushStats
from tests.support.committed import new_offsets

HIDDEN = "siltstone probe 00"


def fake_log(number: int) -> SimpleNamespace:
    """Stand for a Log: the counters that are read."""
    return SimpleNamespace(
        end=SimpleNamespace(
            bytes_in=number * 100,
            records_in=number,
            batches_in=1,
            size=number * 1000,
            log_start_offset=number,
            log_end_offset=2**60 + number,
        ),
        bytes_out=number * 10,
        config=SimpleNamespace(is_compacted=False),
        segments=(None,) * 2,
        producers=SimpleNamespace(producers={}, open_transactions={}),
        directory=SimpleNamespace(failure=None if number < 3 else "broken"),
    )


def make_sources(topics: dict[str, int]) -> MetricSources:
    """Return sources over topics with so many partitions each, and one hidden log."""
    logs = {(name, p): fake_log(p + 1) for name, count in topics.items() for p in range(count)}
    logs[HIDDEN, 0] = fake_log(7)
    requests = RequestStats([(0, "Produce"), (1, "Fetch")])
    requests.by_key[0].observe(0.0003)
    requests.by_key[0].observe(60.0)
    requests.by_key[0].failed(0)
    requests.by_key[0].failed(9999)
    of_topics = {
        name: SimpleNamespace(
            name=name, logs=[logs[name, p] for p in range(count)], failed_produces=count
        )
        for name, count in topics.items()
    }
    loop_lag = Histogram()
    loop_lag.observe(0.001)
    sessions = SimpleNamespace(sessions={1: None}, partition_count=2, evicted_count=3)
    flushes = FlushStats()
    for _ in range(2):
        flushes.add(0.25)
    listeners = [ListenerCounts("PLAINTEXT", 3, 10)]
    registry = SimpleNamespace(logs=logs, topics=of_topics)
    return MetricSources(
        version="1.0",
        started=1_700_000_000.5,
        topics=cast("TopicRegistry", registry),
        requests=requests,
        recent=Recent(Clock(), requests, loop_lag, lambda: listeners),
        loop_lag=loop_lag,
        listeners=lambda: listeners,
        sessions=cast(FetchSessions, sessions),
        waiting_fetches=lambda: 4,
        flushes=flushes,
        offline_directories=lambda: {'/data "one"\\': True, "/two": False},
        dead_threads=list,
        ready=lambda: True,
        starting=lambda: False,
        software=lambda: iter([("librdkafka", "2.1", "PLAINTEXT"), None]),
        max_lag_series=lambda: 100,
    )


def rows_of(metric: Metric, sources: MetricSources) -> Iterator[tuple[tuple[str, ...], Any]]:
    """Yield the values of the labels, and the value, of each row of a metric."""
    if isinstance(metric.read, Column):
        pairs = zip(metric.read.labels(sources), metric.read.values(sources), strict=False)
        yield from ((tuple(re.findall('="([^"]*)"', labels)), value) for labels, value in pairs)
    else:
        yield from filter(None, metric.read(sources))


def with_offsets(
    sources: MetricSources, committed: Mapping[tuple[str, str, int], int], limit: int
) -> MetricSources:
    """Return sources with committed offsets of groups, topics and partitions."""
    offsets = Offsets(lambda _partition, _rows, _producer: 0)
    for (group, topic, partition), offset in committed.items():
        value = OffsetCommitValue(offset, -1, "", 0, -1)
        offsets.append(group, 0, new_offsets((topic, partition, value)))
    groups = SimpleNamespace(
        offsets=offsets,
        groups={},
        member_bytes=SimpleNamespace(size=0),
        journal=SimpleNamespace(loading_count=0, load_seconds=0.0, entries_loaded=0),
    )
    built = SimpleNamespace(
        built=SimpleNamespace(
            groups=groups,
            transactions=None,
            share_states=None,
            dead_letters=SimpleNamespace(built=None),
        )
    )
    coordinators = cast("OnFirstUse[Coordinators]", built)
    return replace(sources, coordinators=coordinators, max_lag_series=lambda: limit)

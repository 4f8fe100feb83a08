"""Sources of metrics that stand in for a broker of any size."""

from types import SimpleNamespace
from typing import TYPE_CHECKING, cast

from siltstone.broker.http.metrics.sources import (
    FlushCounts,
    ListenerCounts,
    MetricSources,
    SessionCounts,
)
from siltstone.broker.net._dispatch_kernels import Histogram
from siltstone.broker.net.request_stats import RequestStats

if TYPE_CHECKING:
    from siltstone.broker.topics.registry import TopicRegistry

HIDDEN = "siltstone probe 00"


def fake_log(number: int) -> SimpleNamespace:
    """Stand for a Log: the counters that are read."""
    return SimpleNamespace(
        end=SimpleNamespace(bytes_in=number * 100, records_in=number, batches_in=1),
        bytes_out=number * 10,
        size=number * 1000,
        log_start_offset=number,
        log_end_offset=2**60 + number,
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
        name: SimpleNamespace(logs=[logs[name, p] for p in range(count)])
        for name, count in topics.items()
    }
    registry = SimpleNamespace(logs=logs, topics=of_topics)
    return MetricSources(
        version="1.0",
        kernels="compiled",
        started=1_700_000_000.5,
        topics=cast("TopicRegistry", registry),
        requests=requests,
        loop_lag=Histogram(),
        listeners=lambda: [ListenerCounts("PLAINTEXT", 3, 10)],
        sessions=lambda: SessionCounts(1, 2, 3),
        waiting_fetches=lambda: 4,
        flushes=lambda: FlushCounts(2, 0.5),
        offline_directories=lambda: {'/data "one"\\': True, "/two": False},
        dead_threads=list,
        ready=lambda: True,
    )

"""The metrics page: prometheus_client reads our text, and no slice of it holds the loop."""

import asyncio
import json
import sys
from collections.abc import AsyncIterator
from itertools import accumulate, repeat
from typing import Any, cast

import pytest
from prometheus_client.metrics_core import Metric as Family
from prometheus_client.parser import text_string_to_metric_families

from siltstone.broker.http.metrics.exposition import Scrapes
from siltstone.broker.http.metrics.metric import Metric, Summary
from siltstone.broker.http.metrics.metric_sources import MetricSources
from siltstone.broker.http.metrics.recent import QUANTILES
from siltstone.broker.http.metrics.table import METRICS
from siltstone.broker.http.values import HttpRequest
from siltstone.broker.process.histogram import BOUNDS_SECONDS, Histogram
from siltstone.broker.process.loop_share import LoopShare
from siltstone.storage.clock import Clock
from tests.support.clock import set_seconds
from tests.support.metrics import HIDDEN, make_sources, rows_of

CHANGING = ("python_", "process_", "avgidle", "linux_disk", "creation_rate", "close_rate")
REQUEST = HttpRequest(method="GET", path="/metrics")


async def scrape(sources: MetricSources) -> str:
    """Return the text of a scrape."""
    response = await Scrapes(sources).answer(REQUEST)
    body = cast("AsyncIterator[bytes]", response.body)
    return b"".join([piece async for piece in body]).decode()


def values(families: Any) -> dict[tuple[str, str], float]:
    """Return every sample by name and labels, but for what changes from one read to the next."""
    return {
        (sample.name, json.dumps(sample.labels, sort_keys=True)): sample.value
        for family in families
        for sample in family.samples
        if not any(each in sample.name for each in CHANGING)
    }


def family_of(metric: Metric, sources: MetricSources) -> Family:
    """Return a metric as prometheus_client has it."""
    family = Family(metric.name, metric.help, "unknown")
    for names, value in rows_of(metric, sources):
        labels = dict(zip(metric.labels, names, strict=True))
        if not isinstance(value, Summary | Histogram):
            family.add_sample(metric.series, labels, value)
            continue
        if isinstance(value, Summary):
            times = [each * metric.scale for each in value.quantiles]
            parts = list(zip(repeat(("", "quantile")), QUANTILES, times, strict=False))
            count = value.times
        else:
            bounds = [f"{each * metric.scale:.6g}" for each in BOUNDS_SECONDS]
            counts = accumulate(value.buckets)
            kind = repeat(("_bucket", "le"))
            parts = list(zip(kind, (*bounds, "+Inf"), counts, strict=False))
            count = value.count
        for (suffix, label), name, number in parts:
            family.add_sample(metric.name + suffix, {**labels, label: name}, number)
        family.add_sample(f"{metric.name}_count", labels, count)
        family.add_sample(f"{metric.name}_sum", labels, value.seconds * metric.scale)
    return family


async def test_text_says_what_the_table_reads() -> None:
    """prometheus_client parses our text into the samples that the rows of the table give."""
    sources = make_sources({"orders": 3, "a.b_c-d": 1})

    text = await scrape(sources)

    mine, looking = sources.begin()
    assert not any(looking)
    expected = values(family_of(metric, mine) for metric in METRICS)
    assert values(text_string_to_metric_families(text)) == expected


async def test_every_metric_is_declared_once() -> None:
    """Each family has its HELP and TYPE, the interpreter's own included."""
    text = await scrape(make_sources({"orders": 1}))
    helps = [line.split()[2] for line in text.splitlines() if line.startswith("# HELP")]

    assert len(helps) == len(set(helps))
    assert {metric.series for metric in METRICS} < set(helps)
    assert "python_info" in helps


@pytest.mark.parametrize(
    "line",
    [
        'kafka_server_brokertopicmetrics_bytesin_total{topic="orders"} 600',
        'kafka_server_brokertopicmetrics_messagesin_total{topic="orders"} 6',
        'kafka_log_log_size{topic="orders",partition="2"} 3000',
        'kafka_log_log_logendoffset{topic="orders",partition="0"} 1152921504606846977',
        "kafka_server_replicamanager_partitioncount 3",
        "kafka_controller_kafkacontroller_offlinepartitionscount 1",
        'kafka_network_requestmetrics_requests_total{request="Produce"} 2',
        'kafka_network_requestmetrics_errors_total{request="Produce",error="NONE"} 1',
        'kafka_network_requestmetrics_errors_total{request="Produce",error="9999"} 1',
        'siltstone_request_seconds_bucket{request="Produce",le="0.00025"} 0',
        'siltstone_request_seconds_bucket{request="Produce",le="0.0005"} 1',
        'siltstone_request_seconds_bucket{request="Produce",le="+Inf"} 2',
        'kafka_network_requestmetrics_totaltimems_count{request="Produce"} 2',
        "kafka_log_logflushstats_logflushrateandtimems_sum 500.0",
        'kafka_log_logmanager_logdirectoryoffline{logdirectory="/data \\"one\\"\\\\"} 1',
    ],
)
async def test_line_is_what_a_dashboard_expects(line: str) -> None:
    """Names, labels and units are Kafka's; offsets keep all their digits."""
    text = await scrape(make_sources({"orders": 3}))

    assert line in text.splitlines()


KAFKAS = """
    LogCleaner: max_buffer_utilization_percent cleaner_recopy_percent max_clean_time_secs
    LogCleaner: max_compaction_delay_secs DeadThreadCount
    LogCleanerManager: max_dirty_percent time_since_last_run_ms
    LogCleanerManager: uncleanable_partitions_count uncleanable_bytes
    Log: NumLogSegments LogStartOffset LogEndOffset Size
    LogManager: OfflineLogDirectoryCount LogDirectoryOffline
    LogFlushStats: LogFlushRateAndTimeMs
"""


def test_logs_and_cleaner_have_kafkas_names() -> None:
    """Kafka's metrics of logs and of their cleaner have the exporter's names."""
    lines = [line.split() for line in KAFKAS.strip().splitlines()]
    names = {f"kafka_log_{bean[:-1]}_{each}".lower() for bean, *rest in lines for each in rest}
    meters = "NoKeyCompactedTopic InvalidMagicNumber InvalidMessageCrc InvalidOffsetOrSequence"
    topics = "kafka_server_brokertopicmetrics"
    names |= {f"{topics}_{meter}Records".lower() for meter in meters.split()}
    names.add("kafka_utils_throttler_cleaner_io")

    assert names - {metric.name for metric in METRICS} == set()


async def test_hidden_log_is_not_told() -> None:
    """The probe's log is in no topic and in no metric."""
    assert HIDDEN not in await scrape(make_sources({"orders": 1}))


async def test_topic_deleted_during_a_scrape_does_no_harm() -> None:
    """A scrape reads on over the logs it has seen."""
    sources = make_sources({"orders": 3000})
    pieces = cast("AsyncIterator[bytes]", (await Scrapes(sources).answer(REQUEST)).body)
    await anext(pieces)
    await anext(pieces)
    cast("dict[Any, Any]", sources.topics.logs).clear()

    assert (b"".join([piece async for piece in pieces])).endswith(b"\n")


class CallClock(Clock):
    """Time goes by calls, a thousand of them a millisecond: no busy machine makes it faster."""

    calls = 0

    def count(self, _frame: object, event: str, _argument: object) -> None:
        """Count a call; for `sys.setprofile`."""
        self.calls += event in {"call", "c_call"}

    def monotonic(self) -> float:
        """Return the seconds that the calls so far stand for."""
        return self.calls / 1e6


async def test_no_slice_of_a_scrape_holds_the_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    """With 5,000 partitions the work between two pauses stays a small multiple of a millisecond."""
    sources = make_sources({"wide": 4000, **{f"topic-{n}": 1 for n in range(1000)}})
    await scrape(make_sources({}))
    clock = CallClock()
    set_seconds(monkeypatch, clock.monotonic)
    turns: list[float] = []

    pieces = cast("AsyncIterator[bytes]", (await Scrapes(sources).answer(REQUEST)).body)
    sys.setprofile(clock.count)
    began = clock.monotonic()
    async for _ in pieces:
        turns.append(clock.monotonic() - began)
        began = clock.monotonic()
    sys.setprofile(None)

    assert len(turns) > 10
    assert sorted(turns)[len(turns) // 2] < 0.003
    assert max(turns) < 0.02


async def test_many_scrapes_together_write_one_slice_in_a_turn() -> None:
    """A hundred that are asked for at once do not hold the loop longer than one."""
    sources = make_sources({"wide": 300})
    await scrape(make_sources({}))
    scrapes = Scrapes(sources)
    turn = 0
    slices: list[int] = []
    write = scrapes.write_slice

    def counting(lines: Any, share: LoopShare) -> Any:
        slices.append(turn)
        return write(lines, share)

    async def read() -> bytes:
        body = (await scrapes.answer(REQUEST)).body
        return b"".join([piece async for piece in cast("AsyncIterator[bytes]", body)])

    async def count() -> None:
        nonlocal turn
        while True:
            turn += 1
            await asyncio.sleep(0)

    scrapes.write_slice = counting  # type: ignore[method-assign]
    beside = asyncio.create_task(count())
    texts = await asyncio.gather(*[read() for _ in range(100)])
    beside.cancel()

    assert all(text.endswith(b"\n") for text in texts)
    assert len(slices) >= 100
    assert len(set(slices)) == len(slices)

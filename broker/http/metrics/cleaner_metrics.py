"""The metrics of the log cleaner: Kafka's metrics by their usual names, and our own."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING

from siltstone.broker.http.metrics.metric import (
    PARTITION,
    Column,
    Metric,
    Row,
    each_of,
    one_of,
    rows_of,
)
from siltstone.broker.http.metrics.scans import CleanableScan, find_cleanable
from siltstone.broker.topics.cleaning import Cleaning
from siltstone.cleaner.one_pass.stats import Reason
from siltstone.storage.log.log import Log

if TYPE_CHECKING:
    from siltstone.broker.http.metrics.metric_sources import MetricSources
    from siltstone.cleaner.threads.pool import CleanerPool


def _find_pool(sources: MetricSources) -> CleanerPool | None:
    return None if sources.cleaning is None else sources.cleaning.pool.built


_of_cleaner = one_of(lambda sources: sources.cleaning)
_rows_of_cleaner = rows_of(lambda sources: sources.cleaning)
_of_pool = one_of(_find_pool)
_rows_of_pool = rows_of(_find_pool)


def _per_compacted(read: Callable[[CleanableScan], Sequence[float]]) -> Column:
    """Return a reader of one value per compacted partition."""
    return Column(lambda sources: sources.cleanable.labels, lambda sources: read(sources.cleanable))


def _last_passes(pool: CleanerPool) -> Iterator[Row]:
    for (topic, partition), last in tuple(pool.services.figures.last.items()):
        yield (topic, str(partition)), last.started_ms / 1000


def _uncleanable_count(cleaning: Cleaning) -> Iterator[Row]:
    counts = Counter(str(log.directory.path) for log in _failed_logs(cleaning))
    for directory in cleaning.directories:
        yield (directory,), counts[directory]


def _uncleanable_bytes(cleaning: Cleaning) -> Iterator[Row]:
    counts: Counter[str] = Counter()
    for log in _failed_logs(cleaning):
        cleanable = find_cleanable(cleaning, log)
        if cleanable is not None:
            counts[str(log.directory.path)] += cleanable.cleanable_bytes
    for directory in cleaning.directories:
        yield (directory,), counts[directory]


def _failed_logs(cleaning: Cleaning) -> list[Log]:
    logs = cleaning.logs
    return [log for each in cleaning.manager.failures() if (log := logs.get(each)) is not None]


def _failed(cleaning: Cleaning) -> Iterator[Row]:
    for (topic, partition), failure in cleaning.manager.failures().items():
        yield (topic, str(partition), failure.cause), failure.attempts


def _passes(pool: CleanerPool) -> Iterator[Row]:
    figures = pool.services.figures
    yield ("cleaned",), figures.passes
    yield ("aborted",), figures.aborted
    yield ("failed",), sum(tuple(figures.failures.values()))


def _dropped(pool: CleanerPool) -> dict[str, int]:
    return {reason.value: pool.services.figures.dropped[reason] for reason in Reason}


_LOG_CLEANER = "kafka_log_logcleaner"
_MANAGER = "kafka_log_logcleanermanager"

# fmt: off
CLEANER_METRICS = (
    Metric("gauge", f"{_LOG_CLEANER}_max_buffer_utilization_percent", (),
           "How full the fullest offset map of the threads' last passes was.",
           "`CleanerFigures`",
           _of_pool(lambda pool: pool.services.figures.max_buffer_utilization_percent)),
    Metric("gauge", f"{_LOG_CLEANER}_cleaner_recopy_percent", (),
           "Bytes written of those read, in the threads' last passes.",
           "`CleanerFigures`",
           _of_pool(lambda pool: pool.services.figures.recopy_percent)),
    Metric("gauge", f"{_LOG_CLEANER}_max_clean_time_secs", (),
           "Whole seconds of the longest of the threads' last passes.",
           "`CleanerFigures`",
           _of_pool(lambda pool: int(pool.services.figures.max_clean_seconds))),
    Metric("gauge", f"{_LOG_CLEANER}_max_compaction_delay_secs", (),
           "By how much max.compaction.lag.ms was exceeded most, at the last selection.",
           "`CleanerManager`",
           _of_cleaner(lambda cleaning: cleaning.manager.last_selection.max_delay_ms // 1000)),
    Metric("gauge", f"{_LOG_CLEANER}_deadthreadcount", (),
           "Cleaner threads that died since the start; each was replaced, the log has the reason.",
           "`CleanerPool`", _of_pool(lambda pool: pool.died)),
    Metric("gauge", f"{_MANAGER}_max_dirty_percent", (),
           "The greatest dirty ratio among all logs at the last selection, eligible or not.",
           "`CleanerManager`",
           _of_cleaner(lambda each: int(100 * each.manager.last_selection.max_dirty_ratio))),
    Metric("gauge", f"{_MANAGER}_time_since_last_run_ms", (),
           "Milliseconds since a cleaner thread last looked for work.",
           "`CleanerManager`",
           _of_cleaner(lambda cleaning:
                cleaning.clock.now_ms() - cleaning.manager.last_selection.now_ms)),
    Metric("gauge", f"{_MANAGER}_uncleanable_partitions_count", ("logdirectory",),
           "Partitions whose last pass failed; they are tried again by themselves.",
           "`CleanerManager`", _rows_of_cleaner(_uncleanable_count)),
    Metric("gauge", f"{_MANAGER}_uncleanable_bytes", ("logdirectory",),
           "What could be cleaned in partitions whose last pass failed.",
           "`CleanerManager`", _rows_of_cleaner(_uncleanable_bytes)),
    Metric("counter", "kafka_utils_throttler_cleaner_io", (),
           "Bytes that cleaner threads read and wrote.",
           "`Throttle`", _of_pool(lambda pool: pool.throttle.total_bytes)),
    Metric("counter", "siltstone_cleaner_throttle_seconds", (),
           "Seconds that cleaner threads waited for log.cleaner.io.max.bytes.per.second.",
           "`Throttle`", _of_pool(lambda pool: pool.throttle.slept_seconds)),
    Metric("gauge", "siltstone_cleaner_threads", (),
           "Cleaner threads that run.",
           "`CleanerPool`",
           _of_pool(lambda pool: sum(each.is_alive for each in pool.threads))),
    Metric("counter", "siltstone_cleaner_passes", ("outcome",),
           "Passes that ended: cleaned, aborted because somebody else came first, failed.",
           "`CleanerFigures`", _rows_of_pool(_passes)),
    Metric("counter", "siltstone_cleaner_failures", ("cause",),
           "Passes that failed, by the kind of the error.",
           "`CleanerFigures`",
           _rows_of_pool(each_of(lambda pool: pool.services.figures.failures))),
    Metric("counter", "siltstone_cleaner_records_dropped", ("reason",),
           "Records that passes dropped, by reason.",
           "`CleanerFigures`", _rows_of_pool(each_of(_dropped))),
    Metric("counter", "siltstone_cleaner_bytes_read", (),
           "Bytes of log that passes read, both readings together.",
           "`CleanerFigures`", _of_pool(lambda pool: pool.services.figures.bytes_read)),
    Metric("counter", "siltstone_cleaner_bytes_written", (),
           "Bytes of log that passes wrote.",
           "`CleanerFigures`", _of_pool(lambda pool: pool.services.figures.bytes_written)),
    Metric("gauge", "siltstone_cleaner_partition_failures", ("topic", "partition", "cause"),
           "How often in a row the pass over a partition has failed, as long as it does.",
           "`CleanerManager`", _rows_of_cleaner(_failed)),
    Metric("gauge", "siltstone_cleaner_dirty_ratio", PARTITION,
           "Share of the partition that is dirty; more than min.cleanable.dirty.ratio is cleaned.",
           "`cleaner.selection`", _per_compacted(lambda scan: scan.ratios)),
    Metric("gauge", "siltstone_cleaner_cleanable_bytes", PARTITION,
           "Bytes of the partition that a pass could clean now.",
           "`cleaner.selection`", _per_compacted(lambda scan: scan.cleanable_bytes)),
    Metric("gauge", "siltstone_cleaner_last_pass_timestamp_seconds", PARTITION,
           "When the last pass over the partition began, in seconds since the epoch.",
           "`CleanerFigures`", _rows_of_pool(_last_passes)),
)
# fmt: on

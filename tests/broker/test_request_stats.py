"""Counters that dispatch adds to on each request."""

import pytest

from broker.request_stats import BOUNDS_SECONDS, ApiStats, Histogram, RequestStats


@pytest.mark.parametrize(
    ("seconds", "bucket"),
    [(0.0, 0), (BOUNDS_SECONDS[0], 0), (0.000_051, 1), (5.0, 15), (5.1, 16), (1e9, 16)],
)
def test_duration_falls_into_the_bucket_that_bounds_it(seconds: float, bucket: int) -> None:
    """A bound belongs to its own bucket, as Prometheus reads `le`; the last has no bound."""
    histogram = Histogram()

    histogram.observe(seconds)

    assert histogram.buckets.index(1) == bucket
    assert (histogram.count, histogram.seconds) == (1, seconds)


def test_bounds_rise() -> None:
    """The buckets are in order."""
    assert list(BOUNDS_SECONDS) == sorted(set(BOUNDS_SECONDS))


def test_errors_are_counted_by_code() -> None:
    """Each code has its own count."""
    stats = ApiStats("Produce")
    for code in (3, 3, 56):
        stats.failed(code)

    assert stats.errors == {3: 2, 56: 1}


def test_every_api_has_its_stats() -> None:
    """The table's rows are known from the start, so that a dashboard finds zeroes."""
    stats = RequestStats([(0, "Produce"), (3, "Metadata")])

    assert {key: api.name for key, api in stats.by_key.items()} == {0: "Produce", 3: "Metadata"}
    assert stats.refused == 0

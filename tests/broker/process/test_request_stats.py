"""Counters that dispatch adds to on each request."""

from siltstone.broker.process.request_stats import ApiStats, RequestStats


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

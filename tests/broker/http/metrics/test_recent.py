"""Rates and quantiles of late, from counters that only grow."""

import pytest

from siltstone.broker.http.metrics.metric_sources import ListenerCounts
from siltstone.broker.http.metrics.recent import Recent, quantiles
from siltstone.broker.process.histogram import BOUNDS_SECONDS, Histogram
from siltstone.broker.process.request_stats import RequestStats
from tests.support.clock import FakeClock

PRODUCE = 0


class Broker:
    """Counters that a test sets, and what is recent of them."""

    def __init__(self) -> None:
        self.clock = FakeClock()
        self.requests = RequestStats([(PRODUCE, "Produce")])
        self.counts = ListenerCounts("PLAINTEXT", 0, 0)
        self.cpu = 0.0
        self.recent = Recent(
            self.clock, self.requests, Histogram(), lambda: [self.counts], lambda: self.cpu
        )

    def later(self, seconds: float) -> None:
        """Let time go by, and scrape."""
        self.clock.advance(1000 * seconds)
        self.recent.note()


def test_idle_is_of_the_last_minute() -> None:
    """A thread that computed for an hour and then for 15 s of a minute is idle for 3/4."""
    broker = Broker()
    broker.cpu = 3600.0
    broker.later(3600)
    broker.cpu += 15.0
    broker.later(60)

    assert broker.recent.idle == pytest.approx(0.75)


def test_connections_come_and_go_at_a_rate() -> None:
    """Thirty came in a minute and twelve went."""
    broker = Broker()
    broker.counts = ListenerCounts("PLAINTEXT", 18, 30)
    broker.clock.advance(60_000)

    assert list(broker.recent.connection_rates()) == [("PLAINTEXT", 0.5, 0.2)]


def test_old_requests_leave_the_quantiles() -> None:
    """A slow request of an hour ago does not make the present slow."""
    broker = Broker()
    for _ in range(100):
        broker.requests.by_key[PRODUCE].observe(4.0)
    slow = broker.recent.request_quantiles(PRODUCE)[0]
    for _ in range(20):
        broker.later(60)
    broker.requests.by_key[PRODUCE].observe(0.0001)

    assert slow > 2.5
    assert broker.recent.request_quantiles(PRODUCE)[-1] <= 0.0001


def test_samples_are_bounded() -> None:
    """A scrape each second makes the broker remember as much as one each minute."""
    broker = Broker()
    for _ in range(10_000):
        broker.later(1)

    assert len(broker.recent.samples) == 10


def test_quantiles_are_between_the_bounds_of_their_bucket() -> None:
    """Half of what fell into one bucket is half way between its bounds."""
    nothing = [0] * (len(BOUNDS_SECONDS) + 1)
    counts = list(nothing)
    counts[3] = 10

    found = quantiles(counts, nothing)

    assert found[0] == pytest.approx((BOUNDS_SECONDS[2] + BOUNDS_SECONDS[3]) / 2)
    assert quantiles(nothing, nothing) == (0.0,) * 6


def test_what_is_beyond_the_last_bound_counts_as_that() -> None:
    """A request of an hour is told as the greatest bound."""
    nothing = [0] * (len(BOUNDS_SECONDS) + 1)

    assert quantiles([*nothing[:-1], 1], nothing) == (BOUNDS_SECONDS[-1],) * 6

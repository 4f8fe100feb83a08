"""What every request passes."""

import pytest

from siltstone.broker.net import _dispatch_kernels as kernel
from siltstone.broker.net._dispatch_kernels import BOUNDS_SECONDS


@pytest.mark.parametrize(
    ("seconds", "bucket"),
    [(0.0, 0), (BOUNDS_SECONDS[0], 0), (0.000_051, 1), (5.0, 15), (5.1, 16), (1e9, 16)],
)
def test_duration_falls_into_the_bucket_that_bounds_it(seconds: float, bucket: int) -> None:
    """A bound belongs to its own bucket, as Prometheus reads `le`; the last has no bound."""
    histogram = kernel.Histogram()

    histogram.observe(seconds)

    assert histogram.buckets.index(1) == bucket
    assert (histogram.count, histogram.seconds) == (1, seconds)


def test_bounds_rise() -> None:
    """The buckets are in order."""
    assert list(BOUNDS_SECONDS) == sorted(set(BOUNDS_SECONDS))

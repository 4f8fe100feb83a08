"""What each API was asked and how long it took: plain integers that dispatch adds to.

The counters are Kafka's RequestMetrics (requests, errors, total time). A histogram is a list of
integers with fixed bounds, because dispatch pays for an observation on each request and an
exporter's own objects cost several microseconds.
"""

from __future__ import annotations

from bisect import bisect_left
from typing import TYPE_CHECKING

from storage.refused_batches import COUNTED

if TYPE_CHECKING:
    from collections.abc import Iterable

    from protocol.errors import KafkaError

# 1-2.5-5 steps from 50 us, where a small produce ends, to 5 s, beyond every long poll by default.
BOUNDS_SECONDS = (
    0.000_05,
    0.000_1,
    0.000_25,
    0.000_5,
    0.001,
    0.002_5,
    0.005,
    0.01,
    0.025,
    0.05,
    0.1,
    0.25,
    0.5,
    1.0,
    2.5,
    5.0,
)


class Histogram:
    """Durations in fixed buckets; bucket ``i`` holds what is at most ``BOUNDS_SECONDS[i]``.

    The last bucket has no bound. Loop only.
    """

    __slots__ = ("buckets", "seconds")

    def __init__(self) -> None:
        self.buckets = [0] * (len(BOUNDS_SECONDS) + 1)
        self.seconds = 0.0

    def observe(self, seconds: float) -> None:
        """Count one duration."""
        self.buckets[bisect_left(BOUNDS_SECONDS, seconds)] += 1
        self.seconds += seconds

    @property
    def count(self) -> int:
        """How many durations were observed."""
        return sum(self.buckets)


class ApiStats(Histogram):
    """One API: its requests and their time from the whole frame to the handed-over response."""

    __slots__ = ("errors", "name")

    def __init__(self, name: str) -> None:
        super().__init__()
        self.name = name
        self.errors: dict[int, int] = {}

    def failed(self, error_code: int) -> None:
        """Count a response, or a part of one, that carries a Kafka error code."""
        self.errors[error_code] = self.errors.get(error_code, 0) + 1


class RequestStats:
    """The ``ApiStats`` of every API that is served, by key. Loop only."""

    __slots__ = ("by_key", "invalid_records", "refused")

    def __init__(self, apis: Iterable[tuple[int, str]]) -> None:
        self.by_key = {key: ApiStats(name) for key, name in apis}
        # Frames that could not be decoded; each closed its connection.
        self.refused = 0
        self.invalid_records = dict.fromkeys(COUNTED, 0)

    def refused_batch(self, error: KafkaError) -> None:
        """Count a batch that was not appended, if Kafka has a meter for its fault.

        Records without a key count one by one, what is wrong with a batch as one.
        """
        if error.counted_as:
            self.invalid_records[error.counted_as] += len(error.record_errors) or 1

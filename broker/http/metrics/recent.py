"""Rates and quantiles of the last minutes, like Kafka's meters and percentiles.

The broker only counts. So this module keeps the values of counters at earlier scrapes, at most ten
samples in five minutes. A recent figure is the difference between now and one of these samples.
"""

from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Final

from siltstone.broker.process.histogram import BOUNDS_SECONDS, Histogram
from siltstone.broker.process.request_stats import RequestStats
from siltstone.storage.clock import Clock, thread_seconds

QUANTILES: Final = ("0.50", "0.75", "0.95", "0.98", "0.99", "0.999")
"""As jmx_exporter's rules write Kafka's percentiles."""

_EVERY_SECONDS: Final = 30.0
_KEPT: Final = 10
_RATE_SECONDS: Final = 60.0
_NUMBERS: Final = tuple(map(float, QUANTILES))
NO_TIMES: Final = (0.0,) * len(QUANTILES)
"""The quantiles of no values."""


@dataclass(frozen=True, slots=True)
class _Sample:
    at: float
    cpu_seconds: float
    lag: tuple[int, ...]
    times: Mapping[int, tuple[int, ...]]
    connections: Mapping[str, tuple[int, int]]


class Recent:
    """Rates of about a minute and quantiles of about five (loop only, on the loop's own thread).

    If scrapes are rarer, the figures are since the scrape before; at the first scrape, since the
    first use of the port. ``listeners`` yields for each listener its name and its numbers of open
    and of accepted connections.
    """

    def __init__(
        self,
        clock: Clock,
        requests: RequestStats,
        loop_lag: Histogram,
        listeners: Callable[[], Iterable[tuple[str, int, int]]],
        cpu_seconds: Callable[[], float] = thread_seconds,
    ) -> None:
        self._clock = clock
        self._requests = requests
        self._loop_lag = loop_lag
        self._listeners = listeners
        self._cpu_seconds = cpu_seconds
        self.samples = deque([self._take()], _KEPT)

    def note(self) -> None:
        """Keep the current counters, if the last sample is half a minute old."""
        if self._clock.monotonic() - self.samples[-1].at >= _EVERY_SECONDS:
            self.samples.append(self._take())

    @property
    def idle(self) -> float:
        """Return the share of the last minute in which the thread of the loop was idle."""
        then = self._minute_ago()
        seconds = self._clock.monotonic() - then.at
        if seconds <= 0:
            return 1.0
        return min(1.0, max(0.0, 1 - (self._cpu_seconds() - then.cpu_seconds) / seconds))

    def connection_rates(self) -> Iterable[tuple[str, float, float]]:
        """Yield each listener with the connections opened and closed in a second."""
        then = self._minute_ago()
        seconds = self._clock.monotonic() - then.at
        for name, is_open, accepted in self._listeners():
            opened, closed = then.connections.get(name, (0, 0))
            came, went = accepted - opened, accepted - is_open - closed
            yield (name, came / seconds, went / seconds) if seconds > 0 else (name, 0.0, 0.0)

    def lag_quantiles(self) -> tuple[float, ...]:
        """Return the lag of the loop in seconds, at the quantiles."""
        return quantiles(self._loop_lag.buckets, self.samples[0].lag)

    def request_quantiles(self, key: int) -> tuple[float, ...]:
        """Return how many seconds requests of an API took, at the quantiles."""
        return quantiles(self._requests.by_key[key].buckets, self.samples[0].times[key])

    def _minute_ago(self) -> _Sample:
        """Return the newest sample that is at least a minute old, else the oldest."""
        latest = self._clock.monotonic() - _RATE_SECONDS
        old = [each for each in self.samples if each.at <= latest]
        return old[-1] if old else self.samples[0]

    def _take(self) -> _Sample:
        return _Sample(
            at=self._clock.monotonic(),
            cpu_seconds=self._cpu_seconds(),
            lag=tuple(self._loop_lag.buckets),
            times={key: tuple(each.buckets) for key, each in self._requests.by_key.items()},
            connections={
                name: (accepted, accepted - is_open)
                for name, is_open, accepted in self._listeners()
            },
        )


def quantiles(now: Sequence[int], then: Sequence[int]) -> tuple[float, ...]:
    """Return the seconds at `QUANTILES` for the counts of a histogram between two times.

    Inside a bucket the values are interpolated linearly; values above the last bound count as that
    bound.
    """
    counts = [later - earlier for later, earlier in zip(now, then, strict=True)]
    upto = list(accumulate(counts))
    total = upto[-1]
    if not total:
        return NO_TIMES
    found = []
    for number in _NUMBERS:
        wanted = number * total
        bucket = next(place for place, count in enumerate(upto) if count >= wanted)
        if bucket == len(BOUNDS_SECONDS):
            found.append(BOUNDS_SECONDS[-1])
            continue
        low = BOUNDS_SECONDS[bucket - 1] if bucket else 0.0
        inside = (wanted - (upto[bucket] - counts[bucket])) / counts[bucket]
        found.append(low + (BOUNDS_SECONDS[bucket] - low) * inside)
    return tuple(found)

"""How much a client may still ask for, and how long it has to wait after it has asked for too much.

Kafka measures byte rates and request time over windows. A client above its limit waits until the
windows are below the limit. Each connection gets the same wait, so four connections with large
requests get two and a half times their quota. The amount that leaves the oldest window may be used
again at once. This broker uses a bucket that may be in debt. The bucket keeps the quota whatever
the requests are, since the connections of a client wait one after the other. Kafka itself uses such
a bucket for mutations (TokenBucket, KIP-599). Times are seconds of a steady clock.
"""

import math
from collections.abc import Callable
from typing import Final, NamedTuple

from siltstone.protocol.errors import ThrottlingQuotaExceeded


class Windows(NamedTuple):
    """The number of time windows over which a quota is kept, and the length of each."""

    number: int
    seconds: float

    @property
    def memory(self) -> float:
        """Return for how many seconds requests are remembered."""
        return self.number * self.seconds

    @property
    def credit(self) -> float:
        """Return how many seconds of its rate a client that was silent may ask for at once.

        This is half of Kafka's credit: with Kafka's windows it is at most a tenth of what a minute
        allows.
        """
        return max(self.number - 1, 1) * self.seconds / 2


class TokenBucket:
    """The amount that may be used at once; it grows at the limit's rate for ``credit`` seconds.

    What is used beyond the amount is a debt, of at most ``max_delay`` seconds. The delay is the
    time until the debt is paid.
    """

    __slots__ = ("_credit", "_last", "_limit", "_max_delay", "_tokens")

    def __init__(
        self, credit: float, limit: float, now: float, *, max_delay: float = math.inf
    ) -> None:
        self._credit = credit
        self._limit = limit
        self._max_delay = max_delay
        self._tokens = credit * limit
        self._last = now

    def set_limit(self, limit: float, now: float) -> None:
        """Fill at another rate from now on.

        A higher limit pays a debt sooner, so that clients go on after their quota is raised. A
        lower limit does not lengthen the time until a debt is paid.
        """
        if limit != self._limit:
            self._fill(now)
            if self._tokens < 0 and limit < self._limit:
                self._tokens *= limit / self._limit
            self._limit = limit

    def take(self, count: float, now: float) -> None:
        """Take ``count`` from the bucket, into debt if need be."""
        self._fill(now)
        self._tokens = max(self._tokens - count, -self._max_delay * self._limit)

    def find_delay(self, now: float) -> float:
        """Return in how many seconds the debt is paid; 0 if there is no debt."""
        self._fill(now)
        return max(0.0, -self._tokens / self._limit)

    def is_full(self, now: float) -> bool:
        """Tell whether the client was silent for so long that the bucket can be forgotten."""
        self._fill(now)
        return self._tokens >= self._credit * self._limit

    def _fill(self, now: float) -> None:
        filled = self._tokens + self._limit * max(0.0, now - self._last)
        self._tokens = min(filled, self._credit * self._limit)
        self._last = max(now, self._last)


_EXCEEDED: Final = "The throttling quota has been exceeded."


class Mutations:
    """The partitions that one request may still create and delete (KIP-599).

    ``delay`` is how many seconds its client has to wait.

    If ``is_strict``, a mutation is refused while there is a debt. An older client does not know
    that error: its mutations are carried out, and the client waits.
    """

    def __init__(
        self, bucket: TokenBucket, monotonic: Callable[[], float], *, is_strict: bool
    ) -> None:
        self.delay = 0.0
        self._bucket = bucket
        self._monotonic = monotonic
        self._is_strict = is_strict

    def take(self, partitions: int) -> None:
        """Count partitions that are created or deleted next.

        Raises:
            ThrottlingQuotaExceeded: There have been too many mutations.
        """
        now = self._monotonic()
        if self._is_strict:
            self.delay = max(self.delay, self._bucket.find_delay(now))
            if self.delay:
                raise ThrottlingQuotaExceeded(_EXCEEDED)
        self._bucket.take(partitions, now)
        if not self._is_strict:
            self.delay = self._bucket.find_delay(now)

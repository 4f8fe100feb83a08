"""How much a client may still ask for, and how long it has to wait when it has asked for too much.

Kafka measures byte rates and request time over windows, and lets a client above wait until the
windows are down to the limit. Each connection is told the same, so four of them with large
requests get two and a half times their quota; and what falls out of the oldest window may come at
once again. A bucket that may be in debt holds the quota whatever the requests are: the connections
of a client wait one after the other. Kafka itself does so for mutations (TokenBucket, KIP-599).
Times are seconds of a steady clock.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final, NamedTuple

from siltstone.protocol.errors import ThrottlingQuotaExceeded

if TYPE_CHECKING:
    from collections.abc import Callable


class Windows(NamedTuple):
    """Over how many windows of time a quota is held, and how long each is."""

    number: int
    seconds: float

    @property
    def memory(self) -> float:
        """Return for how long what was asked for is remembered."""
        return self.number * self.seconds

    @property
    def credit(self) -> float:
        """Return how many seconds of its rate a client that was silent may ask for at once.

        Half of Kafka's: with its own windows that is at most a tenth of what a minute allows.
        """
        return max(self.number - 1, 1) * self.seconds / 2


class TokenBucket:
    """The amount that may be asked for at once: it grows at the limit, to ``credit`` seconds of it.

    What is taken beyond is a debt of at most ``max_delay`` seconds, and the delay is how long it
    takes until that is paid.
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

        A debt is paid the sooner for a higher limit, and takes no longer than before for a lower
        one: after a quota is raised its clients should go on.
        """
        if limit != self._limit:
            self._fill(now)
            if self._tokens < 0 and limit < self._limit:
                self._tokens *= limit / self._limit
            self._limit = limit

    def take(self, count: float, now: float) -> None:
        """Take what is asked for."""
        self._fill(now)
        self._tokens = max(self._tokens - count, -self._max_delay * self._limit)

    def find_delay(self, now: float) -> float:
        """Return after how many seconds the debt is paid; 0 without a debt."""
        self._fill(now)
        return max(0.0, -self._tokens / self._limit)

    def is_full(self, now: float) -> bool:
        """Tell whether the client has been silent for so long that nothing is to be remembered."""
        self._fill(now)
        return self._tokens >= self._credit * self._limit

    def _fill(self, now: float) -> None:
        filled = self._tokens + self._limit * max(0.0, now - self._last)
        self._tokens = min(filled, self._credit * self._limit)
        self._last = max(now, self._last)


_EXCEEDED: Final = "The throttling quota has been exceeded."


class Mutations:
    """The partitions that one request may still make and delete (KIP-599).

    ``delay`` is how many seconds its client has to wait.

    If ``is_strict``, one that comes while there is a debt is refused. An older client does not know
    the error: its mutations are made, and it waits.
    """

    def __init__(
        self, bucket: TokenBucket, monotonic: Callable[[], float], *, is_strict: bool
    ) -> None:
        self.delay = 0.0
        self._bucket = bucket
        self._monotonic = monotonic
        self._is_strict = is_strict

    def take(self, partitions: int) -> None:
        """Count partitions that are made or deleted next.

        Raises:
            ThrottlingQuotaExceeded: There have been too many.
        """
        now = self._monotonic()
        if self._is_strict:
            self.delay = max(self.delay, self._bucket.find_delay(now))
            if self.delay:
                raise ThrottlingQuotaExceeded(_EXCEEDED)
        self._bucket.take(partitions, now)
        if not self._is_strict:
            self.delay = self._bucket.find_delay(now)

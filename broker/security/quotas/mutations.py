"""How many partitions the request that is being served may still make and delete (KIP-599)."""

from __future__ import annotations

from contextvars import ContextVar
from typing import TYPE_CHECKING, Final

from siltstone.protocol.errors import ThrottlingQuotaExceeded

if TYPE_CHECKING:
    from collections.abc import Callable

    from siltstone.broker.security.quotas.rates import TokenBucket

_EXCEEDED: Final = "The throttling quota has been exceeded."
_CURRENT: ContextVar[Mutations | None] = ContextVar("mutations", default=None)


class Mutations:
    """The mutations of one request; ``delay`` is how many seconds its client has to wait.

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


def begin(mutations: Mutations) -> None:
    """Have the mutations of the current task, and of those that it starts, counted."""
    _CURRENT.set(mutations)


def take_partitions(count: int) -> None:
    """Count partitions that this request makes or deletes next, if it has a quota.

    Raises:
        ThrottlingQuotaExceeded: There have been too many.
    """
    mutations = _CURRENT.get()
    if mutations is not None:
        mutations.take(count)

"""The threads that serve the channels of clients: senders, and io threads for cold reads."""

from __future__ import annotations

import asyncio
import logging
import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Final, TypeVar

from siltstone.broker.process.io import IoThreads

if TYPE_CHECKING:
    from siltstone.broker.net.sending.senders import Senders
    from siltstone.broker.net.tls.senders import TlsSenders

_Kind = TypeVar("_Kind")

_logger = logging.getLogger(__name__)

RETRY_SECONDS: Final = 1.0
"""How long the loop sends before threads that the system has refused are tried again."""


class SendingThreads:
    """``count`` threads that send large ranges, and ``count`` that also encrypt (loop only).

    Each kind is started when it is first needed. With a count of 0 the loop sends by itself, and as
    long as the system has no descriptor or no thread for them, which is asked once a second: each
    try starts and ends the threads that the system does have.
    """

    def __init__(self, io: IoThreads, count: int) -> None:
        self.io = io
        self._count = count
        self._senders: Senders | None = None
        self._tls_senders: TlsSenders | None = None
        self._now = asyncio.get_running_loop().time
        self._next_try = -math.inf

    def find_senders(self) -> Senders | None:
        """Return the sender threads; the first call starts them."""
        if self._count and self._senders is None:
            self._senders = self._start(_make_senders)
        return self._senders

    def find_tls_senders(self) -> TlsSenders | None:
        """Return the sender threads that encrypt; the first call starts them."""
        if self._count and self._tls_senders is None:
            self._tls_senders = self._start(_make_tls_senders)
        return self._tls_senders

    def _start(self, make: Callable[[int], _Kind]) -> _Kind | None:
        if self._now() < self._next_try:
            return None
        try:
            return make(self._count)
        except (OSError, RuntimeError) as error:
            self._next_try = self._now() + RETRY_SECONDS
            _logger.warning(
                "sender threads cannot be started, the loop sends: allow the broker more "
                "descriptors or threads reason=%s",
                error,
            )
            return None

    def close(self) -> None:
        """End the sender threads; what they have not sent is dropped."""
        running = self._senders, self._tls_senders
        self._count, self._senders, self._tls_senders = 0, None, None
        for senders in running:
            if senders is not None:
                senders.close()


def _make_senders(count: int) -> Senders:
    from siltstone.broker.net.sending.senders import Senders  # noqa: PLC0415

    return Senders(count)


def _make_tls_senders(count: int) -> TlsSenders:
    from siltstone.broker.net.tls.senders import TlsSenders  # noqa: PLC0415

    return TlsSenders(count)

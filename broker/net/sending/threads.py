"""The threads that serve the channels of clients: senders, and io threads for cold reads."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from siltstone.broker.process.first_use import OnFirstUse

if TYPE_CHECKING:
    from siltstone.broker.net.sending.senders import Senders
    from siltstone.broker.net.tls.senders import TlsSenders
    from siltstone.broker.process.io import IoThreads


class SendingThreads:
    """``count`` threads that send large ranges, and ``count`` that also encrypt (loop only).

    Each kind is started when it is first needed. With a count of 0 the loop sends by itself.
    """

    def __init__(self, io: IoThreads, count: int) -> None:
        self.io = io
        self._senders = OnFirstUse(partial(_start_senders, count)) if count else None
        self._tls_senders = OnFirstUse(partial(_start_tls_senders, count)) if count else None

    def find_senders(self) -> Senders | None:
        """Return the sender threads; the first call starts them."""
        senders = self._senders
        return None if senders is None else senders.get()

    def find_tls_senders(self) -> TlsSenders | None:
        """Return the sender threads that encrypt; the first call starts them."""
        senders = self._tls_senders
        return None if senders is None else senders.get()

    def close(self) -> None:
        """End the sender threads; what they have not sent is dropped."""
        senders, self._senders = self._senders, None
        if senders is not None and senders.built is not None:
            senders.built.close()
        tls_senders, self._tls_senders = self._tls_senders, None
        if tls_senders is not None and tls_senders.built is not None:
            tls_senders.built.close()


def _start_senders(count: int) -> Senders:
    from siltstone.broker.net.sending.senders import Senders  # noqa: PLC0415

    return Senders(count)


def _start_tls_senders(count: int) -> TlsSenders:
    from siltstone.broker.net.tls.senders import TlsSenders  # noqa: PLC0415

    return TlsSenders(count)

"""The threads that serve the channels of clients: senders, and io threads for cold reads."""

from __future__ import annotations

from typing import TYPE_CHECKING

from siltstone.broker.process.io import IoThreads

if TYPE_CHECKING:
    from siltstone.broker.net.sending.senders import Senders
    from siltstone.broker.net.tls.senders import TlsSenders


class SendingThreads:
    """``count`` threads that send large ranges, and ``count`` that also encrypt (loop only).

    Each kind is started when it is first needed. With a count of 0 the loop sends by itself.
    """

    def __init__(self, io: IoThreads, count: int) -> None:
        self.io = io
        self._count = count
        self._senders: Senders | None = None
        self._tls_senders: TlsSenders | None = None

    def find_senders(self) -> Senders | None:
        """Return the sender threads; the first call starts them."""
        if self._count and self._senders is None:
            from siltstone.broker.net.sending.senders import Senders  # noqa: PLC0415

            self._senders = Senders(self._count)
        return self._senders

    def find_tls_senders(self) -> TlsSenders | None:
        """Return the sender threads that encrypt; the first call starts them."""
        if self._count and self._tls_senders is None:
            from siltstone.broker.net.tls.senders import TlsSenders  # noqa: PLC0415

            self._tls_senders = TlsSenders(self._count)
        return self._tls_senders

    def close(self) -> None:
        """End the sender threads; what they have not sent is dropped."""
        running = self._senders, self._tls_senders
        self._count, self._senders, self._tls_senders = 0, None, None
        for senders in running:
            if senders is not None:
                senders.close()

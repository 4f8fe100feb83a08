"""The HTTP port of the broker: its readers, and the files by which local tools find it.

The port writes files into the first log directory: the token of the control channel, its address
and, if it encrypts, its certificate.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from siltstone.broker.http.control.token import ControlToken, note_address
from siltstone.broker.http.server import HttpServer, Routes
from siltstone.broker.http.values import Admission
from siltstone.broker.net.binding import why_not_bound
from siltstone.broker.net.sending.threads import SendingThreads
from siltstone.broker.process.io import IoThreads
from siltstone.broker.process.tasks import Reservations, Tasks
from siltstone.broker.security.security import Security
from siltstone.broker.topics.settings.in_force import BrokerSettings
from siltstone.config.errors import StartError
from siltstone.config.listeners import is_loopback, show_address
from siltstone.config.tls import HTTP
from siltstone.storage.directory.control import note_certificate

if TYPE_CHECKING:
    from siltstone.broker.net.tls.contexts import Endpoint
    from siltstone.broker.net.tls.handshakes import Handshakes

_logger = logging.getLogger(__name__)


class HttpPort:
    """The server of the pages, with its token and its address (loop only).

    With ``handshakes`` the port encrypts. ``address`` is known from `start` on; ``admission`` has
    the rules for readers.
    ``find_routes`` is not called before the first connection.
    """

    def __init__(
        self,
        directory: Path,
        settings: BrokerSettings,
        sending: SendingThreads,
        security: Security,
        handshakes: Handshakes | None,
        find_routes: Callable[[], Awaitable[Routes]],
    ) -> None:
        self.token = ControlToken(directory)
        self.address = ("", 0)
        self._directory = directory
        self._settings = settings
        self._io = sending.io
        self._security = security
        self._handshakes = handshakes
        self.admission = self._make_admission()
        self._server = HttpServer(
            find_routes,
            admission=self.admission,
            encryption=None if handshakes is None else (handshakes, sending),
        )

    async def start(self) -> None:
        """Listen, and note the address in the log directory.

        Raises:
            StartError: The token cannot be written, or the address is taken.
        """
        server = self._settings.server
        host, port = server.http_address
        try:
            self.token.ensure()
        except OSError as error:
            raise StartError(f"cannot write the control token: {error}") from error
        try:
            addresses = await self._server.start(host, port)
        except OSError as error:
            raise StartError(
                f"cannot listen on http.listener {show_address(host, port)}: {why_not_bound(error)}"
            ) from error
        self.address = addresses[0]
        shown = None if self._handshakes is None else self._handshakes.endpoint.pem
        with suppress(OSError):  # only a help for local tools that read the folder
            note_certificate(self._directory, shown)
        note_address(
            self._directory,
            *self.address,
            is_encrypted=server.http_security_protocol.endswith("SSL"),
        )
        for bound_host, bound_port in addresses:
            _logger.info("listening listener=http address=%s", show_address(bound_host, bound_port))

    def admit(self, hosts: frozenset[str]) -> None:
        """Accept requests for these hosts from now on."""
        self._server.admit(hosts)

    async def close(self) -> None:
        """Stop listening, and end the connections."""
        await self._server.close()

    def _make_admission(self) -> Admission:
        """Return the rules for readers: on loopback all are admitted, otherwise proven names."""
        server = self._settings.server
        is_trusted = self.token.is_brought_by
        hosts = server.http_hosts
        asks = server.http_security_protocol.startswith("SASL_")
        if is_loopback(server.http_address[0]) or (server.http_anonymous_reads and not asks):
            return Admission(hosts=hosts, is_trusted=is_trusted)
        if not asks:
            from siltstone.broker.http.credentials import refuse_strangers  # noqa: PLC0415  # few do

            refuse = partial(refuse_strangers, is_trusted, self._security.may_describe)
            return Admission(hosts=hosts, is_trusted=is_trusted, refuse=refuse)
        from siltstone.broker.http.credentials import Credentials  # noqa: PLC0415  # few ask

        credentials = Credentials(
            self._security.users.get(),
            self._io,
            is_trusted,
            lambda: self._settings.server.security.connection_failed_authentication_delay_ms / 1000,
            self._security.may_describe,
            self._security.audit,
        )
        return Admission(
            hosts=hosts,
            is_trusted=is_trusted,
            refuse=credentials.refuse,
            find_name=credentials.find_name,
        )


class CertificateNote:
    """Keeps the file with the port's certificate up to date after reloads (loop only)."""

    def __init__(self, io: IoThreads, directory: Path) -> None:
        self._io = io
        self._directory = directory
        self._turns = Reservations()
        self._tasks = Tasks(_tell_fault)

    def renew(self, name: str, endpoint: Endpoint) -> None:
        """Write the certificate of a listener if it is the port; writes keep their order."""
        if name == HTTP:
            self._tasks.start(self._write(endpoint.pem), "certificate note")

    async def close(self) -> None:
        """Wait until the certificate is written."""
        await self._tasks.finish()

    async def _write(self, pem: str) -> None:
        async with self._turns.hold(self._directory):
            await self._io.run(note_certificate, self._directory, pem)


def _tell_fault(failed: asyncio.Task[None]) -> None:
    """Log why a certificate could not be noted."""
    _logger.warning("the certificate cannot be noted reason=%s", failed.exception())

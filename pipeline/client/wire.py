"""A small Kafka client: one blocking connection to a broker, and the few requests of a reader.

It speaks Metadata 12, ListOffsets 6, Fetch 12, DescribeConfigs 4 and DescribeLogDirs 2, which
Apache Kafka serves since 2.8. Nothing is shared between threads.
"""

import socket
import struct
from collections.abc import Mapping
from contextlib import suppress
from typing import Any, Final, NamedTuple, Self

from siltstone.config.trust import why_untrusted
from siltstone.pipeline.client.login import Login, read_login
from siltstone.pipeline.client.tls import SETTINGS, make_context, speaks_tls
from siltstone.pipeline.errors import BadOption, PipelineError, SourceUnavailable
from siltstone.protocol.errors import ProtocolError
from siltstone.protocol.messages import Message, sasl_authenticate, sasl_handshake

CLIENT_ID: Final = "siltstone-pipeline"
_REMEDY: Final = "check kafka.bootstrap.servers and kafka.security.protocol"
_SECONDS: Final = 60.0
_MAX_FRAME_BYTES: Final = 1 << 30
_HEAD: Final = struct.Struct(">hhih")
_CORRELATION_BYTES: Final = 4
_NOT_THERE: Final = (ConnectionRefusedError, TimeoutError, socket.gaierror)
_OBEYED: Final = {
    "security.protocol",
    "sasl.mechanism",
    "sasl.jaas.config",
    "sasl.username",
    "sasl.password",
} | SETTINGS
_SECURITY: Final = {"PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"}


class Exchange(NamedTuple):
    """A kind of request: the tables of request and response, and the version."""

    request: Message
    response: Message
    version: int


_HANDSHAKE: Final = Exchange(sasl_handshake.REQUEST, sasl_handshake.RESPONSE, 1)
_AUTHENTICATE: Final = Exchange(sasl_authenticate.REQUEST, sasl_authenticate.RESPONSE, 2)


class Wire:
    """One connection. Requests are answered in order, so one may be sent ahead (`send`, `take`)."""

    def __init__(
        self,
        address: tuple[str, int],
        settings: Mapping[str, str],
        client_id: str = CLIENT_ID,
        *,
        remedy: str = _REMEDY,
        seconds: float = _SECONDS,
    ) -> None:
        """Connect, and log in if the settings say how; ``remedy`` is the end of the error text.

        Each wait for the broker may take so many ``seconds``.

        Raises:
            SourceUnavailable: no broker answers there, or the login is refused.
            BadOption: settings ask for something that is not supported here.
        """
        self._address = address
        self._client_id = client_id
        self._remedy = remedy
        self._seconds = seconds
        protocol = settings.get("security.protocol", "PLAINTEXT").upper()
        if protocol not in _SECURITY:
            raise BadOption(f"kafka.security.protocol is one of {', '.join(sorted(_SECURITY))}")
        login = read_login(settings) if protocol.startswith("SASL") else None
        context = make_context(settings) if protocol.endswith("SSL") else None
        self._encrypts = context is not None
        self._correlation = 0
        try:
            self._socket = socket.create_connection(address, seconds)
            self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            if context is not None:
                self._socket = context.wrap_socket(self._socket, server_hostname=address[0])
        except (OSError, ValueError) as error:
            raise self._silent(error) from error
        if login is not None:
            try:
                self._log_in(login)
            except PipelineError:
                self.close()
                raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the connection. Idempotent."""
        with suppress(OSError):
            self._socket.close()

    def wait(self, seconds: float) -> None:
        """Have each further wait for the broker take so many seconds at most."""
        self._seconds = seconds
        self._socket.settimeout(seconds)

    def ask(self, exchange: Exchange, request: Any) -> Any:
        """Send a request and return the broker's answer. Blocks."""
        self.send(exchange, request)
        return self.take(exchange)

    def send(self, exchange: Exchange, request: Any) -> None:
        """Send a request; `take` returns its answer.

        Raises:
            SourceUnavailable: the connection is gone.
        """
        table, version = exchange.request, exchange.version
        self._correlation += 1
        name = self._client_id.encode()
        tags = b"\0" if table.is_flexible(version) else b""
        body = table.write(version, request)
        size = _HEAD.size + len(name) + len(tags) + len(body)
        head = _HEAD.pack(table.key, version, self._correlation, len(name))
        try:
            self._socket.sendall(b"".join((size.to_bytes(4, "big"), head, name, tags, body)))
        except OSError as error:
            raise self._silent(error) from error

    def take(self, exchange: Exchange) -> Any:
        """Return the answer to the oldest request that waits for one. Blocks.

        Raises:
            SourceUnavailable: no answer comes, or one that cannot be read.
        """
        size = int.from_bytes(self._read(4), "big")
        if not _CORRELATION_BYTES <= size <= _MAX_FRAME_BYTES:
            raise self._silent(ValueError(_strange(size)))
        body = self._read(size)[_CORRELATION_BYTES:].toreadonly()
        table, version = exchange.response, exchange.version
        start = 1 if table.is_flexible(version) else 0
        try:
            return table.read(version, body, min(start, len(body)), len(body), room=len(body))[0]
        except ProtocolError as error:
            raise self._silent(error) from error

    def _read(self, size: int) -> memoryview:
        data = memoryview(bytearray(size))
        filled = 0
        try:
            while filled < size:
                count = self._socket.recv_into(data[filled:])
                if count == 0:
                    raise ConnectionError("it closed the connection")
                filled += count
        except OSError as error:
            raise self._silent(error) from error
        return data

    def _log_in(self, login: Login) -> None:
        """Log in.

        Raises:
            SourceUnavailable: the broker refuses the mechanism, or the login.
        """
        request = sasl_handshake.SaslHandshakeRequest(login.mechanism)
        if self.ask(_HANDSHAKE, request).error_code:
            raise SourceUnavailable(f"{self._name} does not take SASL {login.mechanism}")
        login.perform(self._authenticate)

    def _authenticate(self, message: bytes) -> bytes:
        request = sasl_authenticate.SaslAuthenticateRequest(message)
        answer = self.ask(_AUTHENTICATE, request)
        if answer.error_code:
            raise SourceUnavailable(f"{self._name} refuses the login: {answer.error_message}")
        challenge: bytes = answer.auth_bytes
        return challenge

    @property
    def _name(self) -> str:
        return f"{self._address[0]}:{self._address[1]}"

    def _silent(self, error: Exception) -> SourceUnavailable:
        untrusted = why_untrusted(error) if isinstance(error, OSError) else None
        if untrusted is not None:
            return SourceUnavailable(
                f"{self._name} is another broker than it should be: {untrusted}; name a PEM file "
                "of its authority by ssl.truststore.location"
            )
        why = getattr(error, "strerror", None) or error  # without its number
        if isinstance(error, TimeoutError):
            why = f"it has not answered for {self._seconds:g} s"
        elif self._encrypts and self._correlation == 0 and not isinstance(error, _NOT_THERE):
            why = f"it ends no TLS handshake ({getattr(error, 'reason', None) or why})"
        elif not self._encrypts and self._correlation == 1 and speaks_tls(self._address):
            why = "it speaks TLS; set security.protocol to SSL, or to SASL_SSL for a login"
        return SourceUnavailable(f"no Kafka broker answers at {self._name}: {why}; {self._remedy}")


def refused(settings: Mapping[str, str]) -> list[str]:
    """Return the security settings that the fetch transport could not obey."""
    return sorted(
        name
        for name in settings
        if name.startswith(("ssl.", "sasl.", "security.")) and name not in _OBEYED
    )


def split_addresses(bootstrap: str) -> list[tuple[str, int]]:
    """Return host and port of each address of a list with commas.

    Raises:
        BadOption: one of them has no port.
    """
    found = []
    for each in bootstrap.split(","):
        host, colon, port = each.strip().rpartition(":")
        if not colon or not port.isascii() or not port.isdigit():
            raise BadOption(f"kafka.bootstrap.servers={bootstrap} is not host:port,host:port")
        found.append((host.removeprefix("[").removesuffix("]"), int(port)))
    return found


def _strange(size: int) -> str:
    """Return the likely protocol of an answer that begins with this size."""
    if size.to_bytes(4, "big") == b"HTTP":
        return "it speaks HTTP, not Kafka's protocol"
    return f"an answer of {size} bytes is not one of Kafka's"

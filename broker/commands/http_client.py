"""One question to a running broker's HTTP port, for our own commands.

The code writes HTTP/1.0 to a socket by hand; the answer ends with the connection: ``http.client``
takes longer to import than all of ``siltstone health``, and would use a proxy that the environment
names.
"""

from __future__ import annotations

import socket
from typing import TYPE_CHECKING, NamedTuple

from siltstone.config.listeners import reachable, show_address
from siltstone.storage.directory.control import explain

if TYPE_CHECKING:
    import ssl

_MAX_ANSWER_BYTES = 1 << 30  # a pin of 200,000 partitions has a tenth of it
_READ_BYTES = 64 * 1024

REMEDY = "start it, or name the http.listener of the one that is meant by --config or --set"
"""Advice for a user when no broker answers."""


class ControlAnswer(NamedTuple):
    """HTTP status and body."""

    status: int
    body: bytes

    @property
    def sentence(self) -> str:
        """The body as text for a person."""
        return self.body.decode("utf-8", "replace").strip()


class UnansweredError(OSError):
    """The request was sent and no answer came: it may be done or not. The text says what came."""


def nobody_answers(address: tuple[str, int]) -> str:
    """Return the sentence that says that no broker's HTTP port listens at an address."""
    return f"no broker answers on http.listener {show_address(*address)}"


def ask(
    address: tuple[str, int],
    method: str,
    path: str,
    *,
    token: str = "",
    body: bytes = b"",
    timeout_seconds: float = 10.0,
    trust: ssl.SSLContext | None = None,
) -> ControlAnswer:
    """Send one request to host and port and return the answer; with ``trust`` over TLS. Blocks.

    Raises:
        OSError: No server listens, or it has another certificate.
        UnansweredError: No answer came in time.
        ValueError: The answer is not HTTP.
    """
    host, port = address
    head = [
        f"{method} {path} HTTP/1.0",
        f"Host: {host}:{port}",
        f"Content-Length: {len(body)}",
        *([f"Authorization: Bearer {token}"] if token else []),
    ]
    request = "\r\n".join([*head, "", ""]).encode() + body
    with _connect((reachable(host), port), timeout_seconds, trust) as connection:
        try:
            connection.sendall(request)
            answer = bytearray()
            while piece := connection.recv(_READ_BYTES):
                answer += piece
                if len(answer) > _MAX_ANSWER_BYTES:
                    raise ValueError(f"{host}:{port} sent more than {_MAX_ANSWER_BYTES} bytes")
        except TimeoutError as error:
            raise UnansweredError(f"did not answer within {timeout_seconds:g} s") from error
        except OSError as error:
            raise UnansweredError(f"ended the connection: {error}") from error
    status_line, _, rest = bytes(answer).partition(b"\r\n")
    words = status_line.split(b" ", 2)
    _, end_of_head, content = rest.partition(b"\r\n\r\n")
    if not words[0].startswith(b"HTTP/1.") or len(words) < 2 or not end_of_head:
        raise ValueError(f"{host}:{port} {_why_strange((reachable(host), port), trust)}")
    return ControlAnswer(int(words[1]), content)


def _why_strange(address: tuple[str, int], trust: ssl.SSLContext | None) -> str:
    if trust is None:
        from siltstone.pipeline.client.tls import speaks_tls  # noqa: PLC0415  # only where it fails

        if speaks_tls(address):
            return "speaks TLS; set http.security.protocol to SSL or SASL_SSL, as the broker has it"
    return "does not answer as the broker's http.listener does"


def _connect(
    address: tuple[str, int], timeout_seconds: float, trust: ssl.SSLContext | None
) -> socket.socket:
    connection = socket.create_connection(address, timeout_seconds)
    if trust is None:
        return connection
    try:
        return trust.wrap_socket(connection, server_hostname=address[0])
    except OSError as error:
        connection.close()
        raise OSError(explain(error)) from error

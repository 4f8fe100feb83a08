"""Clients that connect and then stall: a byte a second, no login, half a TLS handshake.

``python -m tests.support.strangers PLAIN SASL TLS COUNT`` opens so many of each at these ports,
prints ``ready``, and has them drip a byte a second until its standard input ends. A client that the
broker closes is replaced.
"""

import resource
import select
import socket
import ssl
import struct
import sys
from contextlib import suppress
from typing import Final

_API_VERSIONS: Final = struct.pack(">ihhih", 10, 18, 0, 7, -1)
_SLOW: Final = struct.pack(">ihhih", 60_000, 0, 9, 1, -1)
"""How a request begins that takes most of a day to come."""
_SECOND: Final = 1.0


def client_hello() -> bytes:
    """Return the first record that a client of TLS sends."""
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT).wrap_bio(
        incoming, outgoing, server_hostname="localhost"
    )
    with suppress(ssl.SSLWantReadError):
        tls.do_handshake()
    return outgoing.read()


class Stranger:
    """One connection: ``first`` is sent at once, ``slowly`` byte by byte."""

    def __init__(self, port: int, first: bytes, slowly: bytes) -> None:
        self._port = port
        self._first = first
        self._slowly = slowly
        self.open()

    def open(self) -> None:
        """Connect."""
        self._left = self._slowly
        self.socket = socket.create_connection(("127.0.0.1", self._port), timeout=60)
        self.socket.setblocking(False)
        self.is_closed = False
        self._send(self._first)

    def drip(self) -> None:
        """Send the next byte, if there is one, and take note if the broker has closed."""
        if self._left:
            self._send(self._left[:1])
            self._left = self._left[1:]
        try:
            self.is_closed = self.is_closed or not self.socket.recv(4096)
        except BlockingIOError:
            pass
        except OSError:
            self.is_closed = True

    def _send(self, data: bytes) -> None:
        try:
            self.socket.sendall(data)
        except OSError:
            self.is_closed = True


class Strangers:
    """So many of each kind; the ports may be the same."""

    def __init__(self, plain: int, sasl: int, tls: int, count: int) -> None:
        hello = client_hello()
        half = len(hello) // 2
        self.slow = [Stranger(plain, b"", _SLOW + bytes(50_000)) for _ in range(count)]
        self.unknown = [
            Stranger(sasl, _API_VERSIONS if number % 2 else b"", b"") for number in range(count)
        ]
        self.half = [Stranger(tls, hello[:half], hello[half:-1]) for _ in range(count)]

    @property
    def all(self) -> list[Stranger]:
        """All of them."""
        return [*self.slow, *self.unknown, *self.half]

    def drip(self) -> None:
        """Let each client send a byte."""
        for each in self.all:
            each.drip()

    def replace_closed(self) -> None:
        """Open others for those that the broker has closed."""
        for each in self.all:
            if each.is_closed:
                each.socket.close()
                each.open()

    def close(self) -> None:
        """Close all clients."""
        for each in self.all:
            each.socket.close()


def main(*words: str) -> None:
    """Drip until standard input ends."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    plain, sasl, tls, count = map(int, words)
    strangers = Strangers(plain, sasl, tls, count)
    print("ready", flush=True)  # noqa: T201  # its parent waits for this
    while not select.select([sys.stdin], [], [], _SECOND)[0]:
        strangers.drip()
        strangers.replace_closed()


if __name__ == "__main__":
    main(*sys.argv[1:])

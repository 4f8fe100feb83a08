"""One connection with one request in flight; kio writes the requests and reads the answers.

Nothing here waits for ever: an answer that does not come within a minute ends the case.
"""

from __future__ import annotations

import socket
import struct
import sys
import time
from functools import cache
from io import BytesIO
from typing import TYPE_CHECKING, Any

from kio.index import load_request_schema, load_response_schema
from kio.serial import entity_reader, entity_writer

if TYPE_CHECKING:
    from collections.abc import Callable

SECONDS = 60.0
_CORRELATION_ID = 7
_RETRY_SECONDS = 0.02


def part(request: Any, name: str) -> Any:
    """Return a class of the module that a request's class is in."""
    return getattr(sys.modules[request.__module__], name)


def request_class(key: int, version: int) -> Any:
    """Return the class of a request."""
    return load_request_schema(key, version)


def response_class(key: int, version: int) -> Any:
    """Return the class of an answer."""
    return load_response_schema(key, version)


def frame(request: Any, client: str | None = None) -> bytes:
    """Return the frame of a request."""
    kind = type(request)
    name = b"" if client is None else client.encode()
    length = -1 if client is None else len(name)
    head = struct.pack(">hhih", kind.__api_key__, kind.__version__, _CORRELATION_ID, length)
    whole = head + name + (b"\0" if kind.__flexible__ else b"") + _written(request)
    return len(whole).to_bytes(4, "big") + whole


def answer_frame(response: Any) -> bytes:
    """Return the frame of an answer."""
    flexible = type(response).__header_schema__.__flexible__
    whole = bytes(4) + (b"\0" if flexible else b"") + _written(response)
    return len(whole).to_bytes(4, "big") + whole


def read_answer(kind: Any, body: bytes) -> Any:
    """Return the answer to a request of that class, without the size before it."""
    response = response_class(kind.__api_key__, kind.__version__)
    _, size = _reader(response.__header_schema__)(body, 0)
    return _reader(response)(body, size)[0]


class Connection:
    """A socket to a broker on this machine."""

    def __init__(self, port: int) -> None:
        self.socket = socket.create_connection(("127.0.0.1", port), timeout=SECONDS)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._received = b""

    def fileno(self) -> int:
        """Return the socket's number, for a selector."""
        return self.socket.fileno()

    def close(self) -> None:
        """Close the socket."""
        self.socket.close()

    def send(self, data: bytes | bytearray) -> None:
        """Send a frame."""
        self.socket.sendall(data)

    def receive(self) -> bytes | None:
        """Receive once and return the answer without its size, None if it is not all there yet."""
        received = self.socket.recv(1 << 20)
        if not received:
            raise ConnectionError("the broker closed the connection")
        data = self._received + received
        if len(data) < 4 or len(data) < 4 + int.from_bytes(data[:4], "big"):
            self._received = data
            return None
        self._received = b""
        return data[4:]

    def exchange(self, data: bytes) -> bytes:
        """Send a frame and wait for its answer."""
        self.send(data)
        return self.wait()

    def wait(self) -> bytes:
        """Wait for the answer to what was sent."""
        while (body := self.receive()) is None:
            pass
        return body

    def ask(self, request: Any) -> Any:
        """Send a request and wait for its answer."""
        return read_answer(type(request), self.exchange(frame(request)))

    def ask_until(
        self, request: Any, is_good: Callable[[Any], bool], seconds: float = SECONDS
    ) -> Any:
        """Ask again and again until the answer is good: a coordinator takes a while to answer.

        Raises:
            TimeoutError: It has not been good for so long.
        """
        end = time.monotonic() + seconds
        while not is_good(answer := self.ask(request)):
            if time.monotonic() > end:
                raise TimeoutError(f"no good answer to {request}: {answer}")
            time.sleep(_RETRY_SECONDS)
        return answer


def _written(entity: Any) -> bytes:
    body = BytesIO()
    kind: Any = type(entity)
    _writer(kind)(body, entity)
    return body.getvalue()


@cache
def _writer(kind: Any) -> Any:
    return entity_writer(kind)


@cache
def _reader(kind: Any) -> Any:
    return entity_reader(kind)

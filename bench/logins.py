"""Clients that connect, log in by SCRAM-SHA-256 and leave, as fast as they can.

``python -m bench.logins PORT SECONDS THREADS [AUTHORITY]``: with the certificate of an authority
they speak TLS. Each process is one of several; it prints how many logins it had as JSON. The salted
password is computed once for all of them, as it is by a client that keeps it: it would cost more
than all the rest, and no broker computes it.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import os
import socket
import ssl
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from struct import pack, unpack_from
from typing import TYPE_CHECKING, Final, NamedTuple

from bench.secured import PASSWORD, USER

if TYPE_CHECKING:
    from collections.abc import Sequence

_HANDSHAKE: Final = 17
_AUTHENTICATE: Final = 36
_MECHANISM: Final = b"SCRAM-SHA-256"
_CLIENT: Final = b"bench"
_HEAD_BYTES: Final = 10
"""Of an answer: its size, its correlation id, an error."""
_TIMEOUT: Final = 30.0


class Told(NamedTuple):
    """How long a process has run, and how long each of its logins took."""

    seconds: float
    took: list[float]


def told(text: str) -> Told:
    """Return what a process has printed."""
    return Told(**json.loads(text))


def main(words: Sequence[str]) -> int:
    """Log in until the time is over, and print what was had."""
    port, seconds, threads = int(words[0]), float(words[1]), int(words[2])
    context = None
    if len(words) > 3:
        context = ssl.create_default_context(cafile=words[3])
    end = time.monotonic() + seconds
    began = time.monotonic()
    with ThreadPoolExecutor(threads) as pool:
        work = [pool.submit(_log_in_until, end, port, context) for _ in range(threads)]
        took = [each for one in work for each in one.result()]
    print(json.dumps(Told(time.monotonic() - began, took)._asdict()))
    return 0


def _log_in_until(end: float, port: int, context: ssl.SSLContext | None) -> list[float]:
    """Log in once, and again until the time is over; return how long each login took."""
    took: list[float] = []
    while not took or time.monotonic() < end:
        began = time.monotonic()
        log_in(port, context)
        took.append(time.monotonic() - began)
    return took


def log_in(port: int, context: ssl.SSLContext | None) -> None:
    """Connect, have both sides prove that they know the password, and leave.

    Raises:
        RuntimeError: The broker refuses, or does not know the password.
    """
    with socket.create_connection(("127.0.0.1", port), timeout=_TIMEOUT) as plain:
        plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if context is None:
            _converse(plain)
            return
        with context.wrap_socket(plain, server_hostname="127.0.0.1") as encrypted:
            _converse(encrypted)


def _converse(sock: socket.socket) -> None:
    _ask(sock, _HANDSHAKE, pack(">h", len(_MECHANISM)) + _MECHANISM)
    nonce = base64.b64encode(os.urandom(18))
    first = b"n=" + USER.encode() + b",r=" + nonce
    challenge = _authenticate(sock, b"n,," + first)
    told = dict(each.split(b"=", 1) for each in challenge.split(b","))
    keys = _keys(base64.b64decode(told[b"s"]), int(told[b"i"]))
    client_key, server_key = keys
    without_proof = b"c=biws,r=" + told[b"r"]
    signed = b",".join((first, challenge, without_proof))
    signature = hmac.digest(hashlib.sha256(client_key).digest(), signed, "sha256")
    proof = bytes(a ^ b for a, b in zip(client_key, signature, strict=True))
    last = _authenticate(sock, without_proof + b",p=" + base64.b64encode(proof))
    if last != b"v=" + base64.b64encode(hmac.digest(server_key, signed, "sha256")):
        raise RuntimeError(f"the broker does not know the password: {last!r}")


@cache
def _keys(salt: bytes, iterations: int) -> tuple[bytes, bytes]:
    salted = hashlib.pbkdf2_hmac("sha256", PASSWORD.encode(), salt, iterations)
    return hmac.digest(salted, b"Client Key", "sha256"), hmac.digest(
        salted, b"Server Key", "sha256"
    )


def _authenticate(sock: socket.socket, token: bytes) -> bytes:
    answer = _ask(sock, _AUTHENTICATE, pack(">i", len(token)) + token)
    (length,) = unpack_from(">h", answer, _HEAD_BYTES)
    at = _HEAD_BYTES + 2 + max(length, 0)
    (size,) = unpack_from(">i", answer, at)
    return answer[at + 4 : at + 4 + size]


def _ask(sock: socket.socket, key: int, body: bytes) -> bytes:
    """Send a request of version 1 and return its answer, which has no error."""
    head = pack(">hhih", key, 1, 7, len(_CLIENT)) + _CLIENT
    sock.sendall(pack(">i", len(head) + len(body)) + head + body)
    answer = b""
    while len(answer) < 4 or len(answer) < 4 + int.from_bytes(answer[:4], "big"):
        received = sock.recv(4096)
        if not received:
            raise RuntimeError("the broker closed the connection")
        answer += received
    (error,) = unpack_from(">h", answer, 8)
    if error:
        raise RuntimeError(f"the broker refused request {key}: {answer!r}")
    return answer


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

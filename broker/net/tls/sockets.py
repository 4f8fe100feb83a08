"""The sockets that a listener encrypts by, each of whose failures stays its own.

OpenSSL keeps errors in a queue of the thread, not of the connection. When a call did not end, the
``ssl`` module looks there first for the reason. Since OpenSSL 3.2 a send that the kernel refuses
leaves an entry in it, and the modules of Python 3.12.9, 3.13.2 and later raise OSError of it and
leave it there. The next connection of this thread that only had to wait would be taken for the
broken one, and so would all after it. So the queue is emptied where a call has failed; a call that
succeeds, or has to wait, costs no more than before.

A handshake needs none of this: OpenSSL begins each step of one with an empty queue.
"""

from __future__ import annotations

import ssl
from contextlib import suppress
from functools import wraps
from typing import TYPE_CHECKING, Concatenate, Final, ParamSpec, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable

P = ParamSpec("P")
T = TypeVar("T")

_NO_SUITES: Final = "none"
_REFUSING: Final = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
"""A context for nothing but to refuse a list of cipher suites."""


def forget_errors() -> None:
    """Empty the error queue that OpenSSL keeps for this thread, in some 20 microseconds.

    The ``ssl`` module has no call for just that. It empties the queue before it refuses a list
    without a single suite that OpenSSL knows, and nothing changes by the refusal.
    """
    with suppress(ssl.SSLError):
        _REFUSING.set_ciphers(_NO_SUITES)


def _leaving_no_error(
    call: Callable[Concatenate[ssl.SSLSocket, P], T],
) -> Callable[Concatenate[ssl.SSLSocket, P], T]:
    @wraps(call)
    def made(sock: ssl.SSLSocket, /, *args: P.args, **kwargs: P.kwargs) -> T:
        try:
            return call(sock, *args, **kwargs)
        except (ssl.SSLWantReadError, ssl.SSLWantWriteError):
            raise
        except OSError:
            forget_errors()
            raise

    return made


class TlsSocket(ssl.SSLSocket):
    """A socket that leaves no error to the other connections of its thread."""

    read = _leaving_no_error(ssl.SSLSocket.read)
    """By which ``recv`` and ``recv_into`` get their bytes, too."""
    send = _leaving_no_error(ssl.SSLSocket.send)
    unwrap = _leaving_no_error(ssl.SSLSocket.unwrap)

"""The encrypted sockets of a listener; a failure of one does not affect another.

OpenSSL keeps errors in a queue of the thread, not of the connection. If a call is incomplete, the
``ssl`` module first looks into this queue for the reason. Since OpenSSL 3.2 a send that the kernel
refuses leaves an entry in the queue; the modules of Python 3.12.9, 3.13.2 and later raise OSError
for the entry and leave it there. Then the next connection of this thread that only had to wait
would seem to be broken, and so would all later ones. So the queue is emptied when a call has
failed; a call that succeeds, or has to wait, costs no more than before.

A handshake does not need this: OpenSSL empties the queue before each step of it.
"""

import ssl
from collections.abc import Callable
from contextlib import suppress
from functools import wraps
from typing import Concatenate, Final, ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")

_NO_SUITES: Final = "none"
_REFUSING: Final = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
"""A context that is only used to refuse a list of cipher suites."""


def forget_errors() -> None:
    """Empty the error queue that OpenSSL keeps for this thread, in some 20 microseconds.

    The ``ssl`` module has no call for this. But it empties the queue when it refuses a list of
    cipher suites that OpenSSL does not know, and the refusal changes nothing else.
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
    """``recv`` and ``recv_into`` use it, too."""
    send = _leaving_no_error(ssl.SSLSocket.send)
    unwrap = _leaving_no_error(ssl.SSLSocket.unwrap)

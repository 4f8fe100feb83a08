"""The sources of keys: a file, or one https URL that the configuration has named twice.

A fetch is small and takes seconds at most. Only that URL is asked: no proxy is used and no redirect
is followed.
"""

import os
import socket
import ssl
import stat
from collections.abc import Callable
from functools import partial
from http.client import HTTPException
from typing import Final
from urllib.parse import urlsplit

from siltstone.broker.process import sockets
from siltstone.config.oauth import OAuthSettings, path_of
from siltstone.config.trust import make_client_context, why_untrusted
from siltstone.storage import files, threads

MAX_BYTES: Final = 1 << 20
CONNECT_SECONDS: Final = 5.0
ANSWER_SECONDS: Final = 5.0
_LATE: Final = "its answer takes too long"
_OK: Final = 200
_WRITABLE_BY_ALL: Final = 0o002


class SourceError(Exception):
    """Keys cannot be read; the text says why."""


def make_reader(settings: OAuthSettings) -> Callable[[], bytes]:
    """Return the function that reads a listener's keys; it blocks, and may raise `SourceError`.

    Raises:
        SourceError: The file of authorities for the https URL cannot be read.
    """
    path = path_of(settings.url)
    if path is not None:
        return partial(read_file, path)
    try:
        context = make_client_context(settings.authorities)
    except (OSError, ValueError) as error:
        raise SourceError(
            f"ssl.truststore.location {settings.authorities} cannot be read as PEM certificates"
        ) from error
    return partial(fetch, settings.url, context)


def read_file(path: str) -> bytes:
    """Return the content of a file. Blocks.

    Raises:
        SourceError: The file cannot be read, is no regular file, is too large, or everybody may
            write it.
    """
    try:
        content = files.read_checked(path, _check, MAX_BYTES + 1, follow=True)
    except (OSError, ValueError) as error:
        words = error.strerror if isinstance(error, OSError) else "its path has a zero byte"
        raise SourceError(f"it cannot be read: {words}") from error
    return _not_too_much(content)


def _check(status: os.stat_result) -> None:
    if not stat.S_ISREG(status.st_mode):
        raise SourceError("it is no regular file")
    if status.st_mode & _WRITABLE_BY_ALL:
        raise SourceError("everybody may write it; run chmod o-w on it")


def fetch(url: str, context: ssl.SSLContext) -> bytes:
    """Return the answer of an https URL. Blocks for some seconds at most.

    Raises:
        SourceError: The answer is not 200, too large, too late or missing.
    """
    parts = urlsplit(url)
    target = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
    connection = sockets.ask_https(str(parts.hostname), parts.port, CONNECT_SECONDS, context)
    is_late = threads.Event()
    try:
        connection.connect()
        end = threads.Timer(ANSWER_SECONDS, _shut, [connection.sock, is_late])
        end.start()
        try:
            connection.request("GET", target, headers={"Accept": "application/json"})
            with connection.getresponse() as response:
                content = response.read(MAX_BYTES + 1)
                if is_late.is_set():
                    raise SourceError(_LATE)
                if response.status != _OK:
                    raise SourceError(f"it answers {response.status}")
                return _not_too_much(content)
        finally:
            end.cancel()
            end.join()
    except (OSError, HTTPException) as error:
        raise SourceError(_LATE if is_late.is_set() else _why_silent(error)) from error
    finally:
        connection.close()


def _why_silent(error: OSError | HTTPException) -> str:
    untrusted = why_untrusted(error) if isinstance(error, OSError) else None
    if untrusted is None:
        return f"it does not answer: {type(error).__name__}"
    return (
        f"{untrusted}; name a PEM file of its authority by ssl.truststore.location in "
        "sasl.jaas.config"
    )


def _shut(channel: socket.socket, is_late: threads.Event) -> None:
    """Shut down a connection below TLS, from another thread, so that waiting for the peer ends."""
    is_late.set()
    try:
        sockets.shut(channel)
    except OSError:
        return  # it has ended by itself


def _not_too_much(content: bytes) -> bytes:
    if len(content) > MAX_BYTES:
        raise SourceError(f"it has more than {MAX_BYTES} bytes")
    return content

"""The ``tls-sender-N`` threads: they read and encrypt large answers in place of the loop.

AES of a megabyte takes a millisecond, and OpenSSL releases the GIL meanwhile. A sender waits in an
epoll set, which all senders share, for sockets with room, and fills each of them.
"""

import asyncio
import errno
import os
import ssl
from collections.abc import Callable, Iterable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Final

from siltstone.broker.process import sockets
from siltstone.protocol.parts import FileSlice
from siltstone.storage import threads
from siltstone.storage.files import disk

CHUNK_BYTES: Final = 128 * 1024
"""How many bytes are encrypted at a time; none are kept while a socket has no room."""


@dataclass(slots=True)
class _Row:
    """The parts for one socket, how many bytes have left, and the callback for the end."""

    tls: ssl.SSLSocket
    parts: Sequence[bytes | memoryview | FileSlice]
    finished: Callable[[str | Exception | None], None]
    sent: int = 0


class TlsSenders:
    """``count`` sender threads (loop only, except `_serve`).

    Invariants: a socket that was handed over belongs to the senders until ``finished`` is called
    for it, on the loop. Until then nobody else reads or writes it: OpenSSL keeps one state for
    both. To close such a socket, shut it down; then it is reported. A socket is watched for one
    report of room (EPOLLONESHOT), so that only one thread at a time has it.
    """

    def __init__(self, count: int) -> None:
        self._loop = asyncio.get_running_loop()
        self._owed: dict[int, _Row] = {}  # the key is the socket
        with ExitStack() as undo:
            self._watch = sockets.Watch()
            undo.callback(self._watch.close)
            self._threads = threads.start_threads("tls-sender", count, self._serve)
            undo.pop_all()

    def send(
        self,
        tls: ssl.SSLSocket,
        parts: Sequence[bytes | memoryview | FileSlice],
        finished: Callable[[str | Exception | None], None],
    ) -> None:
        """Send ``parts``; ``finished`` gets None when all have left, or the reason of a failure.

        An error is a fault of the broker, a text one of the peer or of a file.

        Raises:
            OSError: The kernel watches no more sockets; nothing was handed over.
        """
        socket = tls.fileno()
        self._owed[socket] = _Row(tls, parts, finished)
        try:
            self._watch.add(socket)
        except OSError:
            del self._owed[socket]
            raise

    def close(self) -> None:
        """End the threads; what they have not sent is dropped."""
        self._watch.end()
        for thread in self._threads:
            thread.join()
        while self._owed:
            _, row = self._owed.popitem()
            row.finished(os.strerror(errno.ECANCELED))
        self._watch.close()

    def _serve(self) -> None:
        """Send the parts of sockets with room, until `close`. It runs on a sender thread."""
        scratch = memoryview(bytearray(CHUNK_BYTES))
        while (socket := self._watch.wait()) is not None:
            row = self._owed[socket]
            try:
                if not _send(row, scratch):
                    self._watch.add(socket)
                    continue
                reason: str | Exception | None = None
            except OSError as error:
                reason = error.strerror or str(error)
            except Exception as error:  # noqa: BLE001  # the other sockets need the thread
                reason = error
            self._loop.call_soon_threadsafe(self._finish, socket, row, reason)

    def _finish(self, socket: int, row: _Row, reason: str | Exception | None) -> None:
        if self._owed.get(socket) is row:
            del self._owed[socket]
            row.finished(reason)


def _send(row: _Row, scratch: memoryview) -> bool:
    """Send until a socket is full; return whether all was sent. It runs on a sender thread.

    Bytes that the socket did not accept are read again the next time. OpenSSL continues the record
    that it began, and only needs the same bytes again.
    """
    while size := fill(row.parts, scratch, row.sent):
        try:
            row.sent += row.tls.send(scratch[:size])
        except ssl.SSLWantWriteError:
            return False
    return True


def fill(
    parts: Iterable[bytes | memoryview | FileSlice], scratch: memoryview, skipped: int = 0
) -> int:
    """Copy ``parts`` without their first bytes until the memory is full; return how many bytes.

    Raises:
        OSError: A file fails, or is shorter than its range.
    """
    filled = 0
    for part in parts:
        if skipped >= len(part):
            skipped -= len(part)
            continue
        size = min(len(part) - skipped, len(scratch) - filled)
        if not size:
            break
        into = scratch[filled : filled + size]
        if isinstance(part, FileSlice):
            _read(part.file.fileno(), part.position + skipped, into)
        else:
            into[:] = part[skipped : skipped + size]
        filled += size
        skipped = 0
    return filled


def _read(file: int, position: int, into: memoryview) -> None:
    while into:
        got = disk.preadv(file, [into], position)
        if not got:
            raise OSError(errno.EIO, f"file ends before position {position + len(into)}")
        position += got
        into = into[got:]

"""The ``sender-N`` threads: they send large file ranges, so that several cores share this work.

``sendfile`` of a megabyte takes a tenth of a millisecond or two in the kernel, which is most of the
cost of a fetch. A sender is one compiled call from start to stop: it waits in an epoll set, which
all senders share, for sockets with room, and never needs the GIL.
"""

import asyncio
import errno
from collections.abc import Callable
from contextlib import ExitStack
from struct import Struct
from typing import ClassVar

from siltstone.broker.net.sending._sending import Table
from siltstone.broker.process import sockets
from siltstone.protocol.parts import FileSlice
from siltstone.storage import threads

_MAX_SOCKETS = 1 << 16
_NUMBER = Struct("q")
_READ_BYTES = 512 * _NUMBER.size


class Senders:
    """``count`` sender threads (loop only, except their compiled loop).

    Invariants: a socket that was handed over belongs to the senders until ``finished`` is called
    for it, on the loop. Until then nobody else sends on it, and its descriptor and the file's stay
    open. To close such a socket, shut it down; then it is reported. The pipe of reports has room
    for every socket, so no sender waits for the loop.
    """

    tail_bytes: ClassVar[int] = 8
    """How many bytes may follow a range; the end of a fetch's answer is three."""

    def __init__(self, count: int) -> None:
        self._loop = asyncio.get_running_loop()
        self._owed: dict[int, tuple[FileSlice, Callable[[int], None]]] = {}  # the key is the socket
        with ExitStack() as undo:
            self._watch = sockets.Watch()
            undo.callback(self._watch.close)
            self._reports = sockets.Pipe(_MAX_SOCKETS * _NUMBER.size)
            undo.callback(self._reports.close)
            self._table = Table(self._reports.size // _NUMBER.size)
            self.max_sockets = self._table.sockets
            self._loop.add_reader(self._reports.output, self._on_reports)
            undo.callback(self._loop.remove_reader, self._reports.output)
            watched = self._watch.fileno(), self._watch.stop, self._reports.input
            self._threads = threads.start_threads("sender", count, self._table.serve, *watched)
            undo.pop_all()

    def can_take(self, socket: int) -> bool:
        """Return whether the senders accept ranges for a socket."""
        return socket < self.max_sockets

    def send(
        self, socket: int, part: FileSlice, tail: bytes, finished: Callable[[int], None]
    ) -> None:
        """Send a range, and then ``tail``, at most ``tail_bytes``.

        ``finished`` gets 0 when all of it has left, or the error number that ended it.

        Raises:
            OSError: The kernel watches no more sockets; nothing was handed over.
        """
        self._table.fill(socket, part.file.fileno(), part.position, part.size, tail)
        self._watch.add(socket)
        self._owed[socket] = part, finished

    def close(self) -> None:
        """End the threads; what they have not sent is dropped."""
        self._watch.end()
        for thread in self._threads:
            thread.join()
        if not self._loop.is_closed():
            self._loop.remove_reader(self._reports.output)
        self._on_reports()
        while self._owed:
            _, (_, finished) = self._owed.popitem()
            finished(errno.ECANCELED)
        self._watch.close()
        self._reports.close()

    def _on_reports(self) -> None:
        try:
            reports = self._reports.read(_READ_BYTES)
        except BlockingIOError:
            return
        for (socket,) in _NUMBER.iter_unpack(reports):
            _, finished = self._owed.pop(socket)
            finished(self._table.error_of(socket))

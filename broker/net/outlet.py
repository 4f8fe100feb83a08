"""Waits on behalf of a channel: for room, for pages of a file, or for a sender."""

import asyncio
import errno
import os
from collections.abc import Callable

from siltstone.broker.net.turn.turn import INLINE_BYTES, Transport
from siltstone.broker.process.io import IoThreads
from siltstone.protocol.parts import FileSlice
from siltstone.storage.files import disk


def warm(file: int, position: int, size: int) -> None:
    """Read a file range into the page cache. It waits for the disk, so only io threads call it.

    Raises:
        OSError: The disk fails, or the file is shorter than the range says.
    """
    disk.posix_fadvise(file, position, size, os.POSIX_FADV_WILLNEED)
    end = position + size
    while position < end:
        got = len(disk.pread(file, min(INLINE_BYTES * 4, end - position), position))
        if not got:
            raise OSError(errno.EIO, f"file ends before position {end}")
        position += got


def ignore(_why: str | Exception = "") -> None:
    """Do nothing: the callback of a closed channel, whose connection is gone."""


class Outlet:
    """The part of a channel that waits (loop only): for room, for pages of a file, for a sender.

    Invariants: it waits for one thing at a time (``is_waiting``), and nothing is sent meanwhile.
    While a sender has ``handed`` bytes, only the sender uses the socket. ``on_drained`` is called
    when the parts that did not leave at once have left, ``on_lost`` with a reason when a file
    fails.
    """

    __slots__ = (
        "_channel", "_io", "_is_watching", "_loop", "_on_drained", "_on_lost", "_warming", "handed",
        "is_waiting",
    )  # fmt: skip

    def __init__(
        self,
        channel: Transport,
        loop: asyncio.AbstractEventLoop,
        io: IoThreads,
        on_drained: Callable[[], None],
        on_lost: Callable[[str | Exception], None],
    ) -> None:
        self._channel = channel
        self._loop = loop
        self._io = io
        self._on_drained = on_drained
        self._on_lost = on_lost
        self._is_watching = False
        self.is_waiting = False
        self._warming: FileSlice | None = None  # keeps the file open while a thread reads it
        self.handed = 0

    def watch(self) -> None:
        """Call ``flush`` when the socket has room."""
        if not self._is_watching:
            self._loop.add_writer(self._channel.fileno, self.resume)
            self._is_watching = self.is_waiting = True

    def close(self) -> None:
        """Stop waiting and drop the reference to the connection, before its socket is closed."""
        self.stop_watching()
        self._on_drained = self._on_lost = ignore

    def stop_watching(self) -> None:
        """Stop waiting for room."""
        if self._is_watching:
            self._loop.remove_writer(self._channel.fileno)
            self._is_watching = self.is_waiting = False

    def warm(self, part: FileSlice, count: int) -> None:
        """Read cold pages on an io thread; sending continues when the pages are in memory."""
        self.stop_watching()
        self._warming = part
        self.is_waiting = True
        future = self._io.run(warm, part.file.fileno(), part.position, count)
        future.add_done_callback(self._on_warm)

    def hand_over(self, count: int) -> None:
        """Note that a sender has the socket until it has sent ``count`` bytes."""
        self.stop_watching()
        self.handed = count
        self.is_waiting = True

    def take_back(self) -> int:
        """Note that the sender is done; return how many bytes it had."""
        handed, self.handed = self.handed, 0
        self.is_waiting = False
        return handed

    def resume(self) -> None:
        """Continue to send, and call ``on_drained`` when everything has left."""
        channel = self._channel
        if channel.unsent:
            try:
                channel.flush()
            except Exception as error:  # noqa: BLE001  # the caller has other sockets to serve
                self._on_lost(error)
        if not channel.unsent and channel.fileno >= 0:
            self.stop_watching()
            self._on_drained()

    def _on_warm(self, done: asyncio.Future[None]) -> None:
        self._warming = None
        self.is_waiting = False
        if done.cancelled() or not self._channel.unsent:
            return
        error = done.exception()
        if error is not None:
            self._on_lost(str(error))
            return
        self.resume()
